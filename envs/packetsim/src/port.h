// SPDX-License-Identifier: BSD-3-Clause
// The egress port of a switch: a finite queue in front of a transmitter with exact speed.
#pragma once

#include "link.h"

#include "discipline.h"
#include "pauses.h"
#include "programs.h"
#include "ranked_queue.h"
#include "records.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace ncc::packetsim
{

// A FIFO of known speed knows at a packet's arrival when its transmission will start. A hop therefore takes one event
// (the arrival at the far end), and the queue is updated only when its state is needed. A packet has left the queue
// once its transmission has begun. A port with classes or ranks cannot know this time, and one that marks on departure
// or has programs for it cannot know the marks: these take a second event.
class alignas(64) Port
{
  public:
    Port() : Port(QueueSpec{}, {}, nullptr, 0, false) {} // port of a host, which has a Nic instead
    // `programs` empty: none. `pausable`: the far end of its link may pause it.
    Port(const QueueSpec &queue, const std::vector<ProgramSpec> &programs, Pool *pool, uint64_t seed, bool pausable)
        : programs_(programs.empty() ? nullptr : std::make_unique<Programs>(programs, seed)),
          control_first_(queue.control_first), classes_(static_cast<uint8_t>(queue.classes)),
          at_switch_(queue.buffer_bytes >= 0), discipline_(queue, pool, seed), size_bytes_(queue.buffer_bytes)
    {
        const bool ranked = programs_ && programs_->need(NCC_SW_RANKED);
        if (queue.control_first || queue.mark_leaving || queue.classes > 1 || ranked || pausable ||
            (programs_ && programs_->need(NCC_SW_DEQUEUE | NCC_SW_INGRESS))) {
            waiting_ = std::make_unique<Waiting>();
            waiting_->ranked = ranked;
        }
    }

    bool at_switch() const { return at_switch_; }
    bool shared() const { return discipline_.shared(); }
    bool holds() const { return waiting_ != nullptr; } // see Hold
    bool ranked() const { return waiting_ && waiting_->ranked; }
    Programs *programs() const { return programs_.get(); } // null: none
    // The port as programs see it; call Advance first.
    ncc_sw_port Seen(const Link &link, uint32_t mtu_bytes, int64_t now_ns) const
    {
        return {static_cast<ncc_u64>(now_ns),
                link.wire.BytesPerS(),
                static_cast<ncc_u64>(size_bytes_),
                static_cast<ncc_u64>(queue_bytes_),
                static_cast<ncc_u64>(totals_.tx_bytes),
                static_cast<ncc_u64>(ingress_bytes_),
                mtu_bytes,
                0};
    }

    // Updates totals, queue and its integral to `now`.
    void Advance(const PacketPool &pool, Link &link, int64_t now_ns)
    {
        const int64_t now_ps = now_ns * kPsPerNs;
        while (link.waiting != kNone && link.waiting_ps <= now_ps) {
            const InFlight &head = pool[link.waiting];
            Leave(head.packet.ip_bytes, head.start_ps, head.joined_ns);
            link.waiting = head.behind;
            if (link.waiting != kNone) {
                link.waiting_ps = pool[link.waiting].start_ps;
            }
        }
        Integrate(now_ps);
    }

    // Decides if the packet may join the queue or go to an idle transmitter, and if it must be marked. Call Advance
    // first; for a shared buffer, on every port that shares it. Then call Count with what becomes of it.
    ncc_verdict Admit(const Link &link, const Packet &packet, ncc_verdict fault, int64_t now_ns)
    {
        ncc_verdict verdict = NCC_PASS;
        if (link.free_ps > now_ns * kPsPerNs || (waiting_ && (waiting_pkts() > 0 || waiting_->paused))) {
            verdict = discipline_.Admit(static_cast<uint64_t>(queue_bytes_), packet.ip_bytes, packet.ecn_capable);
        }
        return fault != NCC_PASS && verdict != NCC_DROP ? fault : verdict;
    }
    void Count(const Packet &packet, ncc_verdict verdict)
    {
        totals_.dropped_pkts += verdict == NCC_DROP;
        totals_.dropped_data_pkts += verdict == NCC_DROP && packet.has_payload();
        totals_.trimmed_pkts += verdict == NCC_TRIM;
        totals_.marked_pkts += verdict == NCC_MARK;
    }
    // Only if `ranked`: makes room for a packet by pushing out those of larger ranks. Calls gone(place) for each.
    template <class Gone>
    bool MakeRoom(PacketPool &pool, uint32_t ip_bytes, uint64_t rank, Gone gone)
    {
        RankedQueue<uint32_t> &queue = waiting_->by_rank;
        while (queue_bytes_ + ip_bytes > size_bytes_) {
            if (!queue.Above(rank)) {
                return false;
            }
            const uint32_t place = queue.PushOut();
            const Packet &packet = pool[place].packet;
            queue_bytes_ -= packet.ip_bytes;
            --waiting_->pkts;
            Count(packet, NCC_DROP);
            gone(place);
        }
        return true;
    }
    void MarkedLeaving() { ++totals_.marked_pkts; }

    // Gives an admitted packet to the transmitter.
    void Forward(Link &link, uint32_t place, InFlight &entry, ncc_verdict verdict, int64_t now_ns)
    {
        const int64_t now_ps = now_ns * kPsPerNs, start_ps = std::max(link.free_ps, now_ps);
        const uint32_t ip_bytes = entry.packet.ip_bytes;
        link.Transmit(entry, start_ps);
        entry.joined_ns = now_ns;
        ++entry.packet.hop;
        entry.packet.marked |= verdict == NCC_MARK;
        if (start_ps == now_ps) {
            MarkLeaving(entry.packet);
            ++totals_.tx_pkts;
            totals_.tx_bytes += ip_bytes;
            return;
        }
        Join(ip_bytes);
        if (link.waiting == kNone) {
            link.waiting = place;
            link.waiting_ps = start_ps;
        }
    }

    // If `holds`, use `Forward` only for an idle transmitter, and otherwise queue the packet with `Hold`; while packets
    // wait, call `Next` at `FreeNs`, which changes with each call.
    bool idle(const Link &link, int64_t now_ns) const
    {
        return link.free_ps <= now_ns * kPsPerNs && !serving() && !paused();
    }
    void Hold(PacketPool &pool, uint32_t place, ncc_verdict verdict, uint64_t rank, uint32_t flow, int64_t now_ns);
    uint32_t Next(PacketPool &pool, Link &link, int64_t now_ns); // returns the place of the packet that is sent
    static int64_t FreeNs(const Link &link) { return (link.free_ps + kPsPerNs - 1) / kPsPerNs; }

    PortTotals totals(int64_t now_ns) const
    {
        PortTotals totals = totals_;
        totals.paused_ns += pauses_at_ns_ < 0 ? 0 : now_ns - pauses_at_ns_;
        return totals;
    }
    int64_t queue_bytes() const { return queue_bytes_; }
    size_t waiting_pkts() const { return waiting_ ? waiting_->pkts : 0; }
    // True while a call of `Next` is due. One packet may have pushed out all others and wait alone.
    bool serving() const { return waiting_->serving; }
    void Serve(bool due) { waiting_->serving = due; }

    // PFC: this port sends nothing while the far end of its link has paused it.
    bool paused() const { return waiting_->paused; }
    void Pause(bool on, int64_t now_ns)
    {
        waiting_->paused = on;
        waiting_->paused_at_ns = now_ns;
    }
    // True if it has been paused for long, has something to send, and `far`, at the other end, still means the pause.
    bool LongPaused(const Port &far, int64_t now_ns) const
    {
        return waiting_ && paused() && waiting_pkts() > 0 && now_ns - waiting_->paused_at_ns >= kLongPauseNs &&
               far.pauses_at_ns_ >= 0 && far.pauses_at_ns_ <= waiting_->paused_at_ns;
    }
    PausedPort Paused(uint32_t port, const PacketPool &pool) const; // with what waits
    // PFC, the other side: bytes that came over this link and wait at this switch, and the pause of the far end.
    int64_t ingress_bytes() const { return ingress_bytes_; }
    void Ingress(int64_t bytes) { ingress_bytes_ += bytes; }
    void Pauses(bool on, int64_t now_ns)
    {
        totals_.paused_ns += on ? 0 : now_ns - pauses_at_ns_;
        pauses_at_ns_ = on ? now_ns : -1;
    }

    // Byte-nanoseconds waited since the last call; counted from the call of `MeasureQueue` on.
    void MeasureQueue() { integrate_ = true; }
    double TakeQueueIntegral()
    {
        const double taken = integral_;
        integral_ = 0;
        return taken;
    }

    // A planned fault of a data packet, for tests: it is dropped, marked or delayed. A full buffer drops it anyway.
    struct Fault {
        uint64_t in; // data packets until it is due; 1: the next
        ncc_verdict verdict;
        int64_t delay_ns;
    };
    void Plan(const Fault &fault)
    {
        if (faults_ == nullptr) {
            faults_ = std::make_unique<std::vector<Fault>>();
        }
        faults_->push_back(fault);
    }
    bool planned() const { return faults_ != nullptr && !faults_->empty(); }
    // Counts an arriving packet and returns what is planned for it. Only if something is planned.
    Fault Planned(const Packet &packet)
    {
        Fault due{0, NCC_PASS, 0};
        if (packet.has_payload()) {
            std::erase_if(*faults_, [&due](Fault &fault) { return --fault.in == 0 ? (due = fault, true) : false; });
        }
        return due;
    }

  private:
    struct Waiting { // by class, the most urgent first; or by rank
        PacketList of[NCC_SW_CLASSES];
        RankedQueue<uint32_t> by_rank;
        size_t pkts = 0;
        bool ranked = false, serving = false, paused = false;
        int64_t paused_at_ns = 0;
    };

    // Of a packet without payload the first; by tag where there are several; else data is the second.
    size_t ClassOf(const Packet &packet) const
    {
        if (!packet.has_payload()) {
            return control_first_ || classes_ == 1 ? size_t{!control_first_} : 0;
        }
        return classes_ == 1 ? 1 : std::min<size_t>(packet.prio, classes_ - 1U);
    }

    void MarkLeaving(Packet &packet)
    {
        if (waiting_ && !packet.marked &&
            discipline_.MarkLeaving(static_cast<uint64_t>(queue_bytes_), packet.ecn_capable)) {
            packet.marked = true;
            ++totals_.marked_pkts;
        }
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

    int64_t queue_bytes_ = 0, ingress_bytes_ = 0, pauses_at_ns_ = -1; // -1: no pause
    std::unique_ptr<Waiting> waiting_;                                // only if the port holds packets
    std::unique_ptr<std::vector<Fault>> faults_;
    std::unique_ptr<Programs> programs_;
    bool integrate_ = false, control_first_ = false;
    uint8_t classes_ = 1;
    bool at_switch_;
    Discipline discipline_;
    int64_t size_bytes_;
    int64_t updated_ps_ = 0;
    double integral_ = 0;
    PortTotals totals_;
};

} // namespace ncc::packetsim
