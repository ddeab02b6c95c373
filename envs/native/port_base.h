// SPDX-License-Identifier: BSD-3-Clause
// The parts of a switch's egress port that both simulators share: counts, marks, held packets, programs, pauses. Each
// simulator has a FIFO of its own beside them, because comparing the two is a test of both.
#pragma once

#include "discipline.h"
#include "packet_list.h"
#include "pauses.h"
#include "programs.h"
#include "ranked_queue.h"
#include "records.h"
#include "shaper.h"
#include "wire.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace ncc
{

// A fault of a packet that a test plans: it is dropped, marked or delayed. A full buffer drops it anyway.
struct PlannedFault {
    uint64_t in; // packets until it is due; 1: the next
    ncc_verdict verdict;
    int64_t delay_ns;
    bool control = false; // true: counts packets without payload, false: data
};

// A FIFO of known speed knows at a packet's arrival when its transmission will start. A hop therefore takes one event
// (the arrival at the far end), and the queue is updated only when its state is needed (`Advance` of each simulator's
// port). A port with classes, ranks or queues cannot know this time, and one that marks on departure or has programs
// for it cannot know the marks: these hold waiting packets, and take a second event for each. A packet has left the
// queue once its transmission has begun.
template <class Packets>
class PortBase
{
  public:
    using PacketsType = Packets;
    using Ref = typename Packets::Ref;
    using Header = std::remove_reference_t<decltype(std::declval<Packets &>().header(Ref{}))>;

    PortBase() : PortBase(QueueSpec{}, {}, nullptr, 0, false) {} // unused: a host has a Nic in place of a port
    // `programs` empty: none. `pausable`: the far end of its link may pause it.
    PortBase(const QueueSpec &queue, const std::vector<ProgramSpec> &programs, Pool *pool, uint64_t seed, bool pausable)
        : control_first_(queue.control_first), at_switch_(queue.buffer_bytes >= 0),
          classes_(static_cast<uint8_t>(queue.classes)), discipline_(queue, pool, seed),
          programs_(programs.empty() ? nullptr : std::make_unique<Programs>(programs, seed)),
          size_bytes_(queue.buffer_bytes)
    {
        const bool ranked = needs(NCC_SW_RANKED);
        if (queue.control_first || queue.mark_leaving || queue.classes > 1 || ranked || pausable ||
            queue.shaped_frac > 0 || needs(NCC_SW_DEQUEUE | NCC_SW_INGRESS | NCC_SW_QUEUES)) {
            held_ = std::make_unique<Held>();
            held_->ranked = ranked;
            held_->queues.resize(programs_ ? programs_->queues() : 0);
            held_->of.resize(std::max<size_t>(NCC_SW_CLASSES, held_->queues.size()));
        }
        plain_ = programs_ == nullptr && held_ == nullptr && discipline_.plain();
    }

    // Gives it a shaped queue, whose packets leave before all others while they have tokens. Then every packet
    // is held, and `Shaper::word` names the event at which the next may leave.
    void Shape(const ShapedSpec &spec, double line_bps, uint32_t overhead_bytes)
    {
        shaper_ = std::make_unique<Shaper<Packets>>(spec, line_bps, overhead_bytes);
        held_->serving = special_ = true;
        plain_ = false;
    }
    Shaper<Packets> *shaper() { return shaper_.get(); } // null: none
    size_t shaped_pkts() const { return shaper_ ? shaper_->size() : 0; }
    void CountShaped(const Header &header) // it leaves
    {
        ++totals_.tx_pkts;
        totals_.tx_bytes += header.ip_bytes;
    }
    void CountShapedDrop()
    {
        ++totals_.dropped_pkts;
        ++totals_.shaped_dropped_pkts;
    }

    bool at_switch() const { return at_switch_; }
    // True if it has a FIFO, a buffer and a threshold for marks, all of its own, and nothing else.
    bool plain() const { return plain_; }
    bool shared() const { return discipline_.shared(); }
    bool holds() const { return held_ != nullptr; }                                        // see Hold
    bool makes_room() const { return held_ && (held_->ranked || !held_->queues.empty()); } // see MakeRoom
    Programs *programs() const { return programs_.get(); }                                 // null: none
    bool needs(uint32_t needs) const { return programs_ && programs_->need(needs); }
    // Returns the port as programs see it; call Advance first.
    ncc_sw_port Seen(const Wire &wire, uint32_t mtu_bytes, int64_t now_ns) const
    {
        return {static_cast<ncc_u64>(now_ns),
                wire.BytesPerS(),
                static_cast<ncc_u64>(size_bytes_),
                static_cast<ncc_u64>(queue_bytes_),
                static_cast<ncc_u64>(totals_.tx_bytes),
                static_cast<ncc_u64>(ingress_bytes_),
                mtu_bytes,
                0,
                held_ && !held_->queues.empty() ? held_->queues.data() : nullptr};
    }

    // Decides as Admit does, only for a port that is `plain` and has no fault planned. Call Advance first.
    ncc_verdict AdmitPlain(int64_t free_ps, const Header &header, int64_t now_ns) const
    {
        return free_ps <= now_ns * kPsPerNs
                   ? NCC_PASS
                   : discipline_.AdmitPlain(static_cast<uint64_t>(queue_bytes_), header.ip_bytes, header.ecn_capable);
    }
    // Decides if the packet may join the queue or go to a transmitter that is idle from `free_ps` on, and if it must be
    // marked. Call Advance first; for a shared buffer, on every port that shares it. Then call Count with the outcome.
    ncc_verdict Admit(int64_t free_ps, const Header &header, ncc_verdict fault, int64_t now_ns)
    {
        ncc_verdict verdict = NCC_PASS;
        if (free_ps > now_ns * kPsPerNs || (held_ && (held_->pkts > 0 || held_->paused))) {
            verdict = discipline_.Admit(static_cast<uint64_t>(queue_bytes_), header.ip_bytes, header.ecn_capable);
        }
        return fault != NCC_PASS && verdict != NCC_DROP ? fault : verdict;
    }
    void Count(const Header &header, ncc_verdict verdict)
    {
        totals_.dropped_pkts += verdict == NCC_DROP;
        totals_.dropped_data_pkts += verdict == NCC_DROP && header.has_payload();
        totals_.trimmed_pkts += verdict == NCC_TRIM;
        totals_.marked_pkts += verdict == NCC_MARK;
    }
    // Only if `makes_room`: drops packets of larger ranks, or the first ones of the longest queue, so that a packet has
    // room. Calls gone(ref) for each. Returns false if there is no room even so.
    template <class Gone>
    bool MakeRoom(Packets &packets, uint32_t ip_bytes, uint64_t rank, Gone gone)
    {
        while (queue_bytes_ + ip_bytes > size_bytes_) {
            if (held_->ranked ? !held_->by_rank.Above(rank) : held_->pkts == 0) {
                return false;
            }
            const Ref ref = held_->ranked ? held_->by_rank.PushOut() : TakeFrom(packets, LongestQueue());
            queue_bytes_ -= packets.header(ref).ip_bytes;
            --held_->pkts;
            Count(packets.header(ref), NCC_DROP);
            gone(ref);
        }
        return true;
    }
    // Drops a packet that has already been counted as transmitted after a wait.
    void DropLeaving(const Header &header, int64_t waited_ns)
    {
        --totals_.tx_pkts;
        totals_.tx_bytes -= header.ip_bytes;
        totals_.delay_ns -= waited_ns;
        Count(header, NCC_DROP);
    }
    // Marks a packet that leaves.
    void Mark(Header &header)
    {
        totals_.marked_pkts += !header.marked;
        header.marked = true;
    }

    // The place of a held packet. Ports that serve by rank use `rank` and `flow`; programs with queues use `queue`.
    struct Place {
        uint64_t rank = 0;
        uint32_t flow = 0, queue = 0;
    };
    // If `holds`, only a packet that `may_pass` goes to the transmitter: the port is idle, and no program has queues.
    // Others are queued with `Hold`; while packets wait, call `TakeNext` whenever the transmitter is free.
    bool may_pass(int64_t free_ps, int64_t now_ns) const
    {
        return free_ps <= now_ns * kPsPerNs && !held_->serving && !held_->paused && held_->queues.empty();
    }
    void Hold(Packets &packets, Ref ref, const Place &place, int64_t now_ns)
    {
        packets[ref].joined_ns = now_ns;
        const Header &header = packets.header(ref);
        if (held_->ranked) {
            held_->by_rank.Push(ref, place.rank, place.flow);
        } else {
            const size_t queue = held_->queues.empty() ? ClassOf(header) : place.queue;
            held_->of[queue].PushBack(packets, ref);
            UpdateQueue(packets, queue, header.ip_bytes);
        }
        ++held_->pkts;
        Join(header.ip_bytes);
    }
    Ref TakeNext(Packets &packets, int64_t now_ns)
    {
        const Ref ref = held_->ranked ? held_->by_rank.Pop() : TakeFrom(packets, NextQueue());
        --held_->pkts;
        Leave(packets.header(ref).ip_bytes, now_ns * kPsPerNs, packets[ref].joined_ns);
        MarkLeaving(packets.header(ref));
        return ref;
    }
    size_t held_pkts() const { return held_ ? held_->pkts : 0; }
    // True while a call of `TakeNext` is due. One packet may have pushed out all others and wait alone.
    bool serving() const { return held_->serving; }
    void Serve(bool due) { held_->serving = due; }

    // PFC: this port sends nothing while the far end of its link has paused it.
    bool paused() const { return held_->paused; }
    void Pause(bool on, int64_t now_ns)
    {
        held_->paused = on;
        held_->paused_at_ns = now_ns;
    }
    // True if it has been paused for long, has something to send, and `far`, at the other end, still means the pause.
    bool LongPaused(const PortBase &far, int64_t now_ns) const
    {
        return held_ && paused() && held_pkts() > 0 && now_ns - held_->paused_at_ns >= kLongPauseNs &&
               far.pauses_at_ns_ >= 0 && far.pauses_at_ns_ <= held_->paused_at_ns;
    }
    // Returns this port with the bytes that wait at it, by link of arrival.
    PausedPort Paused(uint32_t port, Packets &packets) const
    {
        PausedPort paused{port, {}};
        for (const PacketList<Packets> &list : held_->of) {
            for (Ref ref = list.front(); ref != Packets::kNoPacket; ref = packets[ref].behind) {
                paused.waiting.emplace_back(packets.came_by(ref), packets.header(ref).ip_bytes);
            }
        }
        return paused;
    }
    // PFC, the other side: bytes that came over this link and wait at this switch, and the pause of the far end.
    int64_t ingress_bytes() const { return ingress_bytes_; }
    void AddIngress(int64_t bytes) { ingress_bytes_ += bytes; }
    void PauseFarEnd(bool on, int64_t now_ns)
    {
        totals_.paused_ns += on ? 0 : now_ns - pauses_at_ns_;
        pauses_at_ns_ = on ? now_ns : -1;
    }

    PortTotals totals(int64_t now_ns) const
    {
        PortTotals totals = totals_;
        totals.paused_ns += pauses_at_ns_ < 0 ? 0 : now_ns - pauses_at_ns_;
        return totals;
    }
    int64_t queue_bytes() const { return queue_bytes_; }
    // `MeasureQueue` begins to integrate the queue over time; the other returns byte-nanoseconds since its last call.
    void MeasureQueue() { integrate_ = true; }
    double TakeQueueIntegral() { return std::exchange(integral_, 0); }

    void Plan(const PlannedFault &fault)
    {
        if (faults_ == nullptr) {
            faults_ = std::make_unique<std::vector<PlannedFault>>();
        }
        faults_->push_back(fault);
        special_ = true;
        plain_ = false;
    }
    bool special() const { return special_; } // something may be planned, or it has a shaped queue
    // Counts an arriving packet and returns what is planned for it.
    PlannedFault Planned(const Header &header)
    {
        PlannedFault due{0, NCC_PASS, 0};
        if (faults_) {
            std::erase_if(*faults_, [&](PlannedFault &fault) {
                const bool now = fault.control != header.has_payload() && --fault.in == 0;
                due = now ? fault : due;
                return now;
            });
        }
        return due;
    }

  protected:
    // Counts a packet that is transmitted at once.
    void Pass(Header &header)
    {
        MarkLeaving(header);
        ++totals_.tx_pkts;
        totals_.tx_bytes += header.ip_bytes;
    }

    void Join(uint32_t bytes)
    {
        const int64_t before = queue_bytes_;
        queue_bytes_ += bytes;
        totals_.queue_max_bytes = std::max(totals_.queue_max_bytes, queue_bytes_);
        discipline_.Changed(static_cast<uint64_t>(before), static_cast<uint64_t>(queue_bytes_));
    }

    void Leave(uint32_t bytes, int64_t start_ps, int64_t joined_ns)
    {
        Integrate(start_ps);
        const int64_t before = queue_bytes_;
        queue_bytes_ -= bytes;
        discipline_.Changed(static_cast<uint64_t>(before), static_cast<uint64_t>(queue_bytes_));
        ++totals_.tx_pkts;
        totals_.tx_bytes += bytes;
        totals_.delay_ns += (start_ps + kPsPerNs / 2) / kPsPerNs - joined_ns;
    }

    void Integrate(int64_t until_ps)
    {
        if (!integrate_) {
            return;
        }
        integral_ += static_cast<double>(queue_bytes_) * static_cast<double>(until_ps - updated_ps_) / kPsPerNs;
        updated_ps_ = until_ps;
    }

  private:
    struct Held {
        std::vector<PacketList<Packets>> of; // by class, the most urgent first; or by the program's queue
        std::vector<ncc_sw_queue> queues;    // the program's view of its queues; empty without such a program
        RankedQueue<Ref> by_rank;            // in place of `of`, if ranked
        size_t pkts = 0;
        bool ranked = false, serving = false, paused = false;
        int64_t paused_at_ns = 0;
    };

    Ref TakeFrom(Packets &packets, size_t queue)
    {
        const Ref ref = held_->of[queue].PopFront(packets);
        UpdateQueue(packets, queue, -static_cast<int64_t>(packets.header(ref).ip_bytes));
        return ref;
    }
    // Updates what a program sees of a queue that has taken or lost a packet.
    void UpdateQueue(Packets &packets, size_t queue, int64_t bytes)
    {
        if (!held_->queues.empty()) {
            const Ref head = held_->of[queue].front();
            held_->queues[queue].bytes += static_cast<ncc_u64>(bytes);
            held_->queues[queue].head_bytes = head == Packets::kNoPacket ? 0 : packets.header(head).ip_bytes;
            held_->queues[queue].head_ns =
                head == Packets::kNoPacket ? 0 : static_cast<ncc_u64>(packets[head].joined_ns);
        }
    }
    size_t NextQueue()
    {
        if (!held_->queues.empty()) {
            return programs_->Next(held_->queues);
        }
        const auto first = std::find_if(held_->of.begin(), held_->of.end(), [](const auto &of) { return !of.empty(); });
        return static_cast<size_t>(first - held_->of.begin());
    }
    size_t LongestQueue() const
    {
        const auto &queues = held_->queues;
        const auto longest = std::max_element(
            queues.begin(), queues.end(), [](const auto &one, const auto &other) { return one.bytes < other.bytes; });
        return static_cast<size_t>(longest - queues.begin());
    }

    // The class of a packet, 0 being served first. With several classes a tag names that of data, and packets without
    // payload have class 0. Otherwise data has class 1, and so have packets without payload unless control goes first.
    size_t ClassOf(const Header &header) const
    {
        if (!header.has_payload()) {
            return control_first_ || classes_ > 1 ? 0 : 1;
        }
        return classes_ == 1 ? 1 : std::min<size_t>(header.prio, classes_ - 1U);
    }

    void MarkLeaving(Header &header)
    {
        if (held_ && !header.marked &&
            discipline_.MarkLeaving(static_cast<uint64_t>(queue_bytes_), header.ecn_capable)) {
            Mark(header);
        }
    }

    // First the state that every packet needs, in two cache lines.
    bool plain_ = false, integrate_ = false, special_ = false, control_first_, at_switch_;
    uint8_t classes_;
    int64_t queue_bytes_ = 0;
    PortTotals totals_;
    Discipline discipline_;
    std::unique_ptr<Held> held_; // only if the port holds packets
    std::unique_ptr<Programs> programs_;
    std::unique_ptr<Shaper<Packets>> shaper_;
    std::unique_ptr<std::vector<PlannedFault>> faults_;
    int64_t ingress_bytes_ = 0, pauses_at_ns_ = -1; // -1: no pause
    int64_t size_bytes_;
    int64_t updated_ps_ = 0;
    double integral_ = 0;
};

} // namespace ncc
