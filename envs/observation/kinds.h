// SPDX-License-Identifier: BSD-3-Clause
// Features: the numbers that a host observes, one function each. features.yaml lists them in their order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ncc
{

// Rules by which hosts are ranked, of `ncc.harness.controller.ShortestFirstLimit`; `gain` is of the column "next".
struct Rules {
    float gain, alike, slack;
};

// The view of one host: its own columns, now and when its neighbours sent their messages, and the last message of each.
struct Host {
    size_t number;
    const float *now, *before;     // columns of all hosts and uplinks
    size_t neighbours, width;      // number of neighbours, and of numbers from one's message to the next
    const float *shared;           // [neighbours, width]
    const float *uplink;           // numbers of the uplink
    const int64_t *age;            // [neighbours, and the uplink] in periods
    float uplink_frac;             // total rate of the uplinks over the host's link rate
    const float *links;            // neighbours' link rates over the host's
    const float *sum, *most;       // [width] of the neighbours' numbers
    size_t busy;                   // number of neighbours with queued flows
    float room_much, room_shorter; // share of the uplink left by neighbours with (much) shorter flows
    size_t alike;                  // neighbours with a next flow about as long
    float ahead;                   // bytes before the host's next flow, in bytes that the uplink carries in a period
    float given;                   // limit of the tuned formula, over the host's link rate
    size_t first;                  // neighbours that go before the host
    int wasted, begun, calm, busy_for; // of `Observer`
    float together;
    const std::vector<std::vector<float>> *constants;

    float Shared(size_t neighbour, size_t column) const { return shared[neighbour * width + column]; }
};

// Places of a feature's numbers: in the columns (plus the host's number), in a neighbour's message, among the uplink's
// numbers, and among the constants. `neighbour` is the neighbour that the feature is about.
struct Where {
    size_t column, shared, uplink, constant, neighbour;
};

// Writes a number of each host, at most `ceiling`, to places that are `step` apart.
using Feature = void (*)(const std::vector<Host> &, const Where &, float ceiling, float *to, size_t step);

template <double (*Of)(const Host &, const Where &)>
void OfAll(const std::vector<Host> &hosts, const Where &at, float ceiling, float *to, size_t step)
{
    for (const Host &host : hosts) {
        *to = std::min(static_cast<float>(Of(host, at)), ceiling);
        to += step;
    }
}

inline std::map<std::string, Feature> &Features()
{
    static std::map<std::string, Feature> all;
    return all;
}

struct Registered {
    Registered(const char *name, Feature feature) { Features()[name] = feature; }
};

// A kind of feature: NCC_FEATURE(name) { return a number of `host`, found by `at`; }
#define NCC_FEATURE(name)                                                                                              \
    static double name(const Host &, const Where &);                                                                   \
    static const Registered registered_##name(#name, OfAll<name>);                                                     \
    static double name([[maybe_unused]] const Host &host, [[maybe_unused]] const Where &at)

// The sum in the order in which numpy makes it, so that bits are the same.
template <typename T>
T PairwiseSum(const T *x, size_t n)
{
    if (n < 8) {
        T sum = 0;
        for (size_t i = 0; i < n; ++i) {
            sum += x[i];
        }
        return sum;
    }
    if (n <= 128) {
        T r[8];
        std::copy_n(x, 8, r);
        size_t i = 8;
        for (; i + 8 <= n; i += 8) {
            for (size_t k = 0; k < 8; ++k) {
                r[k] += x[i + k];
            }
        }
        T sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        for (; i < n; ++i) {
            sum += x[i];
        }
        return sum;
    }
    const size_t half = n / 2 / 8 * 8;
    return PairwiseSum(x, half) + PairwiseSum(x + half, n - half);
}

constexpr double kAgeScale = 100.0, kAgeMost = 3.0; // periods, and the largest number that is shown

inline double Aged(int64_t age)
{
    return age == 0 ? 0 : std::min(std::log1p(static_cast<double>(age)) / std::log1p(kAgeScale), kAgeMost);
}

namespace features
{

NCC_FEATURE(own) { return host.now[at.column + host.number]; }
NCC_FEATURE(own_before) { return host.before[at.column + host.number]; }
NCC_FEATURE(uplink) { return host.uplink[at.uplink]; }
NCC_FEATURE(constant) { return (*host.constants)[at.constant][host.number]; }
NCC_FEATURE(neighbour) { return host.Shared(at.neighbour, at.shared); }

NCC_FEATURE(mean) { return host.neighbours ? host.sum[at.shared] / static_cast<float>(host.neighbours) : 0; }
NCC_FEATURE(max) { return host.most[at.shared]; }

NCC_FEATURE(busy_share)
{
    return host.neighbours ? static_cast<double>(host.busy) / static_cast<double>(host.neighbours) : 0;
}

NCC_FEATURE(fair_share) { return std::min(host.uplink_frac / static_cast<double>(1 + host.busy), 1.0); }
NCC_FEATURE(room_after_much_shorter) { return std::min(host.room_much, 1.0F); }
NCC_FEATURE(room_after_shorter) { return std::min(host.room_shorter, 1.0F); }
NCC_FEATURE(share_among_alike) { return std::min(host.room_much / static_cast<double>(1 + host.alike), 1.0); }

constexpr double kAheadScale = 4, kNearMost = 3, kNearScale = 2, kFirstScale = 4, kFirstMost = 2;

NCC_FEATURE(bytes_ahead) { return host.ahead / kAheadScale; }
NCC_FEATURE(bytes_just_ahead) { return std::min(static_cast<double>(host.ahead), kNearMost) / kNearScale; }
NCC_FEATURE(hosts_before) { return std::min(static_cast<double>(host.first) / kFirstScale, kFirstMost); }

constexpr double kWastedScale = 10;

NCC_FEATURE(wasted) { return host.wasted / kWastedScale; }

constexpr double kBusyScale = 10, kHostsScale = 8, kHostsMost = 24, kCalmPeriods = 50, kShareScale = 2;

NCC_FEATURE(busy_for) { return host.busy_for / kBusyScale; }
NCC_FEATURE(busy_hosts) { return std::min(static_cast<double>(host.busy), kHostsMost) / kHostsScale; }
NCC_FEATURE(hosts_alike) { return std::min(static_cast<double>(host.alike), kHostsMost) / kHostsScale; }
NCC_FEATURE(hosts_begun) { return std::min(static_cast<double>(host.begun), kHostsMost) / kHostsScale; }
NCC_FEATURE(begin_together) { return std::min(static_cast<double>(host.together), kHostsMost) / kHostsScale; }
NCC_FEATURE(after_burst) { return std::exp(-host.calm / kCalmPeriods); }

// The logarithms of two formulas' limits over the host's fair share.
inline double OverFair(const Host &host, double share)
{
    const double fair = std::min(host.uplink_frac / static_cast<double>(1 + host.busy), 1.0);
    return std::log(std::clamp(share / fair, 0.05, 20.0)) / kShareScale;
}

NCC_FEATURE(share_over_fair) { return OverFair(host, host.room_much / static_cast<double>(1 + host.alike)); }
NCC_FEATURE(tuned_over_fair) { return OverFair(host, host.given); }
NCC_FEATURE(tuned_limit) { return host.given; }

NCC_FEATURE(age) { return Aged(host.age[at.neighbour]); }
NCC_FEATURE(uplink_age) { return Aged(host.age[host.neighbours]); }

NCC_FEATURE(age_mean)
{
    if (std::all_of(host.age, host.age + host.neighbours, [](int64_t age) { return age == 0; })) {
        return 0;
    }
    std::vector<double> ages(host.neighbours);
    std::transform(host.age, host.age + host.neighbours, ages.begin(), Aged);
    return ages.empty() ? 0 : PairwiseSum(ages.data(), ages.size()) / static_cast<double>(ages.size());
}

NCC_FEATURE(age_max) { return host.neighbours ? Aged(*std::max_element(host.age, host.age + host.neighbours)) : 0; }

} // namespace features

} // namespace ncc
