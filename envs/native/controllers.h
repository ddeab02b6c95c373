// SPDX-License-Identifier: BSD-3-Clause
// The controllers of baselines/ by name.
#pragma once

#include "spec.h"

#include "cc.h"
#include "flow_order.h"
#include "flow_tag.h"
#include "front.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace ncc
{

// Returns the controller of that name, or null.
const ncc_cc_ops *FindController(const std::string &name);

// Return the registered order among flows, tags or front end of that name.
const ncc_order_ops &FindOrder(const std::string &name);
const ncc_tag_ops &FindTags(const std::string &name);
const ncc_front_ops &FindFront(const std::string &name);

// Returns parameters in the order of the table: the given value, or the default.
template <class Ops>
std::vector<ncc_u64> ControllerParams(const Ops &ops, const Params &given)
{
    std::vector<ncc_u64> values;
    for (ncc_u32 i = 0; i < ops.n_params; ++i) {
        ncc_u64 value = ops.params[i].def;
        for (const auto &[name, wanted] : given) {
            value = name == ops.params[i].name ? wanted : value;
        }
        values.push_back(value);
    }
    return values;
}

// True if a datapath can obey the controller's decision.
inline bool Obeyable(const ncc_cc_conn &conn, const ncc_cc_out &out)
{
    return out.cwnd_bytes >= conn.mss_bytes && out.cwnd_bytes <= NCC_CC_CWND_MAX &&
           out.pacing_bytes_per_s <= NCC_CC_PACING_MAX;
}

// Time until the controller's own timer is due; 0: it is unchanged.
inline int64_t ControlDelayNs(const ncc_cc_ops &ops, const ncc_cc_out &out)
{
    constexpr ncc_u64 kLongestNs = NCC_NS_PER_S << 20;
    return (ops.needs & NCC_CC_TIMER) == 0 ? 0 : static_cast<int64_t>(std::min(out.timer_ns, kLongestNs));
}

// Describes the fault of a decision that cannot be obeyed.
inline std::string DecisionFault(const ncc_cc_ops &ops, const ncc_cc_conn &conn, const ncc_cc_out &out)
{
    const std::string who = "controller " + std::string(ops.name);
    if (out.pacing_bytes_per_s > NCC_CC_PACING_MAX) {
        // The controller's arithmetic went below 0: show the negative number.
        return who + " returned a pacing rate of " + std::to_string(static_cast<ncc_s64>(out.pacing_bytes_per_s)) +
               " bytes/s; allowed are 0 (unpaced) to " + std::to_string(NCC_CC_PACING_MAX);
    }
    return who + " returned a window of " + std::to_string(out.cwnd_bytes) + " bytes; allowed are " +
           std::to_string(conn.mss_bytes) + " (one packet) to " + std::to_string(NCC_CC_CWND_MAX);
}

} // namespace ncc
