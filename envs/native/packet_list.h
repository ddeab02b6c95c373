// SPDX-License-Identifier: BSD-3-Clause
// Lists of packets, for both simulators.
#pragma once

#include <cstdint>

namespace ncc
{

// A list of packets in order of arrival. `Packets` keeps all packets of a simulator: Packets::Ref names one of them,
// packets[ref].behind is the packet behind it in its list, and Packets::kNoPacket ends a list.
template <class Packets>
class PacketList
{
  public:
    using Ref = typename Packets::Ref;

    bool empty() const { return head_ == Packets::kNoPacket; }
    uint32_t size() const { return size_; }
    Ref front() const { return head_; } // kNoPacket: empty

    void PushBack(Packets &packets, Ref ref)
    {
        packets[ref].behind = Packets::kNoPacket;
        (empty() ? head_ : packets[tail_].behind) = ref;
        tail_ = ref;
        ++size_;
    }
    Ref PopFront(Packets &packets)
    {
        const Ref ref = head_;
        head_ = packets[ref].behind;
        --size_;
        return ref;
    }

  private:
    Ref head_ = Packets::kNoPacket, tail_ = Packets::kNoPacket;
    uint32_t size_ = 0;
};

} // namespace ncc
