// SPDX-License-Identifier: BSD-3-Clause
// The formula LOCAL: the limit of a host from the backlog before it. `ncc.harness.local.Local` has the equations.
// Controllers, observers and the residual's formulas compute it here. The caller chooses the unit of rates. Bytes are
// given as the rate that carries them in one period.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

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

// Rows of the messages between hosts, in bits/s and bytes.
enum MessageRow { kSent, kLimit, kNext, kKey, kBusy, kMessageRows };

// A neighbourhood: its hosts' numbers, the rates of their links, and that of its uplink, in bits/s.
struct LocalArea {
    size_t size;
    const int64_t *hosts;
    const double *link_bps;
    double uplink_bps;
};

// Sets limits[host], in bits/s, for the hosts of a neighbourhood. `own(row, host)`: its key in bytes, the periods for
// which it has been busy, and 1 if it is busy. `messages(host, row, other)`: the last message of another, as the host
// has it, and `queue_bytes(host)` that of the uplink. `turns`: number of the turn among equal hosts.
template <typename Own, typename Messages, typename Queue>
void LocalLimits(const Formula<double> &formula, const LocalArea &area, double period_s, int64_t turns, const Own &own,
                 const Messages &messages, const Queue &queue_bytes, double *limits)
{
    const double to_bps = 8 / period_s;
    for (size_t i = 0; i < area.size; ++i) {
        const auto self = static_cast<size_t>(area.hosts[i]);
        const double link = area.link_bps[i];
        double &limit = limits[self];
        limit = std::numeric_limits<double>::infinity();
        if (!(own(2, self) > 0)) {
            limit = formula.idle_frac < 1 ? formula.idle_frac * link : limit;
            continue;
        }
        const auto at = [&](size_t j) { return (i + 1 + j) % area.size; };
        const auto of = [&](int row, size_t j) { return messages(self, row, static_cast<size_t>(area.hosts[at(j)])); };
        const auto seen = [&](size_t j, Other<double> &other) {
            other = {of(kNext, j) * to_bps, of(kKey, j) * to_bps, area.link_bps[at(j)]};
            return of(kBusy, j) > 0;
        };
        const auto claim = [&](size_t j) { return Claim(of(kSent, j), of(kLimit, j), area.link_bps[at(j)]); };
        const auto size = static_cast<int64_t>(area.size);
        const auto turn = ((static_cast<int64_t>(i) - turns) % size + size) % size;
        const double share =
            LocalShare<double>(formula, area.uplink_bps, queue_bytes(self) * to_bps / area.uplink_bps,
                               {own(0, self) * to_bps, link, static_cast<int>(own(1, self)), static_cast<size_t>(turn)},
                               area.size - 1, seen, claim);
        limit = share < link ? share : limit;
    }
}

} // namespace ncc
