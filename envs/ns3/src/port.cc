// SPDX-License-Identifier: GPL-2.0-only
#include "port.h"

#include <algorithm>

namespace ncc
{

void Port::Advance(int64_t now_ns)
{
    const int64_t now_ps = now_ns * kPsPerNs;
    while (!queue_.empty() && queue_.front().start_ps <= now_ps) {
        const Waiting &head = queue_.front();
        integral_ += static_cast<double>(queue_bytes_) * static_cast<double>(head.start_ps - updated_ps_) / kPsPerNs;
        updated_ps_ = head.start_ps;
        queue_bytes_ -= head.bytes;
        ++totals_.tx_pkts;
        totals_.tx_bytes += head.bytes;
        totals_.delay_ns += (head.start_ps + kPsPerNs / 2) / kPsPerNs - head.joined_ns;
        queue_.pop_front();
    }
    integral_ += static_cast<double>(queue_bytes_) * static_cast<double>(now_ps - updated_ps_) / kPsPerNs;
    updated_ps_ = now_ps;
}

int64_t Port::Enqueue(Frame *frame, int64_t now_ns)
{
    Advance(now_ns);
    const bool data = frame->payload_bytes > 0;
    if (drop_in_ > 0 && data && --drop_in_ == 0) {
        ++totals_.dropped_pkts;
        return -1;
    }
    if (mark_in_ > 0 && data && --mark_in_ == 0) {
        ++totals_.marked_pkts;
        frame->marked = true;
    }
    const int64_t now_ps = now_ns * kPsPerNs;
    const int64_t start_ps = std::max(free_ps_, now_ps);
    if (start_ps > now_ps) {
        const auto waiting = static_cast<ncc_u64>(queue_bytes_);
        switch (ncc_step_mark_admit(&discipline_, waiting, frame->ip_bytes, frame->ecn_capable)) {
        case NCC_DROP:
            ++totals_.dropped_pkts;
            return -1;
        case NCC_MARK:
            ++totals_.marked_pkts;
            frame->marked = true;
            break;
        case NCC_PASS:
            break;
        }
        queue_.push_back({now_ns, start_ps, frame->ip_bytes});
        queue_bytes_ += frame->ip_bytes;
        totals_.queue_max_bytes = std::max(totals_.queue_max_bytes, queue_bytes_);
    } else {
        ++totals_.tx_pkts;
        totals_.tx_bytes += frame->ip_bytes;
    }
    free_ps_ = start_ps + wire_.SerialisationPs(frame->ip_bytes);
    return wire_.ArrivalNs(free_ps_);
}

} // namespace ncc
