// SPDX-License-Identifier: BSD-3-Clause
#include "port.h"

namespace ncc::packetsim
{

InFlight &Port::Start(Link &link, const Packet &packet, int64_t joined_ns, int64_t now_ns)
{
    // Events fall on whole nanoseconds; back to back, the fraction of the last packet's end is carried on.
    const int64_t now_ps = now_ns * kPsPerNs;
    const int64_t start_ps = now_ps - free_ps_ < kPsPerNs ? free_ps_ : now_ps;
    InFlight &entry = link.PushBack();
    ++started_;
    free_ps_ = start_ps + link.wire.SerialisationPs(packet.ip_bytes);
    entry.arrival_ns = link.wire.ArrivalNs(free_ps_);
    entry.start_ps = start_ps;
    entry.joined_ns = joined_ns;
    entry.packet = packet;
    busy_ = true;
    return entry;
}

InFlight *Port::Next(Link &link, int64_t now_ns)
{
    std::deque<Waiting> &turn = waiting_[0].empty() ? waiting_[1] : waiting_[0];
    if (turn.empty()) {
        busy_ = false;
        return nullptr;
    }
    const Waiting next = turn.front();
    turn.pop_front();
    Leave(next.packet.ip_bytes, std::max(free_ps_, updated_ps_), next.joined_ns);
    return &Start(link, next.packet, next.joined_ns, now_ns);
}

} // namespace ncc::packetsim
