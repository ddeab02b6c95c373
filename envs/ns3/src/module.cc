// SPDX-License-Identifier: GPL-2.0-only
// Python module `ncc.envs.ns3._ns3`: plain arrays in, plain arrays out. ncc/envs/ns3/datapath.py is its only user.
#include "network.h"
#include "order.h"
#include "plain.h"
#include "spec.h"
#include "transport.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <tuple>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Rows = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Column = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <typename T>
void SameLength(const In<T> &array, size_t n)
{
    if (array.shape(0) != n) {
        throw std::invalid_argument("columns differ in length");
    }
}

void SetNodes(ncc::Spec &spec, In<uint8_t> is_host)
{
    spec.is_host.assign(is_host.data(), is_host.data() + is_host.shape(0));
}

// ends, delays, buffers and thresholds as rows [n, 2]; a host end has buffer -1.
void SetLinks(ncc::Spec &spec, Rows<const int64_t> ends, In<double> rate_bps, In<int64_t> delay_ns,
              Rows<const int64_t> buffer_bytes, Rows<const int64_t> threshold_bytes)
{
    const size_t n = ends.shape(0);
    SameLength(rate_bps, n);
    SameLength(delay_ns, n);
    spec.links.clear();
    for (size_t i = 0; i < n; ++i) {
        spec.links.push_back({static_cast<uint32_t>(ends(i, 0)),
                              static_cast<uint32_t>(ends(i, 1)),
                              rate_bps(i),
                              delay_ns(i),
                              {buffer_bytes(i, 0), buffer_bytes(i, 1)},
                              {threshold_bytes(i, 0), threshold_bytes(i, 1)}});
    }
}

void SetFlows(ncc::Spec &spec, In<int64_t> start_ns, In<int64_t> src, In<int64_t> dst, In<int64_t> size_bytes)
{
    const size_t n = start_ns.shape(0);
    SameLength(src, n);
    SameLength(dst, n);
    SameLength(size_bytes, n);
    const auto nodes = static_cast<int64_t>(spec.is_host.size());
    auto host = [&](int64_t node) { return node >= 0 && node < nodes && spec.is_host[static_cast<size_t>(node)]; };
    spec.flows.clear();
    spec.flows.reserve(n);
    for (size_t i = 0; i < n; ++i) {
        if (!host(src(i)) || !host(dst(i)) || src(i) == dst(i)) {
            throw std::invalid_argument("flow " + std::to_string(i) + " must go from one host to another");
        }
        if (size_bytes(i) < 1 || start_ns(i) < 0 || (i > 0 && start_ns(i) < start_ns(i - 1))) {
            throw std::invalid_argument("flow " + std::to_string(i) +
                                        " needs a size of at least 1 byte and a start that "
                                        "is neither negative nor before the flow above it");
        }
        spec.flows.push_back({start_ns(i), static_cast<uint32_t>(src(i)), static_cast<uint32_t>(dst(i)),
                              static_cast<uint64_t>(size_bytes(i))});
    }
}

// Index of the first limit that cannot be used, or -1.
int64_t BadLimit(In<double> limits_bps)
{
    for (size_t i = 0; i < limits_bps.shape(0); ++i) {
        if (!(limits_bps(i) > 0)) {
            return static_cast<int64_t>(i);
        }
    }
    return -1;
}

void Step(ncc::Network &network, In<double> limits_bps)
{
    SameLength(limits_bps, network.spec().agents.size());
    nb::gil_scoped_release release;
    network.Step(limits_bps.data());
}

// Fills the rows of the four blocks, in the order of the column structs of network.h.
void Measure(ncc::Network &network, Rows<double> hosts, Rows<int64_t> host_counts, Rows<double> uppers,
             Rows<int64_t> upper_counts)
{
    const size_t n = network.spec().agents.size(), m = network.spec().upper_ports.size();
    if (hosts.shape(0) != 6 || hosts.shape(1) != n || host_counts.shape(0) != 3 || host_counts.shape(1) != n ||
        uppers.shape(0) != 4 || uppers.shape(1) != m || upper_counts.shape(0) != 2 || upper_counts.shape(1) != m) {
        throw std::invalid_argument("measurement blocks of the wrong shape");
    }
    double *h = hosts.data(), *u = uppers.data();
    int64_t *hc = host_counts.data(), *uc = upper_counts.data();
    network.Measure({h, h + n, h + 2 * n, h + 3 * n, h + 4 * n, h + 5 * n, hc, hc + n, hc + 2 * n},
                    {u, u + m, u + 2 * m, u + 3 * m, uc, uc + m});
}

template <typename T>
Column<T> Own(std::vector<T> values)
{
    auto *held = new std::vector<T>(std::move(values));
    nb::capsule owner(held, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return Column<T>(held->data(), {held->size()}, owner);
}

nb::dict FlowRecords(const ncc::Network &network)
{
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    const auto &records = network.records();
    std::vector<double> finish, mean, min;
    std::vector<int64_t> sent, retransmitted, timeouts, ce;
    for (const ncc::FlowRecord &r : records) {
        finish.push_back(r.finish_ns >= 0 ? static_cast<double>(r.finish_ns) / 1e9 : kNan);
        mean.push_back(r.rtt_samples ? r.rtt_sum_ns / static_cast<double>(r.rtt_samples) / 1e9 : kNan);
        min.push_back(r.rtt_samples ? static_cast<double>(r.rtt_min_ns) / 1e9 : kNan);
        sent.push_back(r.sent_pkts);
        retransmitted.push_back(r.retransmitted_pkts);
        timeouts.push_back(r.timeouts);
        ce.push_back(r.ce_pkts);
    }
    nb::dict out;
    out["finish_s"] = Own(std::move(finish));
    out["sent_pkts"] = Own(std::move(sent));
    out["retransmitted_pkts"] = Own(std::move(retransmitted));
    out["timeouts"] = Own(std::move(timeouts));
    out["ce_pkts"] = Own(std::move(ce));
    out["rtt_mean_s"] = Own(std::move(mean));
    out["rtt_min_s"] = Own(std::move(min));
    return out;
}

nb::dict PortRecords(ncc::Network &network)
{
    std::vector<int64_t> pkts, bytes, dropped, marked, max;
    std::vector<double> delay;
    for (uint32_t port = 0; port < 2 * network.spec().links.size(); ++port) {
        const ncc::PortTotals t = network.PortRecord(port);
        pkts.push_back(t.tx_pkts);
        bytes.push_back(t.tx_bytes);
        dropped.push_back(t.dropped_pkts);
        marked.push_back(t.marked_pkts);
        delay.push_back(static_cast<double>(t.delay_ns) / 1e9);
        max.push_back(t.queue_max_bytes);
    }
    nb::dict out;
    out["tx_pkts"] = Own(std::move(pkts));
    out["tx_bytes"] = Own(std::move(bytes));
    out["dropped_pkts"] = Own(std::move(dropped));
    out["marked_pkts"] = Own(std::move(marked));
    out["queue_delay_sum_s"] = Own(std::move(delay));
    out["queue_max_bytes"] = Own(std::move(max));
    return out;
}

} // namespace

NB_MODULE(_ns3, m)
{
    m.doc() = "ns-3 in process: see ncc.envs.ns3.datapath";

    nb::class_<ncc::Spec>(m, "Spec")
        .def(nb::init<>())
        .def("set_nodes", &SetNodes, "is_host"_a)
        .def("set_links", &SetLinks, "ends"_a, "rate_bps"_a, "delay_ns"_a, "buffer_bytes"_a, "threshold_bytes"_a)
        .def("set_flows", &SetFlows, "start_ns"_a, "src"_a, "dst"_a, "size_bytes"_a)
        .def_rw("agents", &ncc::Spec::agents)
        .def_rw("upper_ports", &ncc::Spec::upper_ports)
        .def_rw("mtu_bytes", &ncc::Spec::mtu_bytes)
        .def_rw("frame_overhead_bytes", &ncc::Spec::frame_overhead_bytes)
        .def_rw("initial_window_pkts", &ncc::Spec::initial_window_pkts)
        .def_rw("delayed_ack_pkts", &ncc::Spec::delayed_ack_pkts)
        .def_rw("send_buffer_bytes", &ncc::Spec::send_buffer_bytes)
        .def_rw("receive_buffer_bytes", &ncc::Spec::receive_buffer_bytes)
        .def_rw("min_rto_ns", &ncc::Spec::min_rto_ns)
        .def_rw("initial_rto_ns", &ncc::Spec::initial_rto_ns)
        .def_rw("delayed_ack_ns", &ncc::Spec::delayed_ack_ns)
        .def_rw("bucket_bytes", &ncc::Spec::bucket_bytes)
        .def_rw("small_queue_bytes", &ncc::Spec::small_queue_bytes)
        .def_rw("period_ns", &ncc::Spec::period_ns)
        .def_rw("latency_ns", &ncc::Spec::latency_ns)
        .def_rw("transport", &ncc::Spec::transport)
        .def_rw("params", &ncc::Spec::params)
        .def_rw("order", &ncc::Spec::order)
        .def_rw("seed", &ncc::Spec::seed);

    nb::class_<ncc::Network>(m, "Network")
        .def(nb::init<const ncc::Spec &>(), "spec"_a)
        .def("step", &Step, "limits_bps"_a)
        .def("measure", &Measure, "hosts"_a, "host_counts"_a, "uppers"_a, "upper_counts"_a)
        .def("flow_records", &FlowRecords)
        .def("port_records", &PortRecords)
        .def("drop_packet", &ncc::Network::DropPacket, "port"_a, "nth"_a)
        .def(
            "sender_window",
            [](const ncc::Network &network, uint32_t flow) {
                const auto window = network.SenderWindow(flow);
                return std::make_tuple(window.cwnd_bytes, window.ssthresh_bytes, window.una_bytes);
            },
            "flow"_a)
        .def_prop_ro("now_ns", &ncc::Network::now_ns)
        .def_prop_ro("epoch", &ncc::Network::epoch)
        .def_prop_ro("flows_started", &ncc::Network::flows_started)
        .def_prop_ro("flows_finished", &ncc::Network::flows_finished)
        .def_prop_ro("live_connections", &ncc::Network::live_connections);

    m.def(
        "run_plain",
        [](const ncc::Spec &spec, int64_t stop_ns, bool measure_queues) {
            ncc::PlainResult result;
            {
                nb::gil_scoped_release release;
                result = ncc::RunPlain(spec, stop_ns, measure_queues);
            }
            std::vector<double> finish;
            for (int64_t ns : result.finish_ns) {
                finish.push_back(ns >= 0 ? static_cast<double>(ns) / 1e9 : std::numeric_limits<double>::quiet_NaN());
            }
            nb::dict out;
            out["finish_s"] = Own(std::move(finish));
            out["dropped_pkts"] = Own(std::move(result.dropped_pkts));
            out["marked_pkts"] = Own(std::move(result.marked_pkts));
            out["queue_mean_bytes"] = Own(std::move(result.queue_mean_bytes));
            out["cpu_s"] = result.cpu_s;
            return out;
        },
        "spec"_a, "stop_ns"_a, "measure_queues"_a = false);
    m.def("bad_limit", &BadLimit, "limits_bps"_a);
    m.def("transports", &ncc::TransportNames);
    m.def("orders", &ncc::OrderNames);
    m.def(
        "params",
        [](const std::string &transport) {
            std::vector<std::tuple<std::string, uint64_t, uint64_t, uint64_t, std::string>> rows;
            for (const ncc::ParamInfo &p : ncc::TransportParams(transport)) {
                rows.emplace_back(p.name, p.def, p.min, p.max, p.help);
            }
            return rows;
        },
        "transport"_a);
}
