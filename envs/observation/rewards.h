// SPDX-License-Identifier: BSD-3-Clause
// Rewards of hosts in a period. ncc/envs/reward.py defines each reward and gives its numbers.
#pragma once

#include "kinds.h"
#include "tables.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace ncc
{

class Rewards
{
  public:
    // `From` reads numbers by name, as for `Tables`.
    template <typename From>
    explicit Rewards(const From &from) : size_(from.Size("size"))
    {
        const auto each = [&](const char *name) { return from.template Array<double>(name); };
        const auto real = [&](const char *name) { return from.Real(name); };
        const std::string kind = from.Text("kind");
        link_bps_ = each("link_bps"), base_s_ = each("base_s"), uplink_bps_ = each("uplink_bps");
        if (kind == "utility") {
            equation_ = &Rewards::Utility;
            rho_ = real("rho"), team_frac_ = real("team_frac"), floor_frac_ = real("floor_frac");
            std::transform(link_bps_.begin(), link_bps_.end(), std::back_inserter(per_bps_), Inverse);
            std::transform(base_s_.begin(), base_s_.end(), std::back_inserter(per_s_), Inverse);
        } else if (kind == "profit_penalty") {
            equation_ = &Rewards::ProfitPenalty;
            rho_ = real("rho"), sigma1_ = real("sigma1"), sigma2_ = real("sigma2"), sla_s_ = real("sla_delay_s");
            ratio_max_ = real("ratio_max"), slack_min_frac_ = real("slack_min_frac");
        } else if (kind == "backlog") {
            equation_ = &Rewards::Backlog;
            flows_scale_ = real("flows_scale"), team_frac_ = real("team_frac"), left_frac_ = real("left_frac");
            weigh_bytes_ = real("weigh_bytes");
        } else {
            throw std::invalid_argument("rewards.h has no reward " + kind + ": write it, and run make build");
        }
        if (base_s_.size() != Hosts() || uplink_bps_.size() != Hosts() || Hosts() % size_ != 0) {
            throw std::invalid_argument("numbers of hosts have the wrong size");
        }
        own_.resize(Hosts());
    }

    size_t Hosts() const { return link_bps_.size(); }

    // Fills the rewards [hosts] of network `row` of the signals.
    void Pay(const Signals &signals, size_t row, float *to)
    {
        for (size_t first = 0; first < Hosts(); first += size_) {
            (this->*equation_)(signals, row, first, to);
        }
    }

    // Signals, in the order of `SIGNALS` of reward.py.
    enum { kGoodput, kRtt, kLimit, kFlows, kLeft, kPerByte, kSignals };

  private:
    // Each equation fills the rewards of the neighbourhood of hosts `first` to `first` + `size_` - 1.
    void Utility(const Signals &signals, size_t row, size_t first, float *to)
    {
        for (size_t i = first; i < first + size_; ++i) {
            own_[i] = 0;
            if (Busy(signals, row, i)) {
                const double x = signals[kGoodput].At(row, i) * per_bps_[i], d = signals[kRtt].At(row, i) * per_s_[i];
                own_[i] = std::log(std::min(std::max(x, floor_frac_), 1.0)) - rho_ * std::log(std::max(d, 1.0));
            }
        }
        Mix(first, to);
    }

    void Backlog(const Signals &signals, size_t row, size_t first, float *to)
    {
        for (size_t i = first; i < first + size_; ++i) {
            double flows = weigh_bytes_ > 0 ? signals[kPerByte].At(row, i) * weigh_bytes_ : signals[kFlows].At(row, i);
            if (left_frac_ > 0) {
                flows += left_frac_ * (signals[kLeft].At(row, i) - flows);
            }
            own_[i] = flows / -flows_scale_;
        }
        Mix(first, to);
    }

    void ProfitPenalty(const Signals &signals, size_t row, size_t first, float *to)
    {
        const auto limit_bps = [&](size_t i) { return std::min(signals[kLimit].At(row, i), link_bps_[i]); };
        for (size_t i = first; i < first + size_; ++i) {
            own_[i] = signals[kGoodput].At(row, i);
        }
        const double all_bps = Mean(first) * static_cast<double>(size_);
        for (size_t i = first; i < first + size_; ++i) {
            const double b = limit_bps(i), d = std::max(signals[kRtt].At(row, i) / base_s_[i], 1.0);
            const double ratio = std::min(b / std::max(own_[i], b / ratio_max_), ratio_max_);
            own_[i] = Busy(signals, row, i) ? ratio * std::log(b / link_bps_[i]) - rho_ * std::log(d) : 0;
        }
        const double profit = Mean(first);
        for (size_t i = first; i < first + size_; ++i) {
            if (!Busy(signals, row, i)) {
                to[i] = static_cast<float>(profit);
                continue;
            }
            double worst_s = 0;
            for (size_t k = first; k < first + size_; ++k) {
                worst_s = k != i && Busy(signals, row, k) ? std::max(worst_s, signals[kRtt].At(row, k)) : worst_s;
            }
            const double others = (all_bps - signals[kGoodput].At(row, i)) / uplink_bps_[i];
            const double b = limit_bps(i) / uplink_bps_[i];
            const double crowding = others / std::max(1 - b, slack_min_frac_) * b;
            const double lateness = std::max(worst_s / sla_s_ - 1, 0.0) * signals[kRtt].At(row, i) / sla_s_;
            to[i] = static_cast<float>(profit - (sigma1_ * crowding + sigma2_ * lateness));
        }
    }

    // True for a host with an unfinished flow, or with goodput in the period; neither is ever negative.
    static bool Busy(const Signals &signals, size_t row, size_t i)
    {
        return signals[kFlows].At(row, i) + signals[kGoodput].At(row, i) != 0;
    }

    static double Inverse(double x) { return 1 / x; }

    double Mean(size_t first) const { return PairwiseSum(own_.data() + first, size_) / static_cast<double>(size_); }

    // Rewards of hosts by their own parts: (1 - team_frac) * own + team_frac * mean of the neighbourhood.
    void Mix(size_t first, float *to) const
    {
        const double sum = PairwiseSum(own_.data() + first, size_), part = team_frac_ / static_cast<double>(size_);
        for (size_t i = first; i < first + size_; ++i) {
            to[i] = static_cast<float>((1 - team_frac_) * own_[i] + part * sum);
        }
    }

    void (Rewards::*equation_)(const Signals &, size_t, size_t, float *);
    size_t size_;                                        // hosts of a neighbourhood, which have consecutive numbers
    std::vector<double> link_bps_, base_s_, uplink_bps_; // [hosts]
    std::vector<double> per_bps_, per_s_;                // [hosts] of the link's rate and of the base RTT
    std::vector<double> own_;                            // scratch memory [hosts]
    double rho_ = 0, team_frac_ = 0, floor_frac_ = 0, sigma1_ = 0, sigma2_ = 0, sla_s_ = 0, ratio_max_ = 0;
    double slack_min_frac_ = 0, flows_scale_ = 0, left_frac_ = 0, weigh_bytes_ = 0;
};

} // namespace ncc
