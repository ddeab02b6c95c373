// SPDX-License-Identifier: GPL-2.0-only
// Python module `ncc.envs.ns3._ns3`.
#include "bind.h"
#include "network.h"
#include "plain.h"
#include "transport.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

nb::dict RunPlain(const ncc::Spec &spec, int64_t stop_ns)
{
    ncc::PlainResult result;
    {
        nb::gil_scoped_release release;
        result = ncc::RunPlain(spec, stop_ns);
    }
    std::vector<double> finish;
    for (int64_t ns : result.finish_ns) {
        finish.push_back(ns >= 0 ? static_cast<double>(ns) / 1e9 : std::numeric_limits<double>::quiet_NaN());
    }
    nb::dict out;
    out["finish_s"] = ncc::bind::Own(std::move(finish));
    out["dropped_pkts"] = ncc::bind::Own(std::move(result.dropped_pkts));
    out["marked_pkts"] = ncc::bind::Own(std::move(result.marked_pkts));
    out["cpu_s"] = result.cpu_s;
    return out;
}

} // namespace

NB_MODULE(_ns3, m)
{
    m.doc() = "ns-3 in process: see ncc.envs.ns3.datapath";
    ncc::bind::BindSpec(m);
    ncc::bind::BindNetwork<ncc::Network>(m);
    m.def("run_plain", &RunPlain, "spec"_a, "stop_ns"_a);
    m.def("own_transports", &ncc::OwnTransports);
}
