// SPDX-License-Identifier: BSD-3-Clause
// A timer of a connection. Arming again and cancelling take no work in the scheduler: a queued event that comes too
// early is scheduled again for the current due time, and one whose timer is off is dropped.
#pragma once

#include <cstdint>

namespace ncc::packetsim
{

enum class TimerKind : uint8_t { kRetransmit, kDelayedAck, kPace, kControl };

struct Timer {
    static constexpr int64_t kOff = INT64_MAX;
    int64_t due_ns = kOff;
    uint64_t order = 0;       // order among events of one instant, from the time of arming
    int64_t queued_ns = kOff; // time of its event in the scheduler
    uint64_t queued_word = 0; // its word; 0: none

    bool on() const { return due_ns != kOff; }
    void Cancel() { due_ns = kOff; }
};

} // namespace ncc::packetsim
