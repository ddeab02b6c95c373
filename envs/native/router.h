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

    // Returns the directed port by which `node` sends a packet towards host `dst`.
    uint32_t Port(const Routes &routes, uint32_t node, uint32_t dst, int64_t now_ns, const ncc_sw_packet &packet);

  private:
    struct Choosing {
        const ncc_sw_ops *ops = nullptr; // null: a node without such a program
        std::vector<ncc_u64> params;
        std::vector<uint64_t> state;
        uint64_t seed = 0;
    };
    std::vector<Choosing> of_; // by node
};

} // namespace ncc
