// SPDX-License-Identifier: BSD-3-Clause
// From measurements to observations of hosts, for one network or several. columns.py makes its tables.
#pragma once

#include "kinds.h"
#include "states.h"
#include "tables.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace ncc
{

constexpr size_t kTurn = 100; // periods for which the same host goes first of those with equally much left

class Observer
{
  public:
    Observer(Tables tables, size_t networks)
        : t_(std::move(tables)), stride_((t_.Width() + kLanes - 1) / kLanes * kLanes), networks_(networks)
    {
        for (ObservedNetwork &network : networks_) {
            network.raw.resize(t_.size);
            network.ring.assign(t_.delay + 1, std::vector<float>(t_.size));
            network.sent.resize(2 * t_.n * stride_);
            network.uplink.resize(t_.n * t_.uplink.size());
            network.age.resize(t_.n * (t_.neighbours + 1));
            network.counts.resize(t_.n);
        }
        began_.resize(t_.n);
        sum_.resize(t_.n * stride_);
        most_.resize(t_.n * stride_);
        takes_much_.resize(t_.neighbours);
        takes_shorter_.resize(t_.neighbours);
    }

    const Tables &tables() const { return t_; }

    // Reads row `of` of the signals as the newest measurement of network `row`; `Commit` makes it a state. False if a
    // number is not finite.
    bool Measure(size_t row, const Signals &signals, size_t of)
    {
        ObservedNetwork &network = networks_[row];
        std::vector<double> &raw = network.raw;
        double squares = 0;
        for (const Column &column : t_.columns) {
            for (size_t i = 0; i < column.size; ++i) {
                const size_t at = column.first + i;
                double value = std::min(signals[column.signal].At(of, i), t_.cut[at]);
                if (column.over >= 0) {
                    value /= std::max(signals[static_cast<size_t>(column.over)].At(of, i), 1.0);
                }
                raw[at] = value * t_.unit[at] + t_.offset[at];
                squares += raw[at] * raw[at];
            }
        }
        return std::isfinite(squares);
    }

    // Makes the last measurement of `Measure` the newest state, and forgets earlier ones if `anew`.
    void Commit(size_t row, bool anew, const Messages &messages, size_t begin, size_t end)
    {
        ObservedNetwork &network = networks_[row];
        const size_t slots = network.ring.size();
        anew = anew || network.seen == 0;
        network.periods = messages.ages ? messages.period : anew ? 0 : network.periods + 1;
        network.newest = network.seen++ % slots;
        Write(network);
        const std::vector<float> &state = network.ring[network.newest];
        if (anew) {
            for (std::vector<float> &slot : network.ring) {
                if (&slot != &state) {
                    slot = state;
                }
            }
        }
        Deliver(network, anew, messages, begin, end);
    }

    // Replaces the newest state by the last measurement of `Measure`.
    void Correct(size_t row) { Write(networks_[row]); }

    // Fills obs [end - begin, entries] for hosts `begin` to `end` - 1.
    void Observe(size_t row, float *obs, size_t begin, size_t end)
    {
        hosts_.clear();
        for (size_t i = begin; i < end; ++i) {
            hosts_.push_back(Seen(networks_[row], i));
        }
        for (const Entry &entry : t_.entries) {
            entry.feature(hosts_, entry.where, t_.ceiling, obs++, t_.entries.size());
        }
    }

  private:
    static const std::vector<float> &Oldest(const ObservedNetwork &network)
    {
        return network.ring[(network.newest + 1) % network.ring.size()];
    }

    void Write(ObservedNetwork &network) const
    {
        std::vector<float> &state = network.ring[network.newest];
        for (const Column &column : t_.columns) {
            for (size_t at = column.first; at < column.first + column.size; ++at) {
                const double clipped = std::max(std::min(network.raw[at], t_.most[at]), t_.least[at]);
                const double scaled = !column.logarithmic ? clipped
                                      : clipped == 1      ? 0
                                                          : std::log(clipped); // 1: nothing
                state[at] = static_cast<float>(scaled * t_.gain[at]);
            }
        }
    }

    void Deliver(ObservedNetwork &network, bool anew, const Messages &messages, size_t begin, size_t end)
    {
        const size_t near = t_.neighbours, size = near + 1;
        const bool lossy = messages.arrivals && !anew;
        if (!lossy) {
            network.heard.clear();
        } else if (network.heard.empty()) {
            for (size_t i = 0; i < t_.n; ++i) {
                const float *from = network.sent.data() + Next(i);
                network.heard.insert(network.heard.end(), from, from + near * stride_);
            }
        }
        Send(network, anew);
        const std::vector<float> &state = Oldest(network);
        for (size_t i = begin; i < end; ++i) {
            int64_t *age = network.age.data() + i * size;
            const int *first = began_.data() + i / size * size;
            int begun = std::accumulate(first, first + size, -began_[i]);
            if (lossy) {
                begun = Hear(network, i, messages.arrivals + i * size, age);
            } else {
                std::fill_n(age, size, 0);
            }
            for (size_t k = 0; k < t_.uplink.size() && !age[near]; ++k) {
                network.uplink[i * t_.uplink.size() + k] = state[t_.uplink[k] + t_.area[i]];
            }
            for (size_t j = 0; messages.ages && j < near; ++j) {
                age[j] = messages.ages[t_.near[i * near + j]];
            }
            if (messages.ages) {
                age[near] = messages.ages[t_.n + static_cast<size_t>(t_.area[i])];
            }
            Count(network, i, anew, begun);
        }
    }

    // Place in `sent` of the neighbour that follows host i. The messages of all its neighbours begin there, in their
    // order, because the hosts of a neighbourhood have consecutive numbers and are in `sent` twice.
    size_t Next(size_t i) const
    {
        const size_t size = t_.neighbours + 1;
        return (i + i / size * size + 1) * stride_;
    }

    // Writes the message of each host, and 1 in `began_` if the host is busy and was idle in its last message.
    void Send(ObservedNetwork &network, bool anew)
    {
        const std::vector<float> &state = Oldest(network);
        const size_t again = (t_.neighbours + 1) * stride_;
        for (size_t i = 0; i < t_.n; ++i) {
            float *to = network.sent.data() + Next(i) - stride_;
            const bool idle = !(to[t_.shared_flows] > 0);
            if (!anew && t_.lies[i]) {
                std::fill_n(to, stride_, 0.0F); // such a host always reports that it is idle
            } else {
                for (size_t k = 0; k < t_.shared.size(); ++k) {
                    to[k] = state[t_.shared[k] + i];
                }
                to[Last()] = t_.ranked ? std::expm1(state[t_.next + i] * t_.rules.gain) : 0;
            }
            std::copy_n(to, stride_, to + again);
            began_[i] = idle && to[t_.shared_flows] > 0;
        }
    }

    // Takes the messages that have arrived at host i, counts the ages of the others, and returns the number of
    // neighbours that have begun.
    int Hear(ObservedNetwork &network, size_t i, const bool *arrived, int64_t *age) const
    {
        const float *from = network.sent.data() + Next(i);
        float *to = network.heard.data() + i * t_.neighbours * stride_;
        int begun = 0;
        for (size_t j = 0; j <= t_.neighbours; ++j) {
            age[j] = arrived[j] ? 0 : age[j] + 1;
        }
        for (size_t j = 0; j < t_.neighbours; ++j, from += stride_, to += stride_) {
            if (arrived[j]) {
                begun += !(to[t_.shared_flows] > 0) && from[t_.shared_flows] > 0;
                std::copy_n(from, stride_, to);
            }
        }
        return begun;
    }

    // ObservedCounts a period of host i, in which so many neighbours have begun.
    void Count(ObservedNetwork &network, size_t i, bool anew, int begun) const
    {
        const ObservedCounts before = anew ? ObservedCounts() : network.counts[i];
        const bool busy = network.ring[network.newest][t_.flows + i] > 0;
        const bool was_busy = Oldest(network)[t_.flows + i] > 0;
        const bool waits = !anew && busy && was_busy;
        const bool room = network.uplink[i * t_.uplink.size() + t_.used] < kRoom;
        const int began = anew ? 0 : begun + (was_busy && !before.was_busy);
        const int begins = std::min(before.begins + began, kBegins);
        const float others = static_cast<float>(began - 1), weight = static_cast<float>(std::min(began, begins));
        network.counts[i] = {
            std::clamp(before.wasted + (waits && room ? kWasted : -1), 0, kWastedMost),
            anew ? 0 : begun,
            !anew && begun >= kBurst ? 0 : std::min(before.calm + 1, kCalmMost),
            busy ? std::min(before.busy_for + 1, kBusyMost) : 0,
            was_busy,
            begins,
            began ? before.together + (others - before.together) * weight / static_cast<float>(begins)
                  : before.together,
        };
    }

    Host Seen(const ObservedNetwork &network, size_t i)
    {
        const size_t near = t_.neighbours;
        Host host = {};
        host.number = i;
        host.now = network.ring[network.newest].data();
        host.before = Oldest(network).data();
        host.neighbours = near;
        host.width = stride_;
        host.shared = network.heard.empty() ? network.sent.data() + Next(i) : network.heard.data() + i * near * stride_;
        host.uplink = network.uplink.data() + i * t_.uplink.size();
        const ObservedCounts &counts = network.counts[i];
        host.wasted = counts.wasted, host.begun = counts.begun, host.calm = counts.calm,
        host.busy_for = counts.busy_for, host.together = counts.together;
        host.age = network.age.data() + i * (near + 1);
        host.uplink_frac = t_.uplink_frac[i];
        host.links = t_.links.data() + i * near;
        host.constants = &t_.constants;
        if (t_.pooled) {
            Pool(host);
        }
        if (t_.ranked) {
            Rank(host);
        }
        if (t_.ordered) {
            Order(host, network.periods / kTurn);
            Share(host, network.periods / kTurn, network.counts[i].busy_for);
        }
        return host;
    }

    // Sums up the neighbours' messages, some numbers of all at a time.
    void Pool(Host &host)
    {
        float *all_sum = sum_.data() + host.number * stride_, *all_most = most_.data() + host.number * stride_;
        for (size_t first = 0; first < stride_; first += kLanes) {
            float sum[kLanes] = {}, most[kLanes]; // in registers
            std::fill_n(most, kLanes, host.neighbours ? std::numeric_limits<float>::lowest() : 0.0F);
            for (size_t j = 0; j < host.neighbours; ++j) {
                const float *from = host.shared + j * stride_ + first;
                for (size_t k = 0; k < kLanes; ++k) {
                    sum[k] += from[k];
                    most[k] = std::max(most[k], from[k]);
                }
            }
            std::copy_n(sum, kLanes, all_sum + first);
            std::copy_n(most, kLanes, all_most + first);
        }
        for (size_t j = 0; j < host.neighbours; ++j) {
            host.busy += host.Shared(j, t_.shared_flows) > 0;
        }
        host.sum = all_sum, host.most = all_most;
    }

    // ObservedCounts what goes before the host's next flow in the one order that all hosts see: that of the state which
    // they share, fewest bytes first, and by turns among equals. A host that was idle then stands in it as it is now.
    void Order(Host &host, size_t turns) const
    {
        const size_t i = host.number, size = host.neighbours + 1, place = (i + turns) % size;
        const float *own = host.before[t_.flows + i] > 0 ? host.before : host.now;
        const float left = std::expm1(own[t_.next + i] * t_.rules.gain);
        for (size_t j = 0; j < host.neighbours && host.busy; ++j) {
            const float next = host.Shared(j, Last()) * host.links[j];
            const bool wins_tie = place + 1 + j >= size; // neighbours come in the order of their numbers
            if (host.Shared(j, t_.shared_flows) > 0 && (next < left || (next == left && wins_tie))) {
                host.ahead += next / host.uplink_frac;
                ++host.first;
            }
        }
    }

    // Computes the limit that the tuned formula gives the host, over its link's rate; 1 is none. Rates are
    // fractions of the host's link rate, and bytes are fractions of the bytes that this link carries in a period.
    void Share(Host &host, size_t turns, int busy_for) const
    {
        const size_t i = host.number;
        host.given = t_.formula.idle_frac;
        if (!(host.now[t_.flows + i] > 0)) {
            return;
        }
        const float *own = host.before[t_.flows + i] > 0 ? host.before : host.now;
        const float left = std::expm1(own[t_.next + i] * t_.rules.gain);
        const float queue = std::expm1(host.uplink[t_.queue] * t_.queue_log[i]) * t_.queue_unit[i];
        const auto seen = [&](size_t j, Other<float> &other) {
            const float next = host.Shared(j, Last()) * host.links[j];
            other = {next, next, host.links[j]};
            return host.Shared(j, t_.shared_flows) > 0;
        };
        const float share = LocalShare<float>(
            t_.formula, host.uplink_frac, queue, {left, 1, busy_for, (i + turns) % (host.neighbours + 1)},
            host.busy ? host.neighbours : 0, seen, [&](size_t j) { return Takes(host, j); });
        host.given = std::min(share, 1.0F);
    }

    // Rate that a neighbour may need of the uplink, over the host's link rate.
    float Takes(const Host &host, size_t j) const
    {
        return Claim(host.Shared(j, t_.shared_throughput), host.Shared(j, t_.shared_limit), 1.0F) * host.links[j];
    }

    // Compares the host's next flow with its neighbours', in bytes that its link carries in a period.
    void Rank(Host &host)
    {
        host.room_much = host.room_shorter = host.uplink_frac;
        if (!host.busy) {
            return;
        }
        const Rules &rules = t_.rules;
        const float left = std::expm1(host.now[t_.next + host.number] * rules.gain);
        for (size_t j = 0; j < host.neighbours; ++j) {
            const float link = host.links[j], next = host.Shared(j, Last()) * link;
            const bool busy = host.Shared(j, t_.shared_flows) > 0;
            const Place place = PlaceOf(next, rules.slack * link, left, rules.slack, rules.alike);
            takes_much_[j] = busy && place == Place::kBefore ? Takes(host, j) : 0;
            takes_shorter_[j] = busy && next < left ? Takes(host, j) : 0;
            host.alike += busy && place == Place::kAlike;
        }
        host.room_much = std::max(host.uplink_frac - PairwiseSum(takes_much_.data(), host.neighbours), 0.0F);
        host.room_shorter = std::max(host.uplink_frac - PairwiseSum(takes_shorter_.data(), host.neighbours), 0.0F);
    }

    size_t Last() const { return t_.Width() - 1; } // place of the next flow's bytes in a message

    static constexpr size_t kLanes = 8; // messages are padded to a multiple of it, for vectors of the processor

    Tables t_;
    size_t stride_; // numbers from one message to the next
    std::vector<ObservedNetwork> networks_;
    // Scratch memory for one network and host
    std::vector<Host> hosts_;
    std::vector<int> began_;
    std::vector<float> sum_, most_, takes_much_, takes_shorter_;
};

} // namespace ncc
