// SPDX-License-Identifier: BSD-3-Clause
// Networks stepped together, for Python. They share nothing, so results do not depend on the number of threads.
#pragma once

#include "bind.h"
#include "network.h"
#include "pool.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ncc::packetsim
{

class Batch
{
  public:
    Batch(size_t n, size_t threads) : pool_(n, threads), networks_(n), owners_(n) {}

    // Puts a network into a row; it is in no other one. `Put` and `Step` throw std::runtime_error while another thread
    // is in one of them, and std::invalid_argument for a network that differs in hosts or uplinks and for other shapes.
    void Put(size_t row, nanobind::object network)
    {
        Network &added = nanobind::cast<Network &>(network);
        const Turn turn(busy_);
        for (size_t other = 0; other < networks_.size(); ++other) {
            if (other == row || networks_[other] == nullptr) {
                continue;
            }
            if (const std::string own = Shape(added), others = Shape(*networks_[other]); own != others) {
                throw std::invalid_argument("a network of " + own + " in row " + std::to_string(row) +
                                            ", beside one of " + others + " in row " + std::to_string(other));
            }
        }
        networks_[row] = &added;
        owners_[row] = std::move(network);
    }

    // Steps each network by one period under limits [n, agents], and measures it into blocks with a leading [n] (see
    // bind.h). Returns the row and the message of the first network that failed, if any.
    std::optional<std::pair<size_t, std::string>>
    Step(bind::Rows<const double> limits_bps, bind::Rows<double, 3> hosts, bind::Rows<int64_t, 3> host_counts,
         bind::Rows<double, 3> uplinks, bind::Rows<int64_t, 3> uplink_counts, bind::Rows<int64_t> progress)
    {
        const Turn turn(busy_);
        if (networks_.empty() || std::find(networks_.begin(), networks_.end(), nullptr) != networks_.end()) {
            throw std::invalid_argument("a row without a network");
        }
        const size_t n = networks_.size(), agents = networks_[0]->run().spec().agents.size(),
                     n_uplinks = networks_[0]->run().spec().uplinks.size();
        if (!bind::Fits(limits_bps, {n, agents}) || !bind::Fits(hosts, {n, HostColumns::kReals, agents}) ||
            !bind::Fits(host_counts, {n, HostColumns::kCounts, agents}) ||
            !bind::Fits(uplinks, {n, UplinkColumns::kReals, n_uplinks}) ||
            !bind::Fits(uplink_counts, {n, UplinkColumns::kCounts, n_uplinks}) ||
            !bind::Fits(progress, {n, bind::kProgress})) {
            throw std::invalid_argument("limits or measurement blocks of the wrong shape");
        }
        const bind::Blocks blocks{hosts.data(), host_counts.data(), uplinks.data(), uplink_counts.data(),
                                  progress.data()};
        const double *limits = limits_bps.data();
        nanobind::gil_scoped_release release;
        pool_.Each([&](size_t row) {
            networks_[row]->Step(limits + row * agents);
            bind::MeasureInto(*networks_[row], blocks.Row(row, agents, n_uplinks));
        });
        const size_t failed = pool_.failed_row();
        if (failed == n) {
            return std::nullopt;
        }
        try {
            std::rethrow_exception(pool_.error(failed));
        } catch (const std::exception &error) {
            return std::make_pair(failed, std::string(error.what()));
        }
    }

  private:
    static std::string Shape(const Network &network)
    {
        return std::to_string(network.run().spec().agents.size()) + " hosts and " +
               std::to_string(network.run().spec().uplinks.size()) + " uplinks";
    }

    class Turn
    {
      public:
        explicit Turn(std::atomic<bool> &busy) : busy_(busy)
        {
            if (busy_.exchange(true)) {
                throw std::runtime_error("another thread is in step()");
            }
        }
        ~Turn() { busy_ = false; }
        Turn(const Turn &) = delete;
        Turn &operator=(const Turn &) = delete;

      private:
        std::atomic<bool> &busy_;
    };

    std::atomic<bool> busy_ = false;
    ThreadPool pool_;
    std::vector<Network *> networks_;
    std::vector<nanobind::object> owners_; // keep the networks alive
};

} // namespace ncc::packetsim
