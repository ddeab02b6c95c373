// SPDX-License-Identifier: BSD-3-Clause
// From decisions and observations of hosts to their rate limits. Training, evaluations and hosts all apply an action
// and its guard here. ncc/envs/action.py and ncc/envs/residual.py define both, and give the numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace ncc
{

class Rates
{
  public:
    // `From` reads numbers by name, as for `Tables`.
    template <typename From>
    explicit Rates(const From &from)
    {
        const std::string kind = from.Text("kind");
        const auto real = [&](const char *name) { return from.Real(name); };
        const auto each = [&](const char *name) { return from.template Array<double>(name); };
        link_bps_ = each("link_bps");
        floor_frac_ = real("floor_frac");
        seen_ = from.template Array<size_t>("seen");
        width_ = seen_.empty() ? 0 : *std::max_element(seen_.begin(), seen_.end()) + 1;
        table_ = kind == "table", residual_ = kind == "residual", linear_ = kind == "linear";
        if (table_) {
            multiples_ = each("multiples"), unit_bps_ = each("unit_bps");
            guard_frac_ = real("guard_frac");
        } else if (residual_) {
            const std::string formula = from.Text("formula");
            holds_ = formula == "local_hold", tuned_ = formula == "local_tuned";
            port_ = each("port"), held_ = each("held");
            trusted_ = from.Flag("trusted");
            use_frac_ = real("use_frac"), least_share_ = real("least_share"), scale_ = real("scale");
            stale_ = static_cast<float>(real("stale")), wasted_ = real("wasted"), lone_ = real("lone");
            short_queue_ = real("short_queue"), line_rate_ = real("line_rate");
        } else {
            no_limit_from_ = real("no_limit_from");
        }
    }

    size_t Hosts() const { return link_bps_.size(); }
    // Numbers that an observation must have at least.
    size_t Width() const { return width_; }

    // Limit in bits/s of a host that observes `obs` and has decided on a number, or on the action of that index.
    double Limit(size_t host, const float *obs, double given) const
    {
        if (table_) {
            return OfTable(host, obs, multiples_.at(static_cast<size_t>(given)));
        }
        if (residual_) {
            const double frac = OfFormula(host, obs, given);
            return frac < line_rate_ ? frac * link_bps_[host] : kNone;
        }
        const double v = std::min((given + 1) / 2 / no_limit_from_, 1.0);
        const double frac = linear_ ? floor_frac_ + v * (1 - floor_frac_) : std::pow(floor_frac_, 1 - v);
        return v < 1 ? frac * link_bps_[host] : kNone;
    }

  private:
    static constexpr double kNone = std::numeric_limits<double>::infinity();
    // Places in `seen` of the inputs of formulas and guard; after them comes the age of messages, if it is observed.
    enum { kQueued, kBefore, kAlike, kFair, kOthers, kWasted, kTuned, kTogether, kFirst, kQueue, kAge };

    // A multiple of the unit; `seen` is the fair share, if that is the unit, and then the inputs of the guard, if there
    // is one.
    double OfTable(size_t host, const float *obs, double multiple) const
    {
        const auto at = [&](size_t k) { return static_cast<double>(obs[seen_[k]]); };
        const double link_bps = link_bps_[host], unit_bps = seen_.empty() ? unit_bps_[host] : at(0) * link_bps;
        if (multiple == kNone) {
            return kNone;
        }
        double limit = std::max(multiple * unit_bps, floor_frac_ * link_bps);
        if (guard_frac_ > 0 && at(3) > 0) {
            limit = std::max(limit, (at(2) == 0 ? 1 : guard_frac_) * at(1) * link_bps);
        }
        return limit;
    }

    // A multiple of a formula's limit, held by the guard; over the link's rate.
    double OfFormula(size_t host, const float *obs, double given) const
    {
        const auto at = [&](size_t k) { return static_cast<double>(obs[seen_[k]]); };
        const bool queued = at(kQueued) > 0, fresh = queued && at(kBefore) <= 0;
        const double share = std::max(at(kAlike), least_share_ * at(kFair));
        const double local = queued && share < 1 ? use_frac_ * share : 1;
        if (!trusted_ || (seen_.size() > kAge && obs[seen_[kAge]] >= stale_)) {
            return local;
        }
        const double formula = tuned_ ? at(kTuned) : holds_ && fresh ? std::min(local, held_[host]) : local;
        double frac = std::max(formula * std::exp(scale_ * given), std::min(formula, floor_frac_));
        const bool first = at(kFirst) <= 0 && at(kQueue) < short_queue_ && queued && !fresh;
        const bool alone = at(kOthers) <= 0 && ((queued && !fresh) || at(kTogether) < lone_);
        if (first || alone) {
            frac = std::max(frac, port_[host]);
        }
        return at(kWasted) > wasted_ ? std::max(frac, local) : frac;
    }

    bool table_, residual_, linear_, holds_ = false, tuned_ = false, trusted_ = true;
    std::vector<double> link_bps_, multiples_, unit_bps_, port_, held_;
    std::vector<size_t> seen_; // entries of an observation
    size_t width_ = 0;
    double floor_frac_ = 0, guard_frac_ = 0, no_limit_from_ = 1, use_frac_ = 1, least_share_ = 0, scale_ = 0;
    double wasted_ = 0, lone_ = 0, short_queue_ = 0, line_rate_ = 1;
    float stale_ = 0;
};

} // namespace ncc
