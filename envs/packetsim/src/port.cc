// SPDX-License-Identifier: BSD-3-Clause
#include "port.h"

namespace ncc::packetsim
{

InFlight &Port::Start(Link &link, const Waiting &next, int64_t now_ns)
{
    // Events fall on whole nanoseconds; back to back, the fraction of the last packet's end is carried on.
    const int64_t now_ps = now_ns * kPsPerNs;
    const int64_t start_ps = now_ps - free_ps_ < kPsPerNs ? free_ps_ : now_ps;
    InFlight &entry = link.PushBack();
    ++started_;
    free_ps_ = start_ps + link.wire.SerialisationPs(next.packet.ip_bytes);
    entry.arrival_ns = link.wire.ArrivalNs(free_ps_);
    entry.start_ps = start_ps;
    entry.joined_ns = next.joined_ns;
    entry.packet = next.packet;
    ++entry.packet.hop;
    entry.packet.marked |= next.verdict == NCC_MARK;
    busy_ = true;
    return entry;
}

InFlight *Port::Next(Link &link, int64_t now_ns)
{
    std::deque<Waiting> &turn = waiting_->control.empty() ? waiting_->data : waiting_->control;
    if (turn.empty()) {
        busy_ = false;
        return nullptr;
    }
    const Waiting next = turn.front();
    turn.pop_front();
    Leave(next.packet.ip_bytes, free_ps_, next.joined_ns);
    return &Start(link, next, now_ns);
}

} // namespace ncc::packetsim
