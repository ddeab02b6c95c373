// SPDX-License-Identifier: GPL-2.0-only
// The egress port of a switch: a finite FIFO with step marking before a transmitter of exact speed.
#pragma once

#include "frame.h"

extern "C" {
#include "step_mark.h"
}

#include <cstdint>
#include <deque>

namespace ncc
{

constexpr int64_t kPsPerNs = 1000;

// Serialisation times to the picosecond: a whole number of nanoseconds would be 0.03 % off at 10 Gbps.
struct Wire {
    Wire(double rate_bps, int64_t delay_ns, uint32_t overhead_bytes, uint32_t to)
        : rate_bps(rate_bps), delay_ns(delay_ns), overhead_bytes(overhead_bytes), to(to), ps_per_byte(8e12 / rate_bps)
    {
    }

    int64_t SerialisationPs(uint32_t ip_bytes) const
    {
        return static_cast<int64_t>((ip_bytes + overhead_bytes) * ps_per_byte + 0.5);
    }

    double rate_bps;
    int64_t delay_ns;
    uint32_t overhead_bytes;
    uint32_t to; // node at the far end
    double ps_per_byte;
};

struct PortTotals {
    int64_t tx_pkts = 0, tx_bytes = 0, dropped_pkts = 0, marked_pkts = 0, queue_max_bytes = 0;
    int64_t delay_ns = 0; // summed over transmitted packets
};

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
    // Drops the nth data packet to arrive from now on (1: the next), whatever the queue.
    void DropNth(uint64_t nth) { drop_in_ = nth; }

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
    uint64_t drop_in_ = 0;
};

} // namespace ncc
