// SPDX-License-Identifier: BSD-3-Clause
// An event: its time, its kind and the part of the network that it concerns.
#pragma once

#include "events.h"

#include <cstdint>

namespace ncc::packetsim
{

// Order and meaning of an event in one word, so that an event has 16 bytes and compares as one number: 36 bits of order
// (almost two hours of simulation at 10 million events per second), 5 of kind, 23 of index.
constexpr unsigned kIndexBits = 23, kKindBits = 5;
constexpr uint32_t kMaxIndex = (1U << kIndexBits) - 1;

constexpr uint64_t EventWord(uint64_t order, EventKind kind, uint32_t index)
{
    return order << (kIndexBits + kKindBits) | static_cast<uint64_t>(kind) << kIndexBits | index;
}
constexpr EventKind KindOf(uint64_t word)
{
    return static_cast<EventKind>(word >> kIndexBits & ((1U << kKindBits) - 1));
}
constexpr uint32_t IndexOf(uint64_t word) { return static_cast<uint32_t>(word & kMaxIndex); }

struct Event {
    int64_t time_ns; // >= 0
    uint64_t word;

    __extension__ typedef unsigned __int128 Key;
    Key key() const { return static_cast<Key>(static_cast<uint64_t>(time_ns)) << 64 | word; }
    bool operator<(const Event &other) const { return key() < other.key(); }
};

} // namespace ncc::packetsim
