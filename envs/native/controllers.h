// SPDX-License-Identifier: BSD-3-Clause
// The controllers of baselines/ by name.
#pragma once

#include "ncc_controllers.h"
#include "test_window.h"

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ncc
{

// The controller of that name, or null. Beside those of ControllerNames() there is one for tests: test_window.h.
inline const ncc_cc_ops *FindController(const std::string &name)
{
    for (const ncc_cc_ops *ops : ncc_cc_table) {
        if (name == ops->name) {
            return ops;
        }
    }
    return name == test_window_ops.name ? &test_window_ops : nullptr;
}

inline std::vector<std::string> ControllerNames()
{
    std::vector<std::string> names;
    for (const ncc_cc_ops *ops : ncc_cc_table) {
        names.emplace_back(ops->name);
    }
    return names;
}

// A tunable as Python checks it: name, default, least, greatest, help.
using ParamRow = std::tuple<std::string, uint64_t, uint64_t, uint64_t, std::string>;

// None for an unknown controller.
inline std::vector<ParamRow> ControllerParamRows(const std::string &name)
{
    std::vector<ParamRow> rows;
    if (const ncc_cc_ops *ops = FindController(name)) {
        for (ncc_u32 i = 0; i < ops->n_params; ++i) {
            const ncc_cc_param &p = ops->params[i];
            rows.emplace_back(p.name, p.def, p.min, p.max, p.help);
        }
    }
    return rows;
}

// In the order of the controller's table: what is given, else the default.
inline std::vector<ncc_u64> ControllerParams(const ncc_cc_ops &ops,
                                             const std::vector<std::pair<std::string, uint64_t>> &given)
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

// What is wrong with a controller's window; only asked once `cwnd_bytes` is out of range.
inline std::string WindowFault(const ncc_cc_ops &ops, const ncc_cc_conn &conn, ncc_u64 cwnd_bytes)
{
    return "controller " + std::string(ops.name) + " returned a window of " + std::to_string(cwnd_bytes) +
           " bytes; allowed are " + std::to_string(conn.mss_bytes) + " (one packet) to " +
           std::to_string(NCC_CC_CWND_MAX);
}

} // namespace ncc
