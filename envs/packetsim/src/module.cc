// SPDX-License-Identifier: BSD-3-Clause
// Python module `ncc.envs.packetsim._packetsim`.
#include "batch.h"
#include "bind.h"
#include "network.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace ncc::packetsim
{
namespace
{

nb::dict Audit(const Network &network)
{
    const Network::Audit audit = network.Count();
    nb::dict out;
    out["sent"] = audit.sent;
    out["arrived"] = audit.arrived;
    out["dropped"] = audit.dropped;
    out["in_hosts"] = audit.in_hosts;
    out["on_links"] = audit.on_links;
    out["scheduled"] = audit.scheduled;
    return out;
}

// [n, 3]: time in ns, flow and number of every data packet that has left its host.
std::vector<std::array<int64_t, 3>> SentPackets(Network &network)
{
    std::vector<std::array<int64_t, 3>> rows;
    for (const Flows::SentPacket &left : network.flows().sent_packets()) {
        rows.push_back({left.time_ns, left.flow, left.number});
    }
    return rows;
}

} // namespace
} // namespace ncc::packetsim

NB_MODULE(_packetsim, m)
{
    using namespace ncc::packetsim;
    m.doc() = "The packet engine: see ncc.envs.packetsim.datapath";
    ncc::bind::BindSpec(m);
    ncc::bind::BindNetwork<Network>(m)
        .def_prop_ro("events", [](const Network &network) { return network.engine().events(); })
        .def("audit", &Audit)
        .def("record_sent", [](Network &network) { network.flows().RecordSent(); })
        .def("sent_packets", &SentPackets);
    nb::class_<Batch>(m, "Batch")
        .def(nb::init<size_t, size_t>(), "n"_a, "threads"_a)
        .def("put", &Batch::Put, "row"_a, "network"_a)
        .def("step", &Batch::Step, "limits_bps"_a, "hosts"_a, "host_counts"_a, "uplinks"_a, "uplink_counts"_a,
             "progress"_a);
}
