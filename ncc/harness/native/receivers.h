// SPDX-License-Identifier: BSD-3-Clause
// The receiver rule: start times, rates and windows that receivers grant to their senders.
// `ncc.harness.receivers.ReceiverRule` describes it. Sums are made row by row, so that equal rows give equal bits.
#pragma once

#include "local.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ncc
{

// A sender and a receiver with flows from the one to the other, as the receiver knows them. `age_s`: since its newest.
struct Pair {
    int64_t src, dst, flows;
    double waiting_bytes, next_bytes, received_bytes, age_s;
};

struct PairGrant {
    int64_t src, dst;
    double start_s, rate_bps; // inf: no limit
    int64_t window_pkts;      // 0: no bound
};

struct ReceiverSettings {
    double ahead_frac, window_frac, floor_frac, headroom_frac, tolerance_s;
    bool by_arrival;                              // the order is `arrival`, not `remaining`
    double period_s, next_grant_s;                // time until the grants that are decided next leave
    double mss_bytes, extra_bytes, mtu_bytes;     // extra: headers and overhead of a packet on the wire
    double full_frac, full_gain, settled_periods; // constants of receivers.py
    double behind_bytes;
    std::vector<double> link_bps, rate_bps, buffer_bytes; // by node: its link; its down port, of which a part is used
};

class ReceiverRule
{
  public:
    explicit ReceiverRule(ReceiverSettings settings)
        : s_(std::move(settings)), use_(1 - s_.headroom_frac), arrival_bps_(s_.link_bps.size())
    {
        for (double &rate : s_.rate_bps) {
            rate *= use_;
        }
    }

    // Returns the grants that leave now, in the order of the pairs.
    std::vector<PairGrant> Decide(const std::vector<Pair> &pairs, double now_s)
    {
        const size_t n = pairs.size(), nodes = arrival_bps_.size();
        std::vector<Last> old(n);
        std::vector<bool> known(n), settled(n), begun(n);
        std::vector<double> arrived(n), flows(nodes);
        for (size_t i = 0; i < n; ++i) {
            const Pair &pair = pairs[i];
            if (const auto found = last_.find(Key(pair)); found != last_.end()) {
                old[i] = found->second, known[i] = true;
            }
            // A flow that has ended is missing in the received bytes, and a new one is added to the waiting ones.
            arrived[i] = !known[i] ? pair.received_bytes
                                   : std::max(std::max(pair.received_bytes - old[i].received_bytes,
                                                       old[i].waiting_bytes - pair.waiting_bytes),
                                              0.0);
            flows[static_cast<size_t>(pair.dst)] += static_cast<double>(pair.flows);
        }
        Follow(pairs, arrived);
        const std::vector<double> ahead = AheadOf(pairs);
        std::vector<bool> newer(n);
        for (size_t i = 0; i < n; ++i) {
            newer[i] = !known[i] || pairs[i].age_s < now_s - old[i].at_s - 1e-12;
            begun[i] = !newer[i] && old[i].start_s <= now_s;
            settled[i] = begun[i] && old[i].start_s < now_s - s_.settled_periods * s_.period_s;
        }
        const std::vector<double> claimed = ClaimedAhead(pairs, ahead, settled, old, arrived);
        std::vector<PairGrant> grants;
        std::unordered_map<int64_t, Last> next;
        for (size_t i = 0; i < n; ++i) {
            const Pair &pair = pairs[i];
            const auto dst = static_cast<size_t>(pair.dst);
            const double capacity = s_.rate_bps[dst], buffer = s_.buffer_bytes[dst], spare = s_.ahead_frac * buffer;
            const bool room = claimed[i] < capacity, lone = flows[dst] <= 1;
            const double wait = room ? 0 : std::max(ahead[i] - spare, 0.0);
            const double start = begun[i] ? old[i].start_s : now_s + wait * 8 / capacity;
            const bool soon = room || ahead[i] <= spare + capacity * s_.next_grant_s / 8;
            const bool sending = begun[i] || pair.received_bytes > 0;
            const double rate = lone ? std::numeric_limits<double>::infinity()
                                     : (sending && !soon ? s_.floor_frac / use_ : 1.0) * capacity;
            const double window = lone ? 0 : std::max(std::floor(s_.window_frac * buffer / s_.mtu_bytes), 1.0);
            const bool moved = !begun[i] && std::abs(start - old[i].start_s) > s_.tolerance_s;
            const bool slow = ahead[i] == 0 && arrived[i] < capacity * s_.period_s / 8 / 2;
            const bool tell = newer[i] || moved || rate != old[i].rate_bps || window != old[i].window_pkts || slow;
            if (tell) {
                grants.push_back({pair.src, pair.dst, start, rate, static_cast<int64_t>(window)});
                old[i] = {start, rate, window, now_s};
            }
            old[i].received_bytes = pair.received_bytes, old[i].waiting_bytes = pair.waiting_bytes;
            next[Key(pair)] = old[i];
        }
        last_.swap(next);
        return grants;
    }

    // Returns, for each pair, the bytes on the wire to the same receiver that go before the pair's first flow.
    std::vector<double> AheadOf(const std::vector<Pair> &pairs) const
    {
        const size_t n = pairs.size();
        std::vector<double> work(2 * n), first(2 * n);
        std::vector<int64_t> dst(2 * n);
        for (size_t i = 0; i < 2 * n; ++i) {
            const Pair &pair = pairs[i % n];
            const double rest = pair.waiting_bytes - pair.next_bytes;
            const double mean = rest / static_cast<double>(std::max<int64_t>(pair.flows - 1, 1));
            const bool behind = pair.received_bytes > s_.behind_bytes * static_cast<double>(pair.flows);
            work[i] = OnWire(i < n ? pair.next_bytes : rest);
            first[i] = s_.by_arrival ? behind : i < n ? pair.next_bytes : mean;
            dst[i] = pair.dst;
        }
        const auto key = [&](size_t i) {
            const Pair &pair = pairs[i % n];
            const double rest = i >= n;
            const double older =
                s_.by_arrival ? -pair.age_s : -std::floor(pair.age_s / (kOlderPeriods * s_.period_s) + kRounding);
            return std::make_tuple(dst[i], first[i], s_.by_arrival ? older : rest, s_.by_arrival ? rest : older,
                                   Turn(pair));
        };
        std::vector<double> ahead = BeforeEach(work, dst, Sorted(2 * n, key));
        ahead.resize(n);
        return ahead;
    }

  private:
    // The newest grant to a pair, the time at which it was decided, and its payload at the end of the last period.
    struct Last {
        double start_s = 0, rate_bps = 0, window_pkts = 0, at_s = 0, received_bytes = 0, waiting_bytes = 0;
    };

    static constexpr double kOlderPeriods = 10; // ages of equals are compared in steps of so many periods
    static constexpr double kRounding = 1e-6;   // share of a step by which rounding may lower an age

    // Place of a sender among equals: its number counted from the receiver's. Otherwise all receivers of a shuffle
    // would take the same sender first.
    int64_t Turn(const Pair &pair) const
    {
        const auto nodes = static_cast<int64_t>(arrival_bps_.size());
        return (pair.src - pair.dst + nodes) % nodes;
    }
    int64_t Key(const Pair &pair) const { return pair.src * static_cast<int64_t>(arrival_bps_.size()) + pair.dst; }
    double OnWire(double payload_bytes) const
    {
        return payload_bytes + s_.extra_bytes * std::ceil(payload_bytes / s_.mss_bytes);
    }
    // Rate on the wire of payload that arrived within one period.
    double Bps(double payload_bytes) const
    {
        const double on_wire = (s_.mss_bytes + s_.extra_bytes) / s_.mss_bytes;
        return payload_bytes * (on_wire * 8 / s_.period_s);
    }

    // Updates the average arrival rate of each port. When a pair's last flow ends, its missing payload has arrived.
    void Follow(const std::vector<Pair> &pairs, const std::vector<double> &arrived)
    {
        std::vector<double> all(arrival_bps_.size());
        std::unordered_set<int64_t> live;
        for (size_t i = 0; i < pairs.size(); ++i) {
            all[static_cast<size_t>(pairs[i].dst)] += arrived[i];
            live.insert(Key(pairs[i]));
        }
        std::vector<int64_t> over;
        for (const auto &entry : last_) {
            if (live.count(entry.first) == 0) {
                over.push_back(entry.first);
            }
        }
        std::sort(over.begin(), over.end());
        for (const int64_t key : over) {
            all[static_cast<size_t>(key) % all.size()] += last_.at(key).waiting_bytes;
        }
        for (size_t node = 0; node < all.size(); ++node) {
            arrival_bps_[node] += s_.full_gain * (Bps(all[node]) - arrival_bps_[node]);
        }
    }

    // Returns the rate that all pairs ahead of each pair may bring to the receiver's port.
    std::vector<double> ClaimedAhead(const std::vector<Pair> &pairs, const std::vector<double> &ahead,
                                     const std::vector<bool> &settled, const std::vector<Last> &granted,
                                     const std::vector<double> &arrived) const
    {
        std::vector<double> claimed(pairs.size());
        std::vector<int64_t> dst(pairs.size());
        for (size_t i = 0; i < pairs.size(); ++i) {
            const auto to = static_cast<size_t>(pairs[i].dst);
            const double link = std::min(s_.link_bps[static_cast<size_t>(pairs[i].src)], s_.rate_bps[to]);
            const bool full = arrival_bps_[to] >= s_.full_frac * s_.rate_bps[to];
            claimed[i] = settled[i] && !full ? Claim(Bps(arrived[i]), granted[i].rate_bps, link) : link;
            dst[i] = pairs[i].dst;
        }
        const auto key = [&](size_t i) { return std::make_tuple(dst[i], ahead[i], Turn(pairs[i])); };
        return BeforeEach(claimed, dst, Sorted(pairs.size(), key));
    }

    template <typename KeyOf>
    static std::vector<size_t> Sorted(size_t n, const KeyOf &key)
    {
        std::vector<size_t> turn(n);
        std::iota(turn.begin(), turn.end(), size_t{0});
        std::stable_sort(turn.begin(), turn.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
        return turn;
    }

    // Returns, for each value, the sum of the values before it, in this order, that have the same destination.
    static std::vector<double> BeforeEach(const std::vector<double> &values, const std::vector<int64_t> &dst,
                                          const std::vector<size_t> &turn)
    {
        std::vector<double> sums(turn.size());
        double total = 0, base = 0;
        for (size_t k = 0; k < turn.size(); ++k) {
            const double value = values[turn[k]];
            total += value;
            const double before = total - value;
            if (k > 0 && dst[turn[k]] != dst[turn[k - 1]]) {
                base = std::max(base, before);
            }
            sums[turn[k]] = before - base;
        }
        return sums;
    }

    ReceiverSettings s_;
    double use_;
    std::vector<double> arrival_bps_;        // by node
    std::unordered_map<int64_t, Last> last_; // by pair, those with flows at the end of the last period
};

} // namespace ncc
