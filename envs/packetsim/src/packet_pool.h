// SPDX-License-Identifier: BSD-3-Clause
// Memory for the packets of a network. A packet stays in one place from its sending host's queue to its delivery, and
// only moves between lists. The place freed last is reused first, while it is still in the cache.
#pragma once

#include "packet.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncc::packetsim
{

// A packet and the state of its current hop, in one cache line.
struct alignas(64) InFlight {
    int64_t arrival_ns; // arrival at the far end of the link
    uint64_t word;      // word of its arrival event; while a port holds it, the link by which it came (PFC)
    int64_t start_ps;   // start of its transmission
    int64_t joined_ns;  // time at which it joined the queue
    Packet packet;
    uint32_t next_port; // port after this link, or kAsk; kNone: this is the last link
    uint32_t behind;    // the packet behind it in its list, or kNone
};
static_assert(sizeof(InFlight) == 64);

class PacketPool
{
  public:
    // References are valid until the next Take.
    InFlight &operator[](uint32_t place) { return places_[place]; }
    const InFlight &operator[](uint32_t place) const { return places_[place]; }

    uint32_t Take(const Packet &packet)
    {
        uint32_t place = free_;
        if (place == kNone) [[unlikely]] {
            place = static_cast<uint32_t>(places_.size());
            places_.emplace_back();
        } else {
            free_ = places_[place].behind;
        }
        places_[place].packet = packet;
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

// A list of packets in order of arrival, by their places in a pool.
class PacketList
{
  public:
    bool empty() const { return head_ == kNone; }
    uint32_t size() const { return size_; }
    uint32_t front() const { return head_; } // kNone: empty

    void PushBack(PacketPool &pool, uint32_t place)
    {
        pool[place].behind = kNone;
        (head_ == kNone ? head_ : pool[tail_].behind) = place;
        tail_ = place;
        ++size_;
    }
    uint32_t PopFront(PacketPool &pool)
    {
        const uint32_t place = head_;
        head_ = pool[place].behind;
        --size_;
        return place;
    }

  private:
    uint32_t head_ = kNone, tail_ = kNone, size_ = 0;
};

} // namespace ncc::packetsim
