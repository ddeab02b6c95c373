// SPDX-License-Identifier: BSD-3-Clause
// The events in order of time, and within one instant in the order in which they were scheduled.
#pragma once

#include "event.h"
#include "heap.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncc::packetsim
{

// A calendar queue (Brown, CACM 1988): one bucket for each short slot of time in the near future, and a heap for later
// events (mostly timers). Bitmaps find the next bucket in use, so that empty ones cost nothing. It was chosen by
// measurement against the heap alone; `python -m ncc.bench` runs both.
class Scheduler
{
  public:
    // `events_per_ns` is the highest density of events; `near_ns` is the time within which most of them lie.
    Scheduler(double events_per_ns, int64_t near_ns)
    {
        constexpr double kPerSlot = 0.5;
        constexpr unsigned kMaxBuckets = 1U << 16;
        while (static_cast<double>(2LL << shift_) * events_per_ns <= kPerSlot && shift_ < 20) {
            ++shift_;
        }
        uint64_t slots = kMinBuckets;
        while (slots < kMaxBuckets && static_cast<int64_t>(slots << shift_) < near_ns) {
            slots *= 2;
        }
        mask_ = static_cast<uint32_t>(slots - 1);
        lists_.assign(slots, {kNil, kNil});
        used_.assign(slots / 64, 0);
        words_used_.assign((slots / 64 + 63) / 64, 0);
    }

    bool empty() const { return near_ == 0 && far_.empty(); }
    size_t size() const { return near_ + far_.size(); }

    // Adds an event that is not before the last popped one.
    void Push(Event event)
    {
        const uint64_t slot = static_cast<uint64_t>(event.time_ns) >> shift_;
        if (slot - now_slot_ > mask_) {
            far_.Push(event);
            return;
        }
        uint32_t node = free_;
        if (node == kNil) {
            node = static_cast<uint32_t>(nodes_.size());
            nodes_.emplace_back();
        } else {
            free_ = nodes_[node].next;
        }
        const uint32_t bucket = static_cast<uint32_t>(slot) & mask_;
        List &list = lists_[bucket];
        if (list.head == kNil) {
            nodes_[node] = {event, kNil};
            list = {node, node};
        } else if (nodes_[list.tail].event < event) { // always true for events of one instant, whose list may be long
            nodes_[node] = {event, kNil};
            nodes_[list.tail].next = node;
            list.tail = node;
        } else {
            uint32_t *place = &list.head;
            while (nodes_[*place].event < event) {
                place = &nodes_[*place].next;
            }
            nodes_[node] = {event, *place};
            *place = node;
        }
        used_[bucket / 64] |= 1ULL << bucket % 64;
        words_used_[bucket / 4096] |= 1ULL << bucket / 64 % 64;
        ++near_;
    }

    // Returns the next event; there must be one. Pop removes the event that the last call of top returned.
    Event top()
    {
        top_is_far_ = near_ == 0;
        if (top_is_far_) {
            return far_.top();
        }
        bucket_ = NextBucket();
        const Event event = nodes_[lists_[bucket_].head].event;
        if (!far_.empty() && far_.top() < event) {
            top_is_far_ = true;
            return far_.top();
        }
        return event;
    }

    void Pop()
    {
        if (top_is_far_) {
            now_slot_ = static_cast<uint64_t>(far_.top().time_ns) >> shift_;
            far_.Pop();
            return;
        }
        uint32_t &head = lists_[bucket_].head;
        const uint32_t node = head;
        now_slot_ = static_cast<uint64_t>(nodes_[node].event.time_ns) >> shift_;
        head = nodes_[node].next;
        nodes_[node].next = free_;
        free_ = node;
        --near_;
        if (head == kNil && (used_[bucket_ / 64] &= ~(1ULL << bucket_ % 64)) == 0) {
            words_used_[bucket_ / 4096] &= ~(1ULL << bucket_ / 64 % 64);
        }
    }

  private:
    static constexpr uint32_t kNil = UINT32_MAX;
    static constexpr uint64_t kMinBuckets = 256;

    struct Node {
        Event event;
        uint32_t next;
    };
    // Events of a bucket, in order.
    struct List {
        uint32_t head;
        uint32_t tail; // undefined while there is no head
    };

    // Returns the first bucket in use from the current slot on, around the calendar.
    uint32_t NextBucket() const
    {
        const uint32_t bucket = static_cast<uint32_t>(now_slot_) & mask_;
        if (const uint64_t bits = used_[bucket / 64] >> bucket % 64) {
            return bucket + static_cast<uint32_t>(std::countr_zero(bits));
        }
        const size_t from = bucket / 64 + 1;
        for (size_t i = from / 64; i < words_used_.size(); ++i) {
            const uint64_t bits = i == from / 64 ? words_used_[i] & ~0ULL << from % 64 : words_used_[i];
            if (bits) {
                return FirstOf(i * 64 + static_cast<size_t>(std::countr_zero(bits)));
            }
        }
        for (size_t i = 0;; ++i) {
            if (words_used_[i]) {
                return FirstOf(i * 64 + static_cast<size_t>(std::countr_zero(words_used_[i])));
            }
        }
    }
    uint32_t FirstOf(size_t word) const
    {
        return static_cast<uint32_t>(word * 64) + static_cast<uint32_t>(std::countr_zero(used_[word]));
    }

    unsigned shift_ = 0; // a slot is 2^shift ns
    uint32_t mask_;
    uint64_t now_slot_ = 0;            // slot of the last popped event
    std::vector<List> lists_;          // by bucket
    std::vector<uint64_t> used_;       // a bit for each bucket
    std::vector<uint64_t> words_used_; // a bit for each word of `used_`
    std::vector<Node> nodes_;
    uint32_t free_ = kNil;
    size_t near_ = 0;
    Heap far_;
    uint32_t bucket_ = 0; // bucket of the event that top returned
    bool top_is_far_ = false;
};

} // namespace ncc::packetsim
