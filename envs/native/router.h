// SPDX-License-Identifier: BSD-3-Clause
// Programs that choose among paths of equal length (NCC_SW_ROUTE): one in each switch, for both simulators.
#pragma once

#include "programs.h"
#include "routes.h"
#include "spec.h"

#include <cstdint>
#include <vector>

namespace ncc
{

class Router
{
  public:
    explicit Router(const Spec &spec);

    // False if Routes alone decides the paths.
    bool chooses() const { return !of_.empty(); }

    // True if a program writes tags into packets (NCC_SW_TAGS).
    bool tags() const { return !leaves_.empty(); }
    // Number of the switch next to a host, with tags; else 0.
    uint32_t leaf(uint32_t host) const { return tags() ? leaves_[host] : 0; }
    // Tells a port's routing program and the rate of its link.
    void Bind(uint32_t port, Programs::Routing routing, uint64_t bytes_per_s);

    // Returns the directed port by which `node` sends a packet towards host `dst`. With tags, writes the packet's.
    uint32_t Port(const Routes &routes, uint32_t node, uint32_t dst, int64_t now_ns, ncc_sw_packet &packet);

  private:
    struct Choosing {
        const ncc_sw_ops *ops = nullptr; // null: a node without such a program
        std::vector<ncc_u64> params;
        std::vector<uint64_t> state;
        uint64_t seed = 0;
    };
    void Number(const Spec &spec);

    std::vector<Choosing> of_;               // by node
    std::vector<uint32_t> leaves_;           // by node, of hosts; empty without tags
    std::vector<Programs::Routing> routing_; // by port, with tags
    std::vector<ncc_u64> rates_;             // by port, with tags
};

} // namespace ncc
