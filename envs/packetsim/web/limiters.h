// SPDX-License-Identifier: BSD-3-Clause
// Limiters of the hosts of one network: none, the formula LOCAL, or a policy; and the rule of receivers.
// The decisions are those of `ncc.harness.local`, `ncc.policies.limits` and `ncc.harness.receivers`.
#pragma once

#include "from_js.h"

#include "dense.h"
#include "local.h"
#include "observer.h"
#include "rates.h"
#include "receivers.h"
#include "signals.h"

#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace ncc::web
{

// The measurement of a period, of n hosts and one uplink.
struct Measured {
    explicit Measured(size_t n)
        : reals(HostColumns::kReals * n), uplink_reals(UplinkColumns::kReals), counts(HostColumns::kCounts * n),
          uplink_counts(UplinkColumns::kCounts), hosts(reals.data(), counts.data(), n),
          uplink(uplink_reals.data(), uplink_counts.data(), 1), n(n)
    {
    }
    Measured(const Measured &) = delete;

    void Copy(const Measured &from)
    {
        reals = from.reals, uplink_reals = from.uplink_reals, counts = from.counts, uplink_counts = from.uplink_counts;
        epoch = from.epoch;
    }

    std::vector<double> reals, uplink_reals;
    std::vector<int64_t> counts, uplink_counts;
    HostColumns hosts;
    UplinkColumns uplink;
    size_t n;
    int64_t epoch = 0;
};

class Limiter
{
  public:
    virtual ~Limiter() = default;
    virtual void Decide(const Measured &, std::vector<double> &limits)
    {
        std::fill(limits.begin(), limits.end(), std::numeric_limits<double>::infinity());
    }
};

class LocalLimiter : public Limiter
{
  public:
    LocalLimiter(const FromJs &from, size_t n)
        : formula_(Formula<double>::Of([&](const char *name) { return from.Real(name); })),
          attained_frac_(from.Real("attained_frac")), period_s_(from.Real("period_s")),
          uplink_bps_(from.Real("uplink_bps")), hosts_(n), link_bps_(n, from.Real("link_bps")), busy_periods_(n),
          attained_(n)
    {
        std::iota(hosts_.begin(), hosts_.end(), int64_t{0});
    }

    void Decide(const Measured &m, std::vector<double> &limits) override
    {
        const size_t n = hosts_.size();
        State now{std::vector<double>(kMessageRows * n), m.uplink.queue_bytes[0]};
        for (size_t i = 0; i < n; ++i) {
            const bool busy = m.hosts.queued_flows[i] > 0;
            busy_periods_[i] = busy ? busy_periods_[i] + 1 : 0;
            attained_[i] = busy ? attained_[i] + m.hosts.throughput_bps[i] * period_s_ / 8 : 0;
            const double row[kMessageRows] = {m.hosts.throughput_bps[i], m.hosts.rate_limit_bps[i],
                                              m.hosts.next_bytes[i],
                                              m.hosts.next_bytes[i] + attained_frac_ * attained_[i], busy ? 1.0 : 0.0};
            for (size_t k = 0; k < kMessageRows; ++k) {
                now.rows[k * n + i] = row[k];
            }
        }
        past_.push_back(now);
        if (past_.size() > 2) {
            past_.pop_front();
        }
        const State &old = past_.front();
        const auto own = [&](size_t row, size_t i) {
            const bool before = formula_.tie_frac > 0 && old.rows[kBusy * n + i] > 0;
            return row == 0   ? (before ? old : now).rows[kKey * n + i]
                   : row == 1 ? busy_periods_[i]
                              : now.rows[kBusy * n + i];
        };
        LocalLimits(
            formula_, {n, hosts_.data(), link_bps_.data(), uplink_bps_}, period_s_, m.epoch / kTurnPeriods, own,
            [&](size_t, int row, size_t other) { return old.rows[static_cast<size_t>(row) * n + other]; },
            [&](size_t) { return old.queue_bytes; }, limits.data());
    }

  private:
    static constexpr int64_t kTurnPeriods = 256; // TURN_PERIODS of local.py

    struct State {
        std::vector<double> rows; // [kMessageRows, n]
        double queue_bytes;
    };

    Formula<double> formula_;
    double attained_frac_, period_s_, uplink_bps_;
    std::vector<int64_t> hosts_;
    std::vector<double> link_bps_, busy_periods_, attained_;
    std::deque<State> past_;
};

class PolicyLimiter : public Limiter
{
  public:
    explicit PolicyLimiter(const FromJs &from)
        : observer_(Tables(from.At("tables")), 1), rates_(from.At("rates")), layers_(from.Array<size_t>("layers")),
          signals_(from.Texts("signals"))
    {
        layers_.Load(from.Array<float>("weights").data());
        obs_.resize(observer_.tables().n * layers_.Inputs());
    }

    void Decide(const Measured &m, std::vector<double> &limits) override
    {
        Signals signals;
        for (const std::string &name : signals_) {
            signals.push_back(SignalOf(m, name));
        }
        observer_.Measure(0, signals, 0);
        observer_.Commit(0, false, {}, 0, m.n);
        observer_.Observe(0, obs_.data(), 0, m.n);
        layers_.Keep(0);
        const float *outputs = layers_.Forward(obs_.data(), m.n);
        for (size_t i = 0; i < m.n; ++i) {
            const auto given = static_cast<float>(std::tanh(static_cast<double>(outputs[i * layers_.Width()])));
            limits[i] = rates_.Limit(i, obs_.data() + i * layers_.Inputs(), given);
        }
    }

  private:
    static Signal SignalOf(const Measured &m, const std::string &name)
    {
        const auto real = [](const double *at, size_t n) { return Signal(at, false, n, sizeof *at); };
        const auto count = [](const int64_t *at, size_t n) { return Signal(at, true, n, sizeof *at); };
        const HostColumns &h = m.hosts;
        return name == "rate_limit_bps"          ? real(h.rate_limit_bps, m.n)
               : name == "goodput_bps"           ? real(h.goodput_bps, m.n)
               : name == "throughput_bps"        ? real(h.throughput_bps, m.n)
               : name == "rtt_s"                 ? real(h.rtt_s, m.n)
               : name == "wait_s"                ? real(h.wait_s, m.n)
               : name == "queued_bytes"          ? real(h.queued_bytes, m.n)
               : name == "next_bytes"            ? real(h.next_bytes, m.n)
               : name == "queued_flows"          ? count(h.queued_flows, m.n)
               : name == "uplink_throughput_bps" ? real(m.uplink.throughput_bps, 1)
               : name == "uplink_queue_bytes"    ? real(m.uplink.queue_bytes, 1)
                                                 : throw std::invalid_argument("the page lacks the signal " + name);
    }

    Observer observer_;
    Rates rates_;
    Layers layers_;
    std::vector<std::string> signals_;
    std::vector<float> obs_;
};

inline std::unique_ptr<Limiter> LimiterOf(const FromJs &from, size_t n)
{
    const std::string kind = from.Text("kind");
    if (kind == "local") {
        return std::make_unique<LocalLimiter>(from, n);
    }
    if (kind == "policy") {
        return std::make_unique<PolicyLimiter>(from);
    }
    return std::make_unique<Limiter>();
}

inline ReceiverRule RuleOf(const FromJs &from)
{
    return ReceiverRule({from.Real("ahead_frac"), from.Real("window_frac"), from.Real("floor_frac"),
                         from.Real("headroom_frac"), from.Real("tolerance_s"), from.Flag("by_arrival"),
                         from.Real("period_s"), from.Real("period_s"), from.Real("mss_bytes"), from.Real("extra_bytes"),
                         from.Real("mtu_bytes"), from.Real("full_frac"), from.Real("full_gain"),
                         from.Real("settled_periods"), from.Real("behind_bytes"), from.Array<double>("link_bps"),
                         from.Array<double>("rate_bps"), from.Array<double>("buffer_bytes")});
}

} // namespace ncc::web
