// SPDX-License-Identifier: BSD-3-Clause
// One direction of a link: its transmitter, and its packets.
#pragma once

#include "packet_pool.h"

#include "wire.h"

#include <cstdint>

namespace ncc::packetsim
{

// All that most packets need of a hop, in one cache line.
struct alignas(64) Link {
    explicit Link(const Wire &wire) : wire(wire) {}

    // Transmits from `start_ps` on; what the transmitter was given before has been sent by then.
    void Transmit(InFlight &entry, int64_t start_ps)
    {
        free_ps = start_ps + wire.SerialisationPs(entry.packet.ip_bytes);
        entry.start_ps = start_ps;
        entry.arrival_ns = wire.ArrivalNs(free_ps);
    }

    Wire wire;
    int64_t free_ps = 0; // when the transmitter has sent all it was given
    // Those that wait for the transmitter and those on their way. Only the head's arrival is an event of the
    // scheduler: the others cannot come before it.
    PacketList packets;
    uint32_t waiting = kNone; // the first that its port still counts as waiting
    int64_t waiting_ps = 0;   // when its transmission begins
};
static_assert(sizeof(Link) == 64);

} // namespace ncc::packetsim
