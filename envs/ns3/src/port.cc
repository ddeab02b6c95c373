// SPDX-License-Identifier: GPL-2.0-only
#include "port.h"

#include <algorithm>

namespace ncc
{

Port::Port(const Wire &wire, const QueueSpec &queue, SharedPool *pool, uint64_t seed)
    : wire_(wire), discipline_(queue, pool, seed), pool_(pool), control_first_(queue.control_first),
      held_(queue.control_first || queue.mark_leaving ? std::make_unique<Held>() : nullptr)
{
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

// Returns true if the frame may join the queue or go to an idle transmitter, and marks it if it must be marked.
bool Port::Admit(Frame *frame, bool waits, int64_t now_ns)
{
    if (discipline_.shared()) { // departures are computed late, but the other queues must be up to date
        for (Port *port : pool_->ports) {
            port->Advance(now_ns);
        }
    }
    const bool data = frame->payload_bytes > 0;
    if (!drops_in_.empty() && data && std::erase_if(drops_in_, [](uint64_t &in) { return --in == 0; }) > 0) {
        ++totals_.dropped_pkts;
        ++totals_.dropped_data_pkts;
        return false;
    }
    if (mark_in_ > 0 && data && --mark_in_ == 0) {
        ++totals_.marked_pkts;
        frame->marked = true;
    }
    if (!waits) {
        return true;
    }
    switch (discipline_.Admit(static_cast<uint64_t>(queue_bytes_), frame->ip_bytes, frame->ecn_capable)) {
    case NCC_DROP:
        ++totals_.dropped_pkts;
        totals_.dropped_data_pkts += data;
        return false;
    case NCC_MARK:
        ++totals_.marked_pkts;
        frame->marked = true;
        break;
    case NCC_PASS:
        break;
    }
    return true;
}

int64_t Port::Enqueue(Frame *frame, int64_t now_ns)
{
    Advance(now_ns);
    const int64_t now_ps = now_ns * kPsPerNs;
    const int64_t start_ps = std::max(free_ps_, now_ps);
    const bool waits = start_ps > now_ps || held_pkts() > 0;
    if (!Admit(frame, waits, now_ns)) {
        return kDropped;
    }
    if (waits) {
        Join(frame->ip_bytes);
        if (held_) {
            frame->joined_ns = now_ns;
            (control_first_ && frame->payload_bytes == 0 ? held_->control : held_->data).push_back(frame);
            return kHeld;
        }
        queue_.push_back({now_ns, start_ps, frame->ip_bytes});
    } else {
        MarkLeaving(frame);
        ++totals_.tx_pkts;
        totals_.tx_bytes += frame->ip_bytes;
    }
    free_ps_ = start_ps + wire_.SerialisationPs(frame->ip_bytes);
    return wire_.ArrivalNs(free_ps_);
}

Port::Started Port::Next(int64_t now_ns)
{
    Integrate(now_ns * kPsPerNs);
    std::deque<Frame *> &turn = held_->control.empty() ? held_->data : held_->control;
    Frame *frame = turn.front();
    turn.pop_front();
    Leave(frame->ip_bytes, now_ns * kPsPerNs, frame->joined_ns);
    MarkLeaving(frame);
    // Events fall on whole nanoseconds; the fraction of the last packet's end is carried over.
    free_ps_ += wire_.SerialisationPs(frame->ip_bytes);
    return {frame, wire_.ArrivalNs(free_ps_)};
}

} // namespace ncc
