// SPDX-License-Identifier: BSD-3-Clause
// Shortest paths to every host, as tables of equal-cost ports: dense, 8 bytes for each pair of a node and a host.
#pragma once

#include "mix.h"
#include "spec.h"

#include <cstdint>
#include <vector>

namespace ncc
{

class Routes
{
  public:
    explicit Routes(const Spec &spec);

    // Returns the directed port by which `node` sends a flow towards host `dst`. Among equal-cost ports a hash of flow,
    // node and seed decides, so a flow keeps to one path and the same seed gives the same paths.
    uint32_t Port(uint32_t node, uint32_t dst, uint32_t flow) const
    {
        const Choice &choice = table_[static_cast<size_t>(node) * n_hosts_ + host_index_[dst]];
        if (choice.count == 1) {
            return ports_[choice.first];
        }
        return ports_[choice.first + Hash(flow, node) % choice.count];
    }

    // Returns what switches hash in place of the flow if packets have an entropy, as IPv6 flow labels are (RFC 6438).
    // With entropy 0 it is the flow.
    static uint32_t Label(uint32_t flow, uint32_t entropy) { return flow + entropy * 0x9e3779b1U; }

    // Returns the port for packets back to the sender `src`, from the receiver `dst`, if they take the path of the
    // flow's data in reverse; `node` is on that path.
    uint32_t PortBack(uint32_t node, uint32_t src, uint32_t dst, uint32_t flow) const
    {
        for (uint32_t at = src;;) {
            const uint32_t port = Port(at, dst, flow);
            at = to_[port];
            if (at == node) {
                return port ^ 1;
            }
        }
    }

    // Returns the port if packets take ports of equal cost in turn, whatever their flow.
    uint32_t InTurn(uint32_t node, uint32_t dst)
    {
        const size_t pair = static_cast<size_t>(node) * n_hosts_ + host_index_[dst];
        return ports_[table_[pair].first + turns_[pair]++ % table_[pair].count];
    }

    // The ports by which shortest paths lead from `node` to host `dst`.
    struct Ways {
        const uint32_t *ports;
        uint32_t count;
    };
    Ways Equal(uint32_t node, uint32_t dst) const
    {
        const Choice &choice = table_[static_cast<size_t>(node) * n_hosts_ + host_index_[dst]];
        return {ports_.data() + choice.first, choice.count};
    }

    // True if `dst` can be reached from `node`.
    bool Reaches(uint32_t node, uint32_t dst) const
    {
        return table_[static_cast<size_t>(node) * n_hosts_ + host_index_[dst]].count > 0;
    }

    // RTT of a full packet and its bare ACK through empty queues, over one of the shortest paths.
    int64_t BaseRttNs(const Spec &spec, uint32_t src, uint32_t dst) const;
    // The longest of them between any two hosts.
    int64_t LongestRttNs(const Spec &spec) const;

  private:
    struct Choice {
        uint32_t first = 0, count = 0;
    };

    uint64_t Hash(uint32_t flow, uint32_t node) const
    {
        return Mix(seed_ ^ (static_cast<uint64_t>(node) << 32 | flow));
    }

    uint64_t seed_;
    size_t n_hosts_ = 0;
    std::vector<uint32_t> host_index_; // by node id
    std::vector<Choice> table_;        // [node][host]
    std::vector<uint32_t> turns_;      // [node][host], packets so far; only if packets are sprayed
    std::vector<uint32_t> ports_;
    std::vector<uint32_t> to_; // by port: node at its far end
};

} // namespace ncc
