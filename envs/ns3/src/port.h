// SPDX-License-Identifier: GPL-2.0-only
// The egress port of a switch: a finite queue in front of a transmitter with exact speed.
#pragma once

#include "discipline.h"
#include "frame.h"
#include "pauses.h"
#include "programs.h"
#include "ranked_queue.h"
#include "records.h"
#include "wire.h"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace ncc
{

class Port;

ncc_sw_packet SeenFrame(const Frame &frame); // as programs see it

// A shared buffer, and the ports that share it.
struct SharedPool : Pool {
    using Pool::Pool;
    std::vector<Port *> ports;
};

// A FIFO of known speed knows at a packet's arrival when its transmission will start. A hop therefore takes one event
// (the arrival at the far end), and the queue is updated only when its state is needed. A port with classes or ranks
// cannot know this time, and one that marks on departure or has programs for it cannot know the marks: these hold
// waiting packets, and take a second event for each.
class Port
{
  public:
    // `pool` is that of `queue.pool` and outlives this; null: none. It must list this port before packets come.
    // `programs` empty: none. `gone` gets a frame that others have pushed out of the queue, and `tell` what a program
    // has to tell the sender of a frame. `pausable`: the far end of its link may pause it.
    Port(const Wire &wire, const QueueSpec &queue, const std::vector<ProgramSpec> &programs, SharedPool *pool,
         uint64_t seed, uint32_t mtu_bytes, bool pausable, std::function<void(Frame *)> gone,
         std::function<void(uint32_t, ncc_cc_signal)> tell);

    // Programs (switch.h). `arm(program, delay_ns)` is to call `ProgramTimer`.
    void StartPrograms(std::function<void(uint32_t, int64_t)> arm);
    void ProgramTimer(uint32_t program, int64_t now_ns);
    bool sees_reverse() const { return programs_ && programs_->need(NCC_SW_REVERSE); }
    bool pauses() const { return programs_ && programs_->need(NCC_SW_INGRESS); }
    void Reverse(Frame *frame, int64_t now_ns); // it has come over this port's link
    Port *seen_by = nullptr;                    // the port back, if programs are to see what this one sends
    uint32_t id = 0;                            // directed port

    static constexpr int64_t kDropped = -1, kHeld = -2;

    // Takes the frame at `now`. Returns its arrival time at the far end, or kDropped (the frame still belongs to the
    // caller), or kHeld (`Next` will return it).
    int64_t Enqueue(Frame *frame, int64_t now_ns);

    // While frames are held, the caller must call `Next` at `free_ns`, which changes with each call.
    size_t held_pkts() const { return held_ ? held_->pkts : 0; }
    // True while a call of `Next` is due. One frame may have pushed out all others and wait alone.
    bool serving() const { return held_->serving; }
    void Serve(bool due) { held_->serving = due; }
    // PFC: this port sends nothing while the far end of its link has paused it.
    bool paused() const { return held_ && held_->paused; }
    void Pause(bool on, int64_t now_ns)
    {
        held_->paused = on;
        held_->paused_at_ns = now_ns;
    }
    // True if it has been paused for long, has something to send, and `far`, at the other end, still means the pause.
    bool LongPaused(const Port &far, int64_t now_ns) const
    {
        return paused() && held_pkts() > 0 && now_ns - held_->paused_at_ns >= kLongPauseNs && far.pauses_at_ns_ >= 0 &&
               far.pauses_at_ns_ <= held_->paused_at_ns;
    }
    PausedPort Paused() const; // with what waits
    // PFC, the other side: adds to the bytes that came over this link and wait at this switch. Returns when a frame
    // that pauses the far end (`pauses_now`) or resumes it will arrive there; kNoPause: there is none.
    static constexpr int64_t kNoPause = -1;
    int64_t Ingress(int64_t bytes, int64_t now_ns);
    bool pauses_now() const { return pauses_at_ns_ >= 0; }
    int64_t ingress_bytes() const { return ingress_bytes_; }
    int64_t free_ns() const { return (free_ps_ + kPsPerNs - 1) / kPsPerNs; }

    // Starts the next held frame; `arrival_ns` is its arrival at the far end.
    struct Started {
        Frame *frame;
        int64_t arrival_ns;
    };
    Started Next(int64_t now_ns);

    // Updates totals, queue and its integral to `now`. A packet has left the queue once its transmission has begun.
    void Advance(int64_t now_ns);

    const Wire &wire() const { return wire_; }
    PortTotals totals(int64_t now_ns) const
    {
        PortTotals totals = totals_;
        totals.paused_ns += pauses_at_ns_ < 0 ? 0 : now_ns - pauses_at_ns_;
        return totals;
    }
    int64_t queue_bytes() const { return queue_bytes_; }
    // Returns the byte-nanoseconds waited since the last call.
    double TakeQueueIntegral()
    {
        double taken = integral_;
        integral_ = 0;
        return taken;
    }
    // Drops or marks the nth data packet that arrives from now on (1: the next), whatever the queue.
    void DropNth(uint64_t nth) { drops_in_.push_back(nth); }
    void MarkNth(uint64_t nth) { mark_in_ = nth; }

  private:
    struct Waiting {
        int64_t joined_ns, start_ps;
        uint32_t bytes;
    };
    struct Held { // by class, the most urgent first; or by rank
        std::array<std::deque<Frame *>, NCC_SW_CLASSES> of;
        RankedQueue<Frame *> by_rank;
        size_t pkts = 0;
        bool ranked = false, serving = false, paused = false;
        int64_t paused_at_ns = 0;
    };

    ncc_verdict Admit(const Frame &frame, bool waits, bool planned, int64_t now_ns);
    bool Planned(const Frame &frame);
    ncc_verdict Programmed(Frame *frame, ncc_verdict verdict, bool planned, uint64_t &rank, int64_t now_ns);
    ncc_verdict Call(ncc_sw_needs hook, ncc_sw_packet &packet, ncc_verdict verdict, int64_t now_ns);
    bool MakeRoom(uint32_t ip_bytes, uint64_t rank);
    void Leaving(Frame *frame, int64_t now_ns);
    ncc_sw_port Seen(int64_t now_ns) const;
    size_t ClassOf(const Frame &frame) const;
    void Count(const Frame &frame, ncc_verdict verdict);
    void Join(uint32_t bytes);
    void Leave(uint32_t bytes, int64_t start_ps, int64_t joined_ns);
    void MarkLeaving(Frame *frame);
    void Integrate(int64_t until_ps);

    Wire wire_;
    Discipline discipline_;
    SharedPool *pool_;
    PortTotals totals_;
    std::deque<Waiting> queue_; // used by a FIFO
    bool control_first_;
    size_t classes_;
    std::unique_ptr<Held> held_; // null: a FIFO
    std::unique_ptr<Programs> programs_;
    std::function<void(uint32_t, int64_t)> arm_;
    std::function<void(Frame *)> gone_;
    std::function<void(uint32_t, ncc_cc_signal)> tell_;
    int64_t size_bytes_;
    uint32_t mtu_bytes_;
    int64_t queue_bytes_ = 0, ingress_bytes_ = 0, pauses_at_ns_ = -1; // -1: no pause
    int64_t free_ps_ = 0; // time at which the transmitter has sent everything
    int64_t updated_ps_ = 0;
    double integral_ = 0;
    std::vector<uint64_t> drops_in_; // data packets until each; 1: the next
    uint64_t mark_in_ = 0;
};

} // namespace ncc
