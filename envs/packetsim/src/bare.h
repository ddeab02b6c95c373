// SPDX-License-Identifier: BSD-3-Clause
// The upper bound of an event-driven simulator's speed: its scheduler alone.
#pragma once

#include "event.h"

#include <cstdint>

namespace ncc::packetsim
{

// Runs `events` events, with `population` of them waiting at any time. Each one only schedules itself again within
// `span_ns` (a power of two). Returns a sum over the events, so that no compiler removes the work.
template <typename Queue>
int64_t BareLoop(Queue &queue, uint64_t events, uint32_t population, int64_t span_ns)
{
    uint64_t order = 0, state = 1;
    auto delay_ns = [&state, span_ns] { // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<int64_t>(state & static_cast<uint64_t>(span_ns - 1)) + 1;
    };
    for (uint32_t i = 0; i < population; ++i) {
        queue.Push({delay_ns(), EventWord(++order, EventKind::kArrival, i & kMaxIndex)});
    }
    int64_t sum = 0;
    for (uint64_t i = 0; i < events; ++i) {
        const Event event = queue.top();
        queue.Pop();
        sum += event.time_ns;
        queue.Push({event.time_ns + delay_ns(), EventWord(++order, KindOf(event.word), IndexOf(event.word))});
    }
    return sum;
}

} // namespace ncc::packetsim
