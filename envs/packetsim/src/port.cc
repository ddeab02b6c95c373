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
    link.Transmit(entry, Wire::StartPs(link.free_ps, now_ns));
    ++entry.packet.hop;
    return place;
}

PausedPort Port::Paused(uint32_t port, const PacketPool &pool) const
{
    PausedPort paused{port, {}};
    for (const PacketList &list : waiting_->of) {
        for (uint32_t place = list.front(); place != kNone; place = pool[place].behind) {
            paused.waiting.emplace_back(static_cast<uint32_t>(pool[place].word), pool[place].packet.ip_bytes);
        }
    }
    return paused;
}

} // namespace ncc::packetsim
