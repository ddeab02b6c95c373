// SPDX-License-Identifier: BSD-3-Clause
// Python bindings that the simulators' extension modules share: plain arrays in, plain arrays out.
// ncc/envs/native/base.py uses it.
#pragma once

#include "bind_spec.h"
#include "gates.h"
#include "measure.h"
#include "spec.h"

#include "verdict.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ncc::bind
{

using namespace nb::literals;

constexpr size_t kProgress = 4; // numbers: time in ns, epoch, flows started, flows finished

// The arrays into which one network's measurement is written; in a batch, its row of them.
struct Blocks {
    double *hosts;
    int64_t *host_counts;
    double *uplinks;
    int64_t *uplink_counts, *progress;
    Blocks Row(size_t row, size_t agents, size_t n_uplinks) const
    {
        return {hosts + row * HostColumns::kReals * agents, host_counts + row * HostColumns::kCounts * agents,
                uplinks + row * UplinkColumns::kReals * n_uplinks,
                uplink_counts + row * UplinkColumns::kCounts * n_uplinks, progress + row * kProgress};
    }
};

// Uses nothing of Python, so that it may run without the interpreter's lock.
template <typename Network>
void MeasureInto(Network &network, const Blocks &to)
{
    network.Measure({to.hosts, to.host_counts, network.run().spec().agents.size()},
                    {to.uplinks, to.uplink_counts, network.run().spec().uplinks.size()});
    to.progress[0] = network.now_ns();
    to.progress[1] = network.epoch();
    to.progress[2] = network.run().flows_started();
    to.progress[3] = network.run().flows_finished();
}

template <typename Network>
void Step(Network &network, In<double> limits_bps)
{
    SameLength(limits_bps.shape(0), network.run().spec().agents.size());
    nb::gil_scoped_release release;
    network.Step(limits_bps.data());
}

template <typename Array>
bool Fits(const Array &array, std::initializer_list<size_t> shape)
{
    size_t axis = 0;
    return std::all_of(shape.begin(), shape.end(), [&](size_t n) { return array.shape(axis++) == n; });
}

template <typename Network>
void Measure(Network &network, Rows<double> hosts, Rows<int64_t> host_counts, Rows<double> uplinks,
             Rows<int64_t> uplink_counts, Rows<int64_t, 1> progress)
{
    const size_t n = network.run().spec().agents.size(), m = network.run().spec().uplinks.size();
    if (!Fits(hosts, {HostColumns::kReals, n}) || !Fits(host_counts, {HostColumns::kCounts, n}) ||
        !Fits(uplinks, {UplinkColumns::kReals, m}) || !Fits(uplink_counts, {UplinkColumns::kCounts, m}) ||
        !Fits(progress, {kProgress})) {
        throw std::invalid_argument(
            "measurement blocks of the wrong shape: the extension module was built from another "
            "table of signals; run make build");
    }
    MeasureInto(network, {hosts.data(), host_counts.data(), uplinks.data(), uplink_counts.data(), progress.data()});
}

// A column for each signal of some flows or ports.
template <typename Row>
nb::dict ColumnsOf(const std::vector<Row> &rows)
{
    nb::dict out;
    Row::Each([&](const char *name, auto member) {
        std::vector<std::decay_t<decltype(rows[0].*member)>> values;
        for (const Row &row : rows) {
            values.push_back(row.*member);
        }
        out[name] = Own(std::move(values));
    });
    return out;
}

template <typename Network>
nb::dict FlowRecords(const Network &network)
{
    std::vector<FlowRow> rows;
    for (const FlowRecord &record : network.run().records()) {
        rows.push_back(MeasureFlow(record));
    }
    return ColumnsOf(rows);
}

template <typename Network>
nb::dict PortRecords(Network &network)
{
    std::vector<PortRow> rows;
    for (uint32_t port = 0; port < 2 * network.run().spec().links.size(); ++port) {
        rows.push_back(MeasurePort(network.PortRecord(port)));
    }
    return ColumnsOf(rows);
}

// Takes messages of receivers for the next step. A row of the columns is one message to the sender `src`. `window_pkts`
// 0: no bound; `late_ns`: time from when the limits take effect until it leaves. The rows have been checked.
template <typename Network>
void Tell(Network &network, In<int64_t> src, In<int64_t> dst, In<int64_t> start_ns, In<double> rate_bps,
          In<int64_t> window_pkts, In<int64_t> late_ns)
{
    std::vector<Grant> grants;
    for (size_t i = 0; i < src.shape(0); ++i) {
        grants.push_back({static_cast<uint32_t>(src(i)), static_cast<uint32_t>(dst(i)), start_ns(i), rate_bps(i),
                          static_cast<uint32_t>(window_pkts(i)), late_ns(i)});
    }
    network.Tell(std::move(grants));
}

// Takes all parameters of the tags for the next step. They have been checked.
template <typename Network>
void Retag(Network &network, In<int64_t> params)
{
    network.Retag({params.data(), params.data() + params.shape(0)});
}

// Rows [n] of the flows delivered since the last call, in that order, and their completion times [n] in ns.
template <typename Network>
nb::tuple TakeDelivered(Network &network)
{
    std::vector<int64_t> rows = network.run().TakeDelivered(), took_ns;
    for (const int64_t row : rows) {
        const FlowRecord &record = network.run().records()[static_cast<size_t>(row)];
        took_ns.push_back(record.finish_ns - record.start_ns);
    }
    return nb::make_tuple(Own(std::move(rows)), Own(std::move(took_ns)));
}

// Two arrays with a row for each edge (Gates::Edge): whole numbers [E, 3], its source, destination and flows; and real
// numbers [E, 4], its waiting, next and received bytes, and its age in seconds.
template <typename Network>
nb::tuple EdgesOf(const Network &network)
{
    std::vector<int64_t> whole;
    std::vector<double> real;
    for (const Gates::Edge &edge : network.run().Edges(network.now_ns())) {
        whole.insert(whole.end(), {edge.src, edge.dst, edge.flows});
        real.insert(real.end(), {edge.waiting_bytes, edge.next_bytes, edge.received_bytes, edge.age_s});
    }
    return nb::make_tuple(Own(std::move(whole)), Own(std::move(real)));
}

// Bytes that wait at the port into each neighbourhood, at the other end of its uplink's link.
template <typename Network>
Column<double> QueuesInto(Network &network)
{
    std::vector<double> out;
    for (const uint32_t uplink : network.run().spec().uplinks) {
        const bool at_switch = network.switches().port(uplink ^ 1U).at_switch();
        out.push_back(at_switch ? static_cast<double>(network.switches().Advanced(uplink ^ 1U).queue_bytes()) : 0.0);
    }
    return Own(std::move(out));
}

// Class `Network`, to which a module may add functions of its own. Its constructor throws std::invalid_argument for a
// network that cannot be built, and std::runtime_error for one that cannot be built now.
template <typename Network>
nb::class_<Network> BindNetwork(nb::module_ &m)
{
    return nb::class_<Network>(m, "Network")
        .def(nb::init<const Spec &>(), "spec"_a)
        .def("step", &Step<Network>, "limits_bps"_a)
        .def("measure", &Measure<Network>, "hosts"_a, "host_counts"_a, "uplinks"_a, "uplink_counts"_a, "progress"_a)
        .def("flow_records", &FlowRecords<Network>)
        .def("port_records", &PortRecords<Network>)
        .def("tell", &Tell<Network>, "src"_a, "dst"_a, "start_ns"_a, "rate_bps"_a, "window_pkts"_a, "late_ns"_a)
        .def("edges", &EdgesOf<Network>)
        .def("retag", &Retag<Network>, "params"_a)
        .def("take_delivered", &TakeDelivered<Network>)
        .def("queues_into", &QueuesInto<Network>)
        .def_prop_ro("messages", [](const Network &network) { return network.run().messages(); })
        .def(
            "plan_fault",
            [](Network &network, uint32_t port, uint64_t nth, bool drop, bool mark, int64_t delay_ns, bool control) {
                network.Plan(port, {nth, drop ? NCC_DROP : mark ? NCC_MARK : NCC_PASS, delay_ns, control});
            },
            "port"_a, "nth"_a, nb::kw_only(), "drop"_a = false, "mark"_a = false, "delay_ns"_a = 0, "control"_a = false)
        .def(
            "sender_window",
            [](const Network &network, uint32_t flow) {
                const auto window = network.SenderWindow(flow);
                return std::make_tuple(window.cwnd_bytes, window.ssthresh_bytes, window.una_bytes);
            },
            "flow"_a)
        .def_prop_ro("now_ns", &Network::now_ns)
        .def_prop_ro("epoch", &Network::epoch)
        .def_prop_ro("live_connections", [](const Network &network) { return network.run().live_connections(); });
}

} // namespace ncc::bind
