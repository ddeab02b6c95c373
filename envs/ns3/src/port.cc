// SPDX-License-Identifier: GPL-2.0-only
#include "port.h"

#include <algorithm>

namespace ncc
{

Port::Port(const Wire &wire, const QueueSpec &queue, const std::vector<ProgramSpec> &programs, SharedPool *pool,
           uint64_t seed, uint32_t mtu_bytes, bool pausable, std::function<void(Frame *)> gone,
           std::function<void(uint32_t, ncc_cc_signal)> tell)
    : wire_(wire), discipline_(queue, pool, seed), pool_(pool), control_first_(queue.control_first),
      classes_(static_cast<size_t>(queue.classes)),
      programs_(programs.empty() ? nullptr : std::make_unique<Programs>(programs, seed)), gone_(std::move(gone)),
      tell_(std::move(tell)), size_bytes_(queue.buffer_bytes), mtu_bytes_(mtu_bytes)
{
    const bool ranked = programs_ && programs_->need(NCC_SW_RANKED);
    if (queue.control_first || queue.mark_leaving || classes_ > 1 || ranked || pausable ||
        (programs_ && programs_->need(NCC_SW_DEQUEUE | NCC_SW_INGRESS))) {
        held_ = std::make_unique<Held>();
        held_->ranked = ranked;
    }
}

void Port::Integrate(int64_t until_ps)
{
    integral_ += static_cast<double>(queue_bytes_) * static_cast<double>(until_ps - updated_ps_) / kPsPerNs;
    updated_ps_ = until_ps;
}

void Port::Join(uint32_t bytes)
{
    const int64_t before = queue_bytes_;
    queue_bytes_ += bytes;
    totals_.queue_max_bytes = std::max(totals_.queue_max_bytes, queue_bytes_);
    discipline_.Changed(static_cast<uint64_t>(before), static_cast<uint64_t>(queue_bytes_));
}

void Port::Leave(uint32_t bytes, int64_t start_ps, int64_t joined_ns)
{
    Integrate(start_ps);
    const int64_t before = queue_bytes_;
    queue_bytes_ -= bytes;
    discipline_.Changed(static_cast<uint64_t>(before), static_cast<uint64_t>(queue_bytes_));
    ++totals_.tx_pkts;
    totals_.tx_bytes += bytes;
    totals_.delay_ns += (start_ps + kPsPerNs / 2) / kPsPerNs - joined_ns;
}

void Port::MarkLeaving(Frame *frame)
{
    if (!frame->marked && discipline_.MarkLeaving(static_cast<uint64_t>(queue_bytes_), frame->ecn_capable)) {
        frame->marked = true;
        ++totals_.marked_pkts;
    }
}

void Port::Advance(int64_t now_ns)
{
    const int64_t now_ps = now_ns * kPsPerNs;
    while (!queue_.empty() && queue_.front().start_ps <= now_ps) {
        const Waiting head = queue_.front();
        queue_.pop_front();
        Leave(head.bytes, head.start_ps, head.joined_ns);
    }
    Integrate(now_ps);
}

// Whether a planned fault drops the frame.
bool Port::Planned(const Frame &frame)
{
    return frame.payload_bytes > 0 && std::erase_if(drops_in_, [](uint64_t &in) { return --in == 0; }) > 0;
}

// Decides if the frame may join the queue or go to an idle transmitter, and if it must be marked.
ncc_verdict Port::Admit(const Frame &frame, bool waits, bool planned, int64_t now_ns)
{
    if (discipline_.shared()) { // departures are computed late, but the other queues must be up to date
        for (Port *port : pool_->ports) {
            port->Advance(now_ns);
        }
    }
    if (planned) {
        return NCC_DROP;
    }
    const bool mark = mark_in_ > 0 && frame.payload_bytes > 0 && --mark_in_ == 0;
    ncc_verdict verdict = NCC_PASS;
    if (waits) {
        verdict = discipline_.Admit(static_cast<uint64_t>(queue_bytes_), frame.ip_bytes, frame.ecn_capable);
    }
    return mark && verdict == NCC_PASS ? NCC_MARK : verdict;
}

void Port::Count(const Frame &frame, ncc_verdict verdict)
{
    totals_.dropped_pkts += verdict == NCC_DROP;
    totals_.dropped_data_pkts += verdict == NCC_DROP && frame.payload_bytes > 0;
    totals_.trimmed_pkts += verdict == NCC_TRIM;
    totals_.marked_pkts += verdict == NCC_MARK;
}

// A packet without data has the first class where it may overtake, and else that of all.
size_t Port::ClassOf(const Frame &frame) const
{
    if (frame.payload_bytes == 0) {
        return control_first_ || classes_ > 1 ? 0 : 1;
    }
    return classes_ == 1 ? 1 : std::min<size_t>(frame.prio, classes_ - 1);
}

int64_t Port::Enqueue(Frame *frame, int64_t now_ns)
{
    Advance(now_ns);
    const int64_t now_ps = now_ns * kPsPerNs;
    const int64_t start_ps = std::max(free_ps_, now_ps);
    const bool waits = start_ps > now_ps || held_pkts() > 0 || paused();
    const bool planned = !drops_in_.empty() && Planned(*frame);
    ncc_verdict verdict = Admit(*frame, waits, planned, now_ns);
    uint64_t rank = 0;
    if (programs_) {
        verdict = Programmed(frame, verdict, planned, rank, now_ns);
    }
    Count(*frame, verdict);
    if (verdict == NCC_DROP) {
        return kDropped;
    }
    frame->marked |= verdict == NCC_MARK;
    if (waits) {
        Join(frame->ip_bytes);
        if (held_) {
            frame->joined_ns = now_ns;
            ++held_->pkts;
            if (held_->ranked) {
                held_->by_rank.Push(frame, rank, frame->flow);
            } else {
                held_->of[ClassOf(*frame)].push_back(frame);
            }
            return kHeld;
        }
        queue_.push_back({now_ns, start_ps, frame->ip_bytes});
    } else {
        MarkLeaving(frame);
        ++totals_.tx_pkts;
        totals_.tx_bytes += frame->ip_bytes;
        Leaving(frame, now_ns);
    }
    free_ps_ = start_ps + wire_.SerialisationPs(frame->ip_bytes);
    return wire_.ArrivalNs(free_ps_);
}

Port::Started Port::Next(int64_t now_ns)
{
    Integrate(now_ns * kPsPerNs);
    Frame *frame;
    if (held_->ranked) {
        frame = held_->by_rank.Pop();
    } else {
        const auto turn =
            std::find_if(held_->of.begin(), held_->of.end(), [](const auto &each) { return !each.empty(); });
        frame = turn->front();
        turn->pop_front();
    }
    --held_->pkts;
    Leave(frame->ip_bytes, now_ns * kPsPerNs, frame->joined_ns);
    MarkLeaving(frame);
    free_ps_ = Wire::StartPs(free_ps_, now_ns) + wire_.SerialisationPs(frame->ip_bytes);
    Leaving(frame, now_ns);
    return {frame, wire_.ArrivalNs(free_ps_)};
}

} // namespace ncc
