// SPDX-License-Identifier: BSD-3-Clause
// Python binding of the orders among a host's flows: their names, parameters and keys.
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ncc_controllers.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

std::vector<std::tuple<std::string, std::string>> orders()
{
    std::vector<std::tuple<std::string, std::string>> rows;
    for (const ncc_order_ops *ops : ncc_order_table) {
        rows.emplace_back(ops->name, ops->summary);
    }
    return rows;
}

ncc_u64 order_key(const std::string &name, const std::vector<ncc_u64> &params, ncc_u64 age_ns, ncc_u64 waited_ns,
                  ncc_u64 size_bytes, ncc_u64 left_bytes, ncc_u64 delivered_bytes)
{
    for (const ncc_order_ops *ops : ncc_order_table) {
        if (name != ops->name) {
            continue;
        }
        if (params.size() != ops->n_params) {
            throw nb::value_error((name + " takes " + std::to_string(ops->n_params) + " parameters").c_str());
        }
        if (size_bytes < 1 || left_bytes > size_bytes || delivered_bytes > left_bytes || waited_ns > age_ns) {
            throw nb::value_error("1 <= size_bytes >= left_bytes >= delivered_bytes and age_ns >= waited_ns must hold");
        }
        const ncc_order_flow flow{age_ns, waited_ns, size_bytes, left_bytes, delivered_bytes};
        return ops->key(params.data(), &flow);
    }
    throw nb::value_error(("no order called '" + name + "' in the table").c_str());
}

ncc_u64 log2_q16(ncc_u64 x)
{
    if (x == 0) {
        throw nb::value_error("x must be at least 1");
    }
    return ncc_log2_q16(x);
}

} // namespace

void bind_orders(nb::module_ &m)
{
    m.def("orders", &orders);
    m.def("order_key", &order_key, "name"_a, "params"_a, nb::kw_only(), "age_ns"_a, "waited_ns"_a, "size_bytes"_a,
          "left_bytes"_a, "delivered_bytes"_a);
    m.def("log2_q16", &log2_q16, "x"_a);
}
