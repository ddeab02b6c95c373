// SPDX-License-Identifier: BSD-3-Clause
// Names and parameters of the headers of baselines/ for user space.
#include "controllers.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

const ncc_cc_ops &Controller(const std::string &name)
{
    for (const ncc_cc_ops *ops : ncc_cc_table) {
        if (name == ops->name) {
            return *ops;
        }
    }
    throw std::invalid_argument("no controller called " + name);
}

// Controllers that only simulators can run (they need a timer or hops), or all others.
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
}
