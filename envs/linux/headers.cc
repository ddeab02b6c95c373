// SPDX-License-Identifier: BSD-3-Clause
// Names and parameters of the headers of baselines/ for user space, and the keys and weights of all flows in one call.
#include "controllers.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

using ncc::ParamRow;
using Given = std::vector<std::pair<std::string, uint64_t>>;
using In = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

const ncc_cc_ops &Controller(const std::string &name)
{
    for (const ncc_cc_ops *ops : ncc_cc_table) {
        if (name == ops->name) {
            return *ops;
        }
    }
    throw std::invalid_argument("no controller called " + name);
}

// Those that need something which simulators alone offer, or all others.
std::vector<std::string> Controllers(bool simulated)
{
    std::vector<std::string> names;
    for (const ncc_cc_ops *ops : ncc_cc_table) {
        if (((ops->needs & (NCC_CC_TIMER | NCC_CC_HOPS)) != 0) == simulated) {
            names.emplace_back(ops->name);
        }
    }
    return names;
}

std::vector<std::string> KernelPrograms()
{
    std::vector<std::string> names;
    for (const ncc_sw_ops *ops : ncc_program_table) {
        if ((ops->needs & ~static_cast<ncc_u32>(NCC_SW_KERNEL)) == 0) {
            names.emplace_back(ops->name);
        }
    }
    return names;
}

const ncc_order_ops &KeyedOrder(const std::string &name)
{
    if (const ncc_order_ops *ops = ncc::RowIn(ncc_order_table, name)) {
        return *ops;
    }
    throw std::invalid_argument("no order with keys called " + name);
}

void OrderKeys(const std::string &name, const Given &params, In age_ns, In waited_ns, In size_bytes, In left_bytes,
               In delivered_bytes, Out keys)
{
    const ncc_order_ops &ops = KeyedOrder(name);
    const std::vector<ncc_u64> values = ncc::ControllerParams(ops, params);
    const size_t n = keys.shape(0);
    for (const size_t length :
         {age_ns.shape(0), waited_ns.shape(0), size_bytes.shape(0), left_bytes.shape(0), delivered_bytes.shape(0)}) {
        if (length != n) {
            throw std::invalid_argument("columns differ in length");
        }
    }
    for (size_t i = 0; i < n; ++i) {
        const ncc_order_flow flow = {static_cast<ncc_u64>(age_ns(i)), static_cast<ncc_u64>(waited_ns(i)),
                                     static_cast<ncc_u64>(size_bytes(i)), static_cast<ncc_u64>(left_bytes(i)),
                                     static_cast<ncc_u64>(delivered_bytes(i))};
        if (flow.size_bytes < 1 || flow.left_bytes > flow.size_bytes || flow.delivered_bytes > flow.left_bytes ||
            flow.waited_ns > flow.age_ns) {
            throw std::invalid_argument(
                "1 <= size_bytes >= left_bytes >= delivered_bytes and age_ns >= waited_ns must hold");
        }
        keys(i) = ops.key(values.data(), &flow);
    }
}

// Computes weights of flows by the rank of their key among those of their host, as order.py describes.
void RankWeights(In agent, Keys keys, In rows, int64_t depth, int64_t first, int64_t step, int64_t least,
                 Weights weights)
{
    const size_t n = agent.shape(0);
    if (keys.shape(0) != n || rows.shape(0) != n || weights.shape(0) != n || step < 1) {
        throw std::invalid_argument("columns differ in length");
    }
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<char> late(n);
    // Sorts the flows of each host and calls `mark` with every flow and its rank, counted from 0.
    const auto ranked = [&](auto &&before, auto &&mark) {
        std::sort(order.begin(), order.end(), before);
        for (size_t i = 0, from = 0; i < n; ++i) {
            from = i && agent(order[i]) != agent(order[i - 1]) ? i : from;
            mark(order[i], static_cast<int64_t>(i - from));
        }
    };
    if (depth > 0) {
        ranked([&](size_t a, size_t b) { return std::tuple(agent(a), rows(a)) < std::tuple(agent(b), rows(b)); },
               [&](size_t flow, int64_t rank) { late[flow] = rank >= depth; });
    }
    // The largest key comes first; among equal keys, the flow that came first.
    ranked(
        [&](size_t a, size_t b) {
            return std::tuple(agent(a), late[a], ~keys(a), rows(a)) < std::tuple(agent(b), late[b], ~keys(b), rows(b));
        },
        [&](size_t flow, int64_t rank) {
            int64_t weight = first;
            for (; rank > 0 && weight > least; --rank) {
                weight /= step;
            }
            weights(flow) = late[flow] ? least : std::max(weight, least);
        });
}

} // namespace

void bind_reports(nb::module_ &m); // reports.cc
void bind_live(nb::module_ &m);    // live.cc
void bind_gates(nb::module_ &m);   // gates.cc

NB_MODULE(_linux, m)
{
    nb::set_leak_warnings(false); // a failed run is still referenced by the traceback at exit
    bind_reports(m);
    bind_live(m);
    bind_gates(m);
    m.def("transports", [] { return Controllers(false); });
    m.def("simulated", [] { return Controllers(true); });
    m.def("params", [](const std::string &name) { return ncc::ParamRows(&Controller(name)); }, "transport"_a);
    m.def("ecn", [](const std::string &name) { return static_cast<int>(Controller(name).ecn); }, "transport"_a);
    m.def("programs", &KernelPrograms);
    m.def(
        "program_params", [](const std::string &name) { return ncc::ParamRows(ncc::RowIn(ncc_program_table, name)); },
        "program"_a);
    m.def("tags", [] { return ncc::NamesIn(ncc_tag_table, {"none"}); });
    m.def(
        "tag_params", [](const std::string &name) { return ncc::ParamRows(ncc::RowIn(ncc_tag_table, name)); },
        "tags"_a);
    m.def("orders", [] { return ncc::NamesIn(ncc_order_table, {"fifo"}); });
    m.def(
        "order_params", [](const std::string &name) { return ncc::ParamRows(ncc::RowIn(ncc_order_table, name)); },
        "order"_a);
    m.def(
        "order_depth",
        [](const std::string &name, const Given &params) {
            const ncc_order_ops &ops = KeyedOrder(name);
            return ops.depth(ncc::ControllerParams(ops, params).data());
        },
        "order"_a, "params"_a);
    m.def("order_keys", &OrderKeys, "order"_a, "params"_a, nb::kw_only(), "age_ns"_a, "waited_ns"_a, "size_bytes"_a,
          "left_bytes"_a, "delivered_bytes"_a, "keys"_a);
    m.def("rank_weights", &RankWeights, "agent"_a.noconvert(), "keys"_a.noconvert(), "rows"_a.noconvert(), "depth"_a,
          "first"_a, "step"_a, "least"_a, "weights"_a.noconvert());
}
