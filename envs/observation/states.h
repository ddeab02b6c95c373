// SPDX-License-Identifier: BSD-3-Clause
// Memory of an observer about a network: states, the messages that hosts have, and counts of each host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncc
{

// Count of wasted periods, from 0 to kWastedMost. A wasted period adds kWasted to it, and any other period subtracts 1.
// A period is wasted if the uplink was used by less than kRoom although the host had flows queued, both now and when
// its neighbours sent their messages.
constexpr float kRoom = 0.5F;
constexpr int kWasted = 5, kWastedMost = 30;

// A burst: at least so many neighbours have become busy between two messages.
constexpr int kBurst = 4;
constexpr int kCalmMost = 1000, kBusyMost = 20; // periods that are counted

// Mean number of others that begin in the same period as a host that begins.
constexpr int kBegins = 64; // number of the last beginnings that the mean is over

// Messages of a period, of one network: either the flags of those that arrive, or the extra ages of the states that
// messages have brought.
struct Messages {
    const bool *arrivals = nullptr; // [n, neighbours + 1]; nullptr: all
    const int64_t *ages = nullptr;  // [hosts, and uplinks]
    size_t period = 0;              // of `ages`: number of the period, the same for all hosts
};

struct ObservedCounts {
    int wasted = 0;        // see kWasted
    int begun = 0;         // neighbours that became busy between their last message and the one before
    int calm = kCalmMost;  // periods since a burst
    int busy_for = 0;      // periods since the host itself has had flows queued
    bool was_busy = false; // true if the host had flows queued at the time of the last messages
    int begins = 0;        // beginnings of all hosts so far, at most kBegins
    float together = 0;    // the mean that kBegins is about
};

struct ObservedNetwork {
    std::vector<double> raw;
    std::vector<std::vector<float>> ring;     // states, the newest and as many before it as messages are old
    std::vector<float> sent;                  // last messages of hosts: of a neighbourhood's, and the same again
    std::vector<float> heard;                 // last messages that arrived [n, neighbours, width]; empty: all have
    std::vector<float> uplink;                // last messages about uplinks [n, uplink's numbers]
    std::vector<int64_t> age;                 // [n, neighbours + 1]
    std::vector<ObservedCounts> counts;       // [n]
    size_t seen = 0, newest = 0, periods = 0; // periods: since the network began
};

} // namespace ncc
