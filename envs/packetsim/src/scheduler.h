// SPDX-License-Identifier: BSD-3-Clause
// The events in order of time, and within one instant in the order in which they were scheduled.
#pragma once

#include "event.h"
#include "heap.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ncc::packetsim
{

// A calendar queue (Brown, CACM 1988): one bucket for each short slot of time in the near future, and a heap for later
// events (mostly timers). Bitmaps find the next bucket in use, so that empty ones cost nothing. The first event is kept
// apart: it is found while the one before it is handled, and not after that, when the processor would have to wait.
class Scheduler
{
  public:
    static constexpr int64_t kNever = INT64_MAX;

    // `events_per_ns` is the density of events, as far as it is known; `near_ns` is the time within which most of them
    // lie.
    Scheduler(double events_per_ns, int64_t near_ns) : near_ns_(near_ns), shift_(ShiftOf(events_per_ns)) { Build(); }

    size_t size() const { return near_ + far_.size() + (next_.time_ns != kNever); }

    // Adds an event that is not before the last popped one, and before `kNever`.
    void Push(Event event)
    {
        if (event.time_ns > next_.time_ns) [[likely]] {
            Keep(event);
        } else {
            PushFirst(event);
        }
    }

    // Takes the next event out if it is before `end`, whose time is at most `kNever` and whose word is then 0.
    bool PopBefore(const Event &end, Event &event)
    {
        if (next_.time_ns >= end.time_ns && !(next_ < end)) [[unlikely]] {
            return false;
        }
        event = next_;
        now_slot_ = static_cast<uint64_t>(event.time_ns) >> shift_;
        Advance();
        return true;
    }

    // Adapts the length of slots to a density that was measured. The order of events does not depend on it.
    void Tune(double events_per_ns)
    {
        const unsigned shift = ShiftOf(events_per_ns);
        if (shift == shift_ || shift + 1 == shift_) {
            return; // not worth the work
        }
        std::vector<Event> events; // in order, so that each goes to the end of its list
        events.reserve(near_ + far_.size());
        const Event next = next_;
        while (near_ + far_.size() > 0) {
            Advance();
            events.push_back(next_);
        }
        next_ = next;
        now_slot_ = now_slot_ << shift_ >> shift;
        shift_ = shift;
        Build();
        for (const Event &event : events) {
            Keep(event);
        }
    }

  private:
    static constexpr uint32_t kNil = UINT32_MAX;

    struct Node {
        Event event;
        uint32_t next;
    };
    // Events of a bucket, in order. Both are undefined while the bucket is empty.
    struct List {
        uint32_t head, tail;
    };

    // Binary logarithm of a slot's length in ns.
    static unsigned ShiftOf(double events_per_ns)
    {
        constexpr double kPerSlot = 0.5;
        unsigned shift = 0;
        while (static_cast<double>(2LL << shift) * events_per_ns <= kPerSlot && shift < 20) {
            ++shift;
        }
        return shift;
    }

    // Makes an empty calendar of at least 256 slots. It reaches as far ahead as most events lie, and to the events of
    // delayed ACKs if few slots are enough for that.
    void Build()
    {
        constexpr uint64_t kMinSlots = 256, kFewSlots = 1U << 11, kMaxSlots = 1U << 16;
        constexpr int64_t kDelayedAckNs = 128'000;
        uint64_t slots = kMinSlots;
        for (const auto &[most, reach_ns] : {std::pair{kMaxSlots, near_ns_}, std::pair{kFewSlots, kDelayedAckNs}}) {
            while (slots < most && static_cast<int64_t>(slots << shift_) < reach_ns) {
                slots *= 2;
            }
        }
        mask_ = static_cast<uint32_t>(slots - 1);
        lists_.assign(slots, {kNil, kNil});
        used_.assign(slots / 64, 0);
        words_used_.assign((slots / 64 + 63) / 64, 0);
        nodes_.clear();
        free_ = kNil;
        near_ = 0;
        far_ns_ = kNever;
    }

    [[gnu::noinline]] void PushFirst(Event event)
    {
        if (event < next_) {
            std::swap(event, next_);
        }
        if (event.time_ns != kNever) {
            Keep(event);
        }
    }

    // Adds an event that is after `next_`.
    void Keep(Event event)
    {
        const uint64_t slot = static_cast<uint64_t>(event.time_ns) >> shift_;
        if (slot - now_slot_ > mask_) [[unlikely]] {
            far_.Push(event);
            far_ns_ = far_.top().time_ns;
            return;
        }
        if (free_ == kNil) [[unlikely]] {
            AddNodes();
        }
        const uint32_t index = free_;
        Node &node = nodes_[index];
        free_ = node.next;
        node = {event, kNil};
        ++near_;
        const uint32_t bucket = static_cast<uint32_t>(slot) & mask_;
        const uint64_t bit = 1ULL << bucket % 64;
        List &list = lists_[bucket];
        if (!(used_[bucket / 64] & bit)) {
            used_[bucket / 64] |= bit;
            words_used_[bucket / 4096] |= 1ULL << bucket / 64 % 64;
            list = {index, index};
        } else if (nodes_[list.tail].event < event) { // always true for events of one instant, whose list may be long
            nodes_[list.tail].next = index;
            list.tail = index;
        } else {
            uint32_t *place = &list.head;
            while (nodes_[*place].event < event) {
                place = &nodes_[*place].next;
            }
            node.next = *place;
            *place = index;
        }
    }

    [[gnu::noinline]] void AddNodes()
    {
        const auto first = static_cast<uint32_t>(nodes_.size()), end = std::max(64U, 2 * first);
        nodes_.resize(end);
        for (uint32_t i = first; i + 1 < end; ++i) {
            nodes_[i].next = i + 1;
        }
        nodes_.back().next = kNil;
        free_ = first;
    }

    // Makes the first of the kept events the next one.
    void Advance()
    {
        if (near_ == 0) [[unlikely]] {
            AdvanceFar();
            return;
        }
        const uint32_t bucket = NextBucket();
        List &list = lists_[bucket];
        const uint32_t index = list.head;
        Node &node = nodes_[index];
        if (node.event.time_ns >= far_ns_ && far_.top() < node.event) [[unlikely]] {
            AdvanceFar();
            return;
        }
        next_ = node.event;
        const uint32_t after = node.next;
        list.head = after;
        node.next = free_;
        free_ = index;
        --near_;
        // Without branches: nothing foretells whether the bucket, and its word, are empty now.
        const uint64_t used = used_[bucket / 64] & ~(static_cast<uint64_t>(after == kNil) << bucket % 64);
        used_[bucket / 64] = used;
        words_used_[bucket / 4096] &= ~(static_cast<uint64_t>(used == 0) << bucket / 64 % 64);
    }

    [[gnu::noinline]] void AdvanceFar()
    {
        if (far_.empty()) {
            next_ = {kNever, 0};
            return;
        }
        next_ = far_.top();
        far_.Pop();
        far_ns_ = far_.empty() ? kNever : far_.top().time_ns;
    }

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

    Event next_{kNever, 0};
    int64_t near_ns_;
    unsigned shift_; // a slot is 2^shift ns
    uint32_t mask_;
    uint64_t now_slot_ = 0;            // slot of the last popped event
    std::vector<List> lists_;          // by bucket
    std::vector<uint64_t> used_;       // a bit for each bucket
    std::vector<uint64_t> words_used_; // a bit for each word of `used_`
    std::vector<Node> nodes_;
    uint32_t free_;
    size_t near_;
    Heap far_;
    int64_t far_ns_; // time of its first event
};

} // namespace ncc::packetsim
