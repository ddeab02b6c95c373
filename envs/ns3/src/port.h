// SPDX-License-Identifier: GPL-2.0-only
// The egress port of a switch: a finite FIFO with step marking before a transmitter of exact speed.
#pragma once

#include "frame.h"
#include "records.h"
#include "wire.h"

extern "C" {
#include "step_mark.h"
}

#include <cstdint>
#include <deque>

namespace ncc
{

// As a FIFO of known speed, the port knows when each packet will start when it arrives. So a hop takes one event (the
// arrival at the far end), and the queue is brought up to date only when somebody asks.
class Port
{
  public:
    Port(const Wire &wire, const ncc_step_mark &discipline) : wire_(wire), discipline_(discipline) {}

    // Takes the frame at `now`. Returns when it arrives at the far end, or -1: dropped (the frame is still the
    // caller's).
    int64_t Enqueue(Frame *frame, int64_t now_ns);

    // Brings totals, queue and its integral up to `now`: a packet has left the queue once its transmission has begun.
    void Advance(int64_t now_ns);

    const Wire &wire() const { return wire_; }
    const PortTotals &totals() const { return totals_; }
    int64_t queue_bytes() const { return queue_bytes_; }
    // Byte-nanoseconds waited since the last call.
    double TakeQueueIntegral()
    {
        double taken = integral_;
        integral_ = 0;
        return taken;
    }
    // Drops or marks the nth data packet to arrive from now on (1: the next), whatever the queue.
    void DropNth(uint64_t nth) { drop_in_ = nth; }
    void MarkNth(uint64_t nth) { mark_in_ = nth; }

  private:
    struct Waiting {
        int64_t joined_ns, start_ps;
        uint32_t bytes;
    };

    Wire wire_;
    ncc_step_mark discipline_;
    PortTotals totals_;
    std::deque<Waiting> queue_;
    int64_t queue_bytes_ = 0;
    int64_t free_ps_ = 0; // when the transmitter has sent all it was given
    int64_t updated_ps_ = 0;
    double integral_ = 0;
    uint64_t drop_in_ = 0, mark_in_ = 0;
};

} // namespace ncc
