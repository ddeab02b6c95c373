// SPDX-License-Identifier: BSD-3-Clause
// The bound of an event-driven simulator: its scheduler alone.
#pragma once

#include "scheduler.h"

#include <cstdint>

namespace ncc::packetsim
{

// Runs `events` events, `population` of them waiting at any time, each of which only puts itself back by 1 to 1024 ns.
// Returns the time it ends at, so that no compiler leaves the work out.
inline int64_t BareLoop(uint64_t events, uint32_t population)
{
    Scheduler scheduler;
    uint64_t order = 0, state = 1;
    auto delay_ns = [&state] { // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<int64_t>(state & 1023) + 1;
    };
    for (uint32_t i = 0; i < population; ++i) {
        scheduler.Push({delay_ns(), EventWord(++order, EventKind::kArrival, i & kMaxIndex)});
    }
    for (uint64_t i = 0; i < events; ++i) {
        const Event event = scheduler.top();
        scheduler.Replace({event.time_ns + delay_ns(), EventWord(++order, KindOf(event.word), IndexOf(event.word))});
    }
    return scheduler.top().time_ns;
}

} // namespace ncc::packetsim
