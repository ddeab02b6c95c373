// SPDX-License-Identifier: BSD-3-Clause
// The controllers of baselines/ by name.
#pragma once

#include "spec.h"

#include "ncc_controllers.h"
#ifdef NCC_TESTS // those of tests/native, beside the tables
#include "test_window.h"
#endif

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ncc
{

// The row of that name in a table of what is registered (ncc_controllers.h), or null.
template <class Table>
auto RowIn(const Table &table, const std::string &name) -> std::remove_cv_t<std::remove_reference_t<decltype(table[0])>>
{
    const auto found = std::find_if(std::begin(table), std::end(table), [&](auto *ops) { return name == ops->name; });
    return found == std::end(table) ? nullptr : *found;
}

// The names of its rows, after others.
template <class Table>
std::vector<std::string> NamesIn(const Table &table, std::vector<std::string> names = {})
{
    for (const auto *ops : table) {
        names.emplace_back(ops->name);
    }
    return names;
}

// The controller of that name, or null.
inline const ncc_cc_ops *FindController(const std::string &name)
{
#ifdef NCC_TESTS
    if (name == test_window_ops.name) {
        return &test_window_ops;
    }
#endif
    return RowIn(ncc_cc_table, name);
}

inline std::vector<std::string> ControllerNames() { return NamesIn(ncc_cc_table); }

// A tunable as Python checks it: name, default, least, greatest, help.
using ParamRow = std::tuple<std::string, uint64_t, uint64_t, uint64_t, std::string>;

// The tunables of a row; none of null.
template <class Ops>
std::vector<ParamRow> ParamRows(const Ops *ops)
{
    std::vector<ParamRow> rows;
    for (ncc_u32 i = 0; ops && i < ops->n_params; ++i) {
        const ncc_cc_param &p = ops->params[i];
        rows.emplace_back(p.name, p.def, p.min, p.max, p.help);
    }
    return rows;
}

// None for an unknown controller.
inline std::vector<ParamRow> ControllerParamRows(const std::string &name) { return ParamRows(FindController(name)); }

// In the order of the table: what is given, else the default.
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

// Whether a datapath can obey what a controller decided.
inline bool Obeyable(const ncc_cc_conn &conn, const ncc_cc_out &out)
{
    return out.cwnd_bytes >= conn.mss_bytes && out.cwnd_bytes <= NCC_CC_CWND_MAX &&
           out.pacing_bytes_per_s <= NCC_CC_PACING_MAX;
}

// The time after which a controller's own timer is due; 0: as it was.
inline int64_t ControlDelayNs(const ncc_cc_ops &ops, const ncc_cc_out &out)
{
    constexpr ncc_u64 kLongestNs = NCC_NS_PER_S << 20;
    return (ops.needs & NCC_CC_TIMER) == 0 ? 0 : static_cast<int64_t>(std::min(out.timer_ns, kLongestNs));
}

// What is wrong with a decision that is not obeyable.
inline std::string DecisionFault(const ncc_cc_ops &ops, const ncc_cc_conn &conn, const ncc_cc_out &out)
{
    const std::string who = "controller " + std::string(ops.name);
    if (out.pacing_bytes_per_s > NCC_CC_PACING_MAX) {
        // The controller's arithmetic went below 0: said as the number that it meant.
        return who + " returned a pacing rate of " + std::to_string(static_cast<ncc_s64>(out.pacing_bytes_per_s)) +
               " bytes/s; allowed are 0 (unpaced) to " + std::to_string(NCC_CC_PACING_MAX);
    }
    return who + " returned a window of " + std::to_string(out.cwnd_bytes) + " bytes; allowed are " +
           std::to_string(conn.mss_bytes) + " (one packet) to " + std::to_string(NCC_CC_CWND_MAX);
}

} // namespace ncc
