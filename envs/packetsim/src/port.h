// SPDX-License-Identifier: BSD-3-Clause
// The egress port of a switch: a finite queue before a transmitter of exact speed.
#pragma once

#include "link.h"

#include "discipline.h"
#include "records.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>

namespace ncc::packetsim
{

// As a FIFO of known speed, the port knows when each packet will start when it arrives. So a hop takes one event (the
// arrival at the far end), and the queue is brought up to date only when somebody asks. A packet has left the queue
// once its transmission has begun. A port that lets control packets go first cannot know, and takes a second event.
class Port
{
  public:
    Port(const QueueSpec &queue, Pool *pool, uint64_t seed)
        : discipline_(queue, pool, seed), waiting_(queue.control_first ? std::make_unique<Classes>() : nullptr)
    {
    }

    bool shared() const { return discipline_.shared(); }
    bool control_first() const { return waiting_ != nullptr; }

    // Brings totals, queue and its integral up to `now`.
    void Advance(const Link &link, int64_t now_ns)
    {
        const int64_t now_ps = now_ns * kPsPerNs;
        for (; started_ != link.tail() && link.at(started_).start_ps <= now_ps; ++started_) {
            const InFlight &head = link.at(started_);
            Leave(head.packet.ip_bytes, head.start_ps, head.joined_ns);
        }
        Integrate(now_ps);
    }

    // The head of the link is about to arrive: it must be counted before it is forgotten.
    void BeforePop(const Link &link, int64_t now_ns)
    {
        if (started_ == link.head()) {
            Advance(link, now_ns);
        }
    }

    // Whether the packet may join (or pass: an idle transmitter takes it at once), and whether it is to be marked. Call
    // Advance first, for a shared buffer on every port that shares it.
    ncc_verdict Admit(const Packet &packet, int64_t now_ns)
    {
        ncc_verdict verdict = NCC_PASS;
        if (free_ps_ > now_ns * kPsPerNs || (waiting_ && waiting_pkts() > 0)) {
            verdict = discipline_.Admit(static_cast<uint64_t>(queue_bytes_), packet.ip_bytes, packet.ecn_capable);
        }
        if (fault_in_ > 0 && packet.kind == Kind::kData && --fault_in_ == 0 && verdict != NCC_DROP) {
            verdict = fault_;
        }
        totals_.dropped_pkts += verdict == NCC_DROP;
        totals_.marked_pkts += verdict == NCC_MARK;
        return verdict;
    }

    // Puts an admitted packet on the link; returns its entry, whose `word` the caller fills in.
    InFlight &Forward(Link &link, const Packet &packet, ncc_verdict verdict, int64_t now_ns)
    {
        const int64_t now_ps = now_ns * kPsPerNs;
        const int64_t start_ps = std::max(free_ps_, now_ps);
        InFlight &entry = link.PushBack();
        free_ps_ = start_ps + link.wire.SerialisationPs(packet.ip_bytes);
        entry.arrival_ns = link.wire.ArrivalNs(free_ps_);
        entry.start_ps = start_ps;
        entry.joined_ns = now_ns;
        entry.packet = packet;
        ++entry.packet.hop;
        entry.packet.marked |= verdict == NCC_MARK;
        if (start_ps > now_ps) {
            Join(packet.ip_bytes);
        } else {
            ++started_;
            ++totals_.tx_pkts;
            totals_.tx_bytes += packet.ip_bytes;
        }
        return entry;
    }

    // With control packets first, `Forward` is for an idle transmitter. `Hold` queues a packet otherwise; while packets
    // wait, the caller calls `Next` at `free_ns`, which changes with each call.
    bool idle(int64_t now_ns) const { return free_ps_ <= now_ns * kPsPerNs && waiting_pkts() == 0; }
    void Hold(const Packet &packet, ncc_verdict verdict, int64_t now_ns)
    {
        (packet.kind == Kind::kData ? waiting_->data : waiting_->control).push_back({packet, verdict, now_ns});
        Join(packet.ip_bytes);
    }
    InFlight &Next(Link &link, int64_t now_ns);
    int64_t free_ns() const { return (free_ps_ + kPsPerNs - 1) / kPsPerNs; }

    const PortTotals &totals() const { return totals_; }
    int64_t queue_bytes() const { return queue_bytes_; }
    size_t waiting_pkts() const { return waiting_ ? waiting_->control.size() + waiting_->data.size() : 0; }

    // Byte-nanoseconds waited since the last call; counted once `MeasureQueue` has been called.
    void MeasureQueue() { integrate_ = true; }
    double TakeQueueIntegral()
    {
        const double taken = integral_;
        integral_ = 0;
        return taken;
    }

    // Drops or marks the nth data packet to arrive from now on (1: the next); a full buffer drops it in either case.
    void DropNth(uint64_t nth) { SetFault(NCC_DROP, nth); }
    void MarkNth(uint64_t nth) { SetFault(NCC_MARK, nth); }

  private:
    struct Waiting {
        Packet packet;
        ncc_verdict verdict;
        int64_t joined_ns;
    };

    void SetFault(ncc_verdict fault, uint64_t nth)
    {
        fault_ = fault;
        fault_in_ = nth;
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

    uint64_t started_ = 0; // place on the link of the first packet that has not started
    int64_t free_ps_ = 0;  // when the transmitter has sent all it was given
    int64_t queue_bytes_ = 0;
    int64_t updated_ps_ = 0;
    double integral_ = 0;
    Discipline discipline_;
    PortTotals totals_;
    uint64_t fault_in_ = 0;
    ncc_verdict fault_ = NCC_PASS;
    bool integrate_ = false;
    struct Classes {
        std::deque<Waiting> control, data;
    };
    std::unique_ptr<Classes> waiting_; // only with control first
};

} // namespace ncc::packetsim
