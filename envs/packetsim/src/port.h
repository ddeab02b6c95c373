// SPDX-License-Identifier: BSD-3-Clause
// The egress port of a switch: a finite queue in front of a transmitter with exact speed.
#pragma once

#include "departures.h"
#include "link.h"

#include "port_base.h"

#include <algorithm>
#include <cstdint>

namespace ncc::packetsim
{

// Its FIFO is the part of its link's list that begins with the first waiting packet.
class alignas(64) Port : public PortBase<PacketPool>
{
  public:
    using PortBase::PortBase;
    using Sharers = Departures;

    // Updates totals, queue and its integral to `now`.
    void Advance(const PacketPool &pool, Link &link, int64_t now_ns)
    {
        const int64_t now_ps = now_ns * kPsPerNs;
        while (link.waiting != kNone && link.waiting_ps <= now_ps) {
            const InFlight &head = pool[link.waiting];
            Leave(head.packet.ip_bytes, head.start_ps, head.joined_ns);
            link.waiting = head.behind;
            if (link.waiting != kNone) {
                link.waiting_ps = pool[link.waiting].start_ps;
            }
        }
        Integrate(now_ps);
    }

    // Takes an admitted packet, whose transmission starts at the time that is returned, in ps.
    int64_t Forward(PacketPool &pool, Link &link, uint32_t place, int64_t now_ns)
    {
        const int64_t now_ps = now_ns * kPsPerNs, start_ps = std::max(link.free_ps, now_ps);
        InFlight &entry = pool[place];
        entry.joined_ns = now_ns;
        if (start_ps == now_ps) {
            Pass(entry.packet);
            return start_ps;
        }
        Join(entry.packet.ip_bytes);
        if (link.waiting == kNone) {
            link.waiting = place;
            link.waiting_ps = start_ps;
        }
        return start_ps;
    }

    // Time at which the first waiting packet leaves the queue; Departures::kNever: none waits.
    static int64_t NextDeparturePs(const Link &link)
    {
        return link.waiting == kNone ? Departures::kNever : link.waiting_ps;
    }
};

} // namespace ncc::packetsim
