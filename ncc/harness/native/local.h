// SPDX-License-Identifier: BSD-3-Clause
// The formula LOCAL: the limit of a host by what waits before it. `ncc.harness.local.Local` has the equations.
// Controllers, observers and the residual's formulas compute it here. Rates and bytes are in units of the caller's
// choice, bytes as the rate that carries them in a period.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ncc
{

// Constants, fields of `ncc.harness.controller.LocalLimit`.
template <typename T>
struct Formula {
    // Bounds of the share of the uplink that queue feedback leaves to give away.
    static constexpr T kLeast = static_cast<T>(0.3), kMost = static_cast<T>(1.5);

    // Reads them by their names.
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

// Rate that a host with queued flows may need of a port, by the rate that it sent last, its limit and its link's rate.
// One that used most of its limit or link, apart from what it begins with, may need all that its link carries; with a
// low limit a short period has few packets and says little. One that its transport holds back, such as one that waits
// for ACKs across a WAN, cannot use that: it gets a multiple of its last rate, as a window may double in slow start.
template <typename T>
T Claim(T sent, T limit, T link)
{
    constexpr T kHeld = static_cast<T>(0.8), kGrowth = 2, kStart = static_cast<T>(0.1);
    const T start = kStart * link;
    return sent + start >= kHeld * std::min(limit, link) ? link : std::min(kGrowth * sent + start, link);
}

// Place of another host's next flow beside one's own: well before it, alike, or well after it.
enum class Place { kBefore, kAlike, kAfter };

template <typename T>
Place PlaceOf(T theirs, T their_slack, T own, T own_slack, T alike)
{
    if (theirs + their_slack < own / alike) {
        return Place::kBefore;
    }
    return theirs <= (own + own_slack) * alike ? Place::kAlike : Place::kAfter;
}

// A host with queued flows, as another one knows it: what is left of its next flow, the number by which hosts are
// compared, and its link's rate.
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

// Limit of a host with queued flows, before that is compared with its link's rate. `seen(j, other)` fills in one of
// `others` neighbours, in the order of turns after the host's own, or returns false if that one has nothing queued;
// `claim(j)` is the rate that it may need.
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
