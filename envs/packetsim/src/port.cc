// SPDX-License-Identifier: BSD-3-Clause
#include "port.h"

namespace ncc::packetsim
{

void Port::Hold(PacketPool &pool, uint32_t place, ncc_verdict verdict, int64_t now_ns)
{
    InFlight &entry = pool[place];
    entry.joined_ns = now_ns;
    entry.packet.marked |= verdict == NCC_MARK;
    const bool ahead = control_first_ && entry.packet.kind != Kind::kData;
    (ahead ? waiting_->control : waiting_->data).PushBack(pool, place);
    Join(entry.packet.ip_bytes);
}

uint32_t Port::Next(PacketPool &pool, Link &link, int64_t now_ns)
{
    PacketList &turn = waiting_->control.empty() ? waiting_->data : waiting_->control;
    const uint32_t place = turn.PopFront(pool);
    InFlight &entry = pool[place];
    Leave(entry.packet.ip_bytes, now_ns * kPsPerNs, entry.joined_ns);
    MarkLeaving(entry.packet);
    link.Transmit(entry, link.free_ps); // events fall on whole nanoseconds; the fraction is carried over
    ++entry.packet.hop;
    return place;
}

} // namespace ncc::packetsim
