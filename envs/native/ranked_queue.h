// SPDX-License-Identifier: BSD-3-Clause
// The waiting packets of a port that serves by rank (switch.h, NCC_SW_RANKED).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncc
{

// `Item` is the simulator's reference to a packet. Every operation looks through all packets, because such queues are
// short.
template <typename Item>
class RankedQueue
{
  public:
    size_t size() const { return packets_.size(); }

    void Push(Item item, uint64_t rank, uint32_t flow) { packets_.push_back({item, rank, flow}); }

    // Takes the earliest packet of the flow whose packet has the smallest rank; of equals, the first.
    Item Pop()
    {
        const auto best = std::min_element(packets_.begin(), packets_.end(),
                                           [](const Packet &a, const Packet &b) { return a.rank < b.rank; });
        const uint32_t flow = best->flow;
        return Take(std::find_if(packets_.begin(), packets_.end(), [=](const Packet &k) { return k.flow == flow; }));
    }

    // Returns true if a packet of this rank may push one out.
    bool Above(uint64_t rank) const
    {
        return std::any_of(packets_.begin(), packets_.end(), [=](const Packet &k) { return k.rank > rank; });
    }

    // Takes the packet with the largest rank; of equals, the last.
    Item PushOut()
    {
        auto worst = packets_.begin();
        for (auto each = packets_.begin(); each != packets_.end(); ++each) {
            worst = each->rank >= worst->rank ? each : worst;
        }
        return Take(worst);
    }

  private:
    struct Packet {
        Item item;
        uint64_t rank;
        uint32_t flow;
    };

    Item Take(typename std::vector<Packet>::iterator at)
    {
        const Item item = at->item;
        packets_.erase(at);
        return item;
    }

    std::vector<Packet> packets_; // in order of arrival
};

} // namespace ncc
