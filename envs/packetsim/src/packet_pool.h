// SPDX-License-Identifier: BSD-3-Clause
// Memory for the packets of a network. A packet stays in one place from its sending host's queue to its delivery, and
// only moves between lists. The place freed last is reused first, while it is still in the cache.
#pragma once

#include "event.h"
#include "packet.h"

#include "packet_list.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncc::packetsim
{

// A packet and the state of its current hop, in one cache line.
struct alignas(64) InFlight {
    int64_t arrival_ns; // arrival at the far end of the link
    uint64_t word;      // word of its last arrival event
    int64_t start_ps;   // start of its transmission
    int64_t joined_ns;  // time at which it joined the queue
    Packet packet;
    uint32_t next_port; // port that it joins next: beyond its link, or here (Network::JoinLater)
    uint32_t behind;    // the packet behind it in its list, or kNone
};
static_assert(sizeof(InFlight) == 64);

class PacketPool
{
  public:
    using Ref = uint32_t; // place
    static constexpr Ref kNoPacket = kNone;
    static constexpr uint32_t kNoLink = kMaxIndex;

    // References are valid until the next Take.
    InFlight &operator[](uint32_t place) { return places_[place]; }
    const InFlight &operator[](uint32_t place) const { return places_[place]; }
    Packet &header(uint32_t place) { return places_[place].packet; }
    uint32_t slot(uint32_t place) const { return places_[place].packet.connection; } // of its connection
    // The link by which a packet has come, while it is at a switch; kNoLink: none.
    uint32_t came_by(uint32_t place) const { return IndexOf(places_[place].word); }

    uint32_t Take()
    {
        uint32_t place = free_;
        if (place == kNone) [[unlikely]] {
            place = static_cast<uint32_t>(places_.size());
            places_.emplace_back();
        } else {
            free_ = places_[place].behind;
        }
        return place;
    }
    void Release(uint32_t place)
    {
        places_[place].behind = free_;
        free_ = place;
    }

  private:
    std::vector<InFlight> places_;
    uint32_t free_ = kNone;
};

using PacketList = ncc::PacketList<PacketPool>;

} // namespace ncc::packetsim
