// SPDX-License-Identifier: BSD-3-Clause
// The formula LOCAL: the limit of a host from the backlog before it. `ncc.harness.local.Local` has the equations.
// Controllers, observers and the residual's formulas compute it here. The caller chooses the unit of rates. Bytes are
// given as the rate that carries them in one period.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ncc
{

// Constants, fields of `ncc.harness.controller.LocalLimit`.
template <typename T>
struct Formula {
    // Bounds of the factor by which queue feedback scales the uplink's capacity.
    static constexpr T kLeast = static_cast<T>(0.3), kMost = static_cast<T>(1.5);

    // Reads the constants by their names.
    template <typename Read>
    static Formula Of(Read &&read)
    {
        return {read("headroom_frac"), read("alike"),         read("slack_periods"), read("floor_frac"),
                read("tie_frac"),      read("ahead_periods"), read("queue_gain"),    read("queue_periods"),
                read("hold_periods"),  read("hold_frac"),     read("idle_frac")};
    }

    T headroom_frac, alike, slack_periods, floor_frac, tie_frac, ahead_periods, queue_gain, queue_periods, hold_periods,
        hold_frac, idle_frac;
};

// Rate that a host with queued flows may need of a port, from its last sending rate, its limit and its link's rate. A
// host that used most of its limit or link, apart from a start allowance, may need its whole link: with a low limit, a
// short period has too few packets to tell. A host that its transport holds back, say by waiting for ACKs across a WAN,
// cannot use that much. It gets a multiple of its last rate, because a window may double in slow start.
template <typename T>
T Claim(T sent, T limit, T link)
{
    constexpr T kHeld = static_cast<T>(0.8), kGrowth = 2, kStart = static_cast<T>(0.1);
    const T start = kStart * link;
    return sent + start >= kHeld * std::min(limit, link) ? link : std::min(kGrowth * sent + start, link);
}

// Place of another host's next flow relative to one's own: well before it, about equal, or well after it.
enum class Place { kBefore, kAlike, kAfter };

template <typename T>
Place PlaceOf(T other, T other_slack, T self, T self_slack, T alike)
{
    if (other + other_slack < self / alike) {
        return Place::kBefore;
    }
    return other <= (self + self_slack) * alike ? Place::kAlike : Place::kAfter;
}

// A neighbour with queued flows, as the deciding host knows it: bytes left of its next flow, its key, its link's rate.
template <typename T>
struct Other {
    T next, key, link;
};

// The deciding host: its key, its link's rate, the periods for which it has been busy, and its turn among equals.
template <typename T>
struct Self {
    T key, link;
    int busy_periods;
    size_t turn;
};

// Limit of a host with queued flows, before it is capped at the link's rate. `seen(j, other)` fills in neighbour j of
// `others`, in turn order after the host itself, or returns false if that neighbour has nothing queued; `claim(j)` is
// the rate that it may need.
template <typename T, typename Seen, typename Claimed>
T LocalShare(const Formula<T> &f, T uplink, T queue_periods, const Self<T> &self, size_t others, Seen &&seen,
             Claimed &&claim)
{
    const T fed_back =
        std::clamp(1 + f.queue_gain * (f.queue_periods - queue_periods), Formula<T>::kLeast, Formula<T>::kMost);
    const T capacity = (1 - f.headroom_frac) * uplink * fed_back;
    T taken = 0, ahead = 0, peers = 1;
    size_t busy = 0;
    for (size_t j = 0; j < others; ++j) {
        Other<T> other;
        if (!seen(j, other)) {
            continue;
        }
        ++busy;
        const Place place =
            PlaceOf(other.key, f.slack_periods * other.link, self.key, f.slack_periods * self.link, f.alike);
        if (place == Place::kAfter) {
            continue;
        }
        const bool equal = place == Place::kAlike, wins_tie = self.turn + 1 + j > others;
        const T before = equal ? (wins_tie ? f.tie_frac : 0) : 1;
        taken += before * claim(j);
        ahead += before * other.next;
        peers += equal ? 1 - f.tie_frac : 0;
    }
    const T fair = capacity / static_cast<T>(1 + busy);
    T share = std::max(std::max(capacity - taken, T(0)) / peers, f.floor_frac * fair);
    if (ahead < f.ahead_periods * capacity) {
        share = std::max(share, self.link / peers);
    }
    if (static_cast<T>(self.busy_periods) <= f.hold_periods) {
        share = std::min(share, f.hold_frac * capacity);
    }
    return share;
}

} // namespace ncc
