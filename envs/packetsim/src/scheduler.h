// SPDX-License-Identifier: BSD-3-Clause
// What happens next: events in order of time, and within one instant in the order in which they were scheduled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncc::packetsim
{

enum class EventKind : uint8_t {
    kArrival,    // the head of a link's FIFO is at the far end; index: directed port
    kTransmit,   // a port with two queues has sent a packet; index: directed port
    kWire,       // a host's wire is free; index: host
    kTokens,     // a host's bucket holds the next packet; index: host
    kRetransmit, // index: connection, as for the two below
    kDelayedAck,
    kPace,
    kOver,   // a flow is acknowledged and its host's queue empty; index: connection
    kFlow,   // the next flow arrives
    kLimits, // new rate limits take hold
};

// Order and meaning of an event in one word, so that an event is 16 bytes and compares as one number: 37 bits of order
// (at 10 million events per second, almost four hours of simulation), 4 of kind, 23 of index.
constexpr unsigned kIndexBits = 23, kKindBits = 4;
constexpr uint32_t kMaxIndex = (1U << kIndexBits) - 1;

constexpr uint64_t EventWord(uint64_t order, EventKind kind, uint32_t index)
{
    return order << (kIndexBits + kKindBits) | static_cast<uint64_t>(kind) << kIndexBits | index;
}
constexpr EventKind KindOf(uint64_t word) { return static_cast<EventKind>(word >> kIndexBits & ((1U << kKindBits) - 1)); }
constexpr uint32_t IndexOf(uint64_t word) { return static_cast<uint32_t>(word & kMaxIndex); }

struct Event {
    int64_t time_ns; // >= 0
    uint64_t word;

    __extension__ typedef unsigned __int128 Key;
    Key key() const { return static_cast<Key>(static_cast<uint64_t>(time_ns)) << 64 | word; }
    bool operator<(const Event &other) const { return key() < other.key(); }
};

// A heap with four children to a node: half as deep as a binary one, and the children of a node share a cache line.
class Scheduler
{
  public:
    Scheduler() { heap_.reserve(256); }

    bool empty() const { return heap_.empty(); }
    size_t size() const { return heap_.size(); }
    const Event &top() const { return heap_.front(); }

    void Push(Event event)
    {
        heap_.push_back(event);
        SiftUp(heap_.size() - 1, event);
    }

    void Pop()
    {
        const Event last = heap_.back();
        heap_.pop_back();
        if (!heap_.empty()) {
            SiftDown(last);
        }
    }

    // Pop and Push in one: what most events do.
    void Replace(Event event) { SiftDown(event); }

  private:
    void SiftUp(size_t at, Event event)
    {
        while (at > 0) {
            const size_t parent = (at - 1) / 4;
            if (!(event < heap_[parent])) {
                break;
            }
            heap_[at] = heap_[parent];
            at = parent;
        }
        heap_[at] = event;
    }

    void SiftDown(Event event)
    {
        const size_t n = heap_.size();
        Event *heap = heap_.data();
        size_t at = 0;
        for (size_t child; (child = 4 * at + 1) + 3 < n; at = child) {
            const size_t left = heap[child + 1] < heap[child] ? child + 1 : child;
            const size_t right = heap[child + 3] < heap[child + 2] ? child + 3 : child + 2;
            child = heap[right] < heap[left] ? right : left;
            if (!(heap[child] < event)) {
                heap[at] = event;
                return;
            }
            heap[at] = heap[child];
        }
        for (size_t first = 4 * at + 1; first < n; first = 4 * at + 1) { // the last node may have fewer children
            size_t child = first;
            for (size_t i = first + 1; i < n && i < first + 4; ++i) {
                child = heap[i] < heap[child] ? i : child;
            }
            if (!(heap[child] < event)) {
                break;
            }
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = event;
    }

    std::vector<Event> heap_;
};

} // namespace ncc::packetsim
