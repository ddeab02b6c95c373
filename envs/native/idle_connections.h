// SPDX-License-Identifier: BSD-3-Clause
// Connections that stay open between flows (Transport.connections_per_pair of ncc/core/scenario.py): the choice of one
// for a new flow, and the number of RTOs for which it was idle.
#pragma once

#include "spec.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ncc
{

// The idle connections of each ordered pair of hosts, by numbers that the simulator chooses.
class IdleConnections
{
  public:
    static constexpr uint32_t kAnother = std::numeric_limits<uint32_t>::max(); // none is idle: another one opens
    static constexpr uint32_t kUnused = kAnother - 1; // open since the beginning of the run, without a flow so far

    explicit IdleConnections(const Spec &spec) : per_pair_(spec.connections_per_pair) {}

    bool kept() const { return per_pair_ > 0; }

    // Returns the connection that a flow takes: the one that became idle last, or kUnused, or kAnother.
    uint32_t Take(const FlowSpec &flow)
    {
        if (!kept()) {
            return kAnother;
        }
        Pair &pair = pairs_.try_emplace(Key(flow), Pair{per_pair_, {}}).first->second;
        if (!pair.idle.empty()) {
            const uint32_t connection = pair.idle.back();
            pair.idle.pop_back();
            return connection;
        }
        if (pair.unused > 0) {
            --pair.unused;
            return kUnused;
        }
        return kAnother;
    }

    // Adds the connection of a flow that is acknowledged.
    void Add(const FlowSpec &flow, uint32_t connection) { pairs_.at(Key(flow)).idle.push_back(connection); }

  private:
    struct Pair {
        uint32_t unused;
        std::vector<uint32_t> idle; // the last one became idle last
    };

    static uint64_t Key(const FlowSpec &flow) { return static_cast<uint64_t>(flow.src) << 32 | flow.dst; }

    uint32_t per_pair_;
    std::unordered_map<uint64_t, Pair> pairs_;
};

// Throws std::invalid_argument if a run, or a host of it, begins with more than this many open connections.
inline void CheckConnections(const Spec &spec, uint64_t most_of_run, uint64_t most_of_host)
{
    if (spec.connections_per_pair == 0) {
        return;
    }
    std::set<std::pair<uint32_t, uint32_t>> pairs;
    std::unordered_map<uint32_t, uint64_t> peers;
    uint64_t most_peers = 1;
    for (const FlowSpec &flow : spec.flows) {
        if (flow.size_bytes > 0 && pairs.emplace(flow.src, flow.dst).second) {
            most_peers = std::max(most_peers, ++peers[flow.src]);
        }
    }
    const uint64_t most = std::min(most_of_run / std::max<size_t>(pairs.size(), 1), most_of_host / most_peers);
    if (spec.connections_per_pair > most) {
        throw std::invalid_argument("transport.connections_per_pair must be at most " + std::to_string(most) +
                                    " for flows between " + std::to_string(pairs.size()) + " pairs of hosts, got " +
                                    std::to_string(spec.connections_per_pair));
    }
}

// Returns ncc_cc_event::idle_rtos (baselines/cc.h), for data that was last sent `idle_ns` ago.
inline uint32_t IdleRtos(const Spec &spec, int64_t idle_ns, int64_t rto_ns)
{
    const int64_t rtos = spec.idle_restart ? (idle_ns - 1) / rto_ns : 0;
    return static_cast<uint32_t>(std::clamp<int64_t>(rtos, 0, std::numeric_limits<uint32_t>::max()));
}

} // namespace ncc
