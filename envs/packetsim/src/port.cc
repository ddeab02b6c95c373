// SPDX-License-Identifier: BSD-3-Clause
#include "port.h"

namespace ncc::packetsim
{

InFlight &Port::Next(Link &link, int64_t now_ns)
{
    std::deque<Waiting> &turn = waiting_->control.empty() ? waiting_->data : waiting_->control;
    const Waiting next = turn.front();
    turn.pop_front();
    Leave(next.packet.ip_bytes, now_ns * kPsPerNs, next.joined_ns);
    InFlight &entry = link.PushBack();
    ++started_;
    entry.start_ps = free_ps_; // events fall on whole nanoseconds: the fraction of the last packet's end is carried on
    free_ps_ += link.wire.SerialisationPs(next.packet.ip_bytes);
    entry.arrival_ns = link.wire.ArrivalNs(free_ps_);
    entry.joined_ns = next.joined_ns;
    entry.packet = next.packet;
    ++entry.packet.hop;
    entry.packet.marked |= next.verdict == NCC_MARK;
    return entry;
}

} // namespace ncc::packetsim
