// SPDX-License-Identifier: BSD-3-Clause
// One direction of a link: the packets that wait for its transmitter and those on their way, in one FIFO.
#pragma once

#include "packet.h"

#include "wire.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ncc::packetsim
{

// A packet between joining a queue and arriving at the far end. One cache line.
struct alignas(64) InFlight {
    int64_t arrival_ns;
    uint64_t word; // of its arrival event
    int64_t start_ps;
    int64_t joined_ns;
    Packet packet;
};
static_assert(sizeof(InFlight) == 64);

// Only the head's arrival is an event of the scheduler: the others cannot come before it.
class Link
{
  public:
    explicit Link(const Wire &wire) : wire(wire) {}

    bool empty() const { return head_ == tail_; }
    uint64_t size() const { return tail_ - head_; }
    const InFlight &front() const { return ring_[head_ & mask_]; }
    const InFlight &at(uint64_t place) const { return ring_[place & mask_]; }
    uint64_t head() const { return head_; }
    uint64_t tail() const { return tail_; }

    InFlight &PushBack()
    {
        if (tail_ - head_ == capacity_) {
            Grow();
        }
        return ring_[tail_++ & mask_];
    }
    void PopFront() { ++head_; }

    Wire wire;

  private:
    void Grow()
    {
        const uint64_t capacity = capacity_ == 0 ? 8 : 2 * capacity_;
        auto ring = std::make_unique<InFlight[]>(capacity);
        for (uint64_t place = head_; place != tail_; ++place) {
            ring[place & (capacity - 1)] = ring_[place & mask_];
        }
        ring_ = std::move(ring);
        capacity_ = capacity;
        mask_ = capacity - 1;
    }

    std::unique_ptr<InFlight[]> ring_;
    uint64_t mask_ = 0, capacity_ = 0;
    uint64_t head_ = 0, tail_ = 0; // places since the start; never wrap
};

} // namespace ncc::packetsim
