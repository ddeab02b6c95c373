// SPDX-License-Identifier: BSD-3-Clause
#include "port.h"

namespace ncc::packetsim
{

void Port::Hold(PacketPool &pool, uint32_t place, ncc_verdict verdict, uint64_t rank, uint32_t flow, int64_t now_ns)
{
    InFlight &entry = pool[place];
    entry.joined_ns = now_ns;
    entry.packet.marked |= verdict == NCC_MARK;
    if (waiting_->ranked) {
        waiting_->by_rank.Push(place, rank, flow);
    } else {
        waiting_->of[ClassOf(entry.packet)].PushBack(pool, place);
    }
    ++waiting_->pkts;
    Join(entry.packet.ip_bytes);
}

uint32_t Port::Next(PacketPool &pool, Link &link, int64_t now_ns)
{
    const uint32_t place =
        waiting_->ranked ? waiting_->by_rank.Pop()
                         : std::find_if(std::begin(waiting_->of), std::end(waiting_->of), [](const PacketList &list) {
                               return !list.empty();
                           })->PopFront(pool);
    --waiting_->pkts;
    InFlight &entry = pool[place];
    Leave(entry.packet.ip_bytes, now_ns * kPsPerNs, entry.joined_ns);
    MarkLeaving(entry.packet);
    link.Transmit(entry, link.free_ps); // events fall on whole nanoseconds; the fraction is carried over
    ++entry.packet.hop;
    return place;
}

} // namespace ncc::packetsim
