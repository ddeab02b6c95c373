// SPDX-License-Identifier: BSD-3-Clause
// One direction of a link: its transmitter and its packets.
#pragma once

#include "packet_pool.h"

#include "wire.h"

#include <cstdint>

namespace ncc::packetsim
{

// Everything that most packets need at a hop, in one cache line.
struct alignas(64) Link {
    explicit Link(const Wire &wire) : wire(wire) {}

    // Starts a transmission at `start_ps`, when the transmitter has sent everything before.
    void Transmit(InFlight &entry, int64_t start_ps)
    {
        free_ps = start_ps + wire.SerialisationPs(entry.packet.ip_bytes);
        entry.start_ps = start_ps;
        entry.arrival_ns = wire.ArrivalNs(free_ps);
    }

    Wire wire;
    int64_t free_ps = 0; // time at which the transmitter has sent everything
    // Packets that wait for the transmitter and packets on their way. Only the head's arrival is an event of the
    // scheduler, because the others cannot arrive before it.
    PacketList packets;
    uint32_t waiting = kNone; // first packet that its port still counts as waiting
    int64_t waiting_ps = 0;   // time at which its transmission begins
    uint32_t seen_by = kNone; // the port back, if programs are to see what comes over this link
};
static_assert(sizeof(Link) == 64);

} // namespace ncc::packetsim
