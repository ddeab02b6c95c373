// SPDX-License-Identifier: BSD-3-Clause
// Python bindings that the simulators' extension modules share: plain arrays in, plain arrays out.
// ncc/envs/native/base.py uses it.
#pragma once

#include "gates.h"
#include "measure.h"
#include "order.h"
#include "predictor.h"
#include "spec.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ncc::bind
{

namespace nb = nanobind;
using namespace nb::literals;

template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T, size_t Dims = 2>
using Rows = nb::ndarray<T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Column = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

constexpr size_t kProgress = 4; // time in ns, epoch, flows started and finished

template <typename T>
Column<T> Own(std::vector<T> values)
{
    auto *held = new std::vector<T>(std::move(values));
    nb::capsule owner(held, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return Column<T>(held->data(), {held->size()}, owner);
}

inline void SameLength(size_t length, size_t n)
{
    if (length != n) {
        throw std::invalid_argument("columns differ in length");
    }
}

// The nodes come first, then links, pools and flows, and last which flows are limited.
inline void SetNodes(Spec &spec, In<uint8_t> is_host)
{
    spec.is_host.assign(is_host.data(), is_host.data() + is_host.shape(0));
}

// `ends` [n, 2]; `queues` [n, 2, 7]: buffer, threshold, RED min, RED max, pool, control first, mark leaving, as
// QueueSpec has them; `red_max_prob` [n, 2].
inline void SetLinks(Spec &spec, Rows<const int64_t> ends, In<double> rate_bps, In<int64_t> delay_ns,
                     Rows<const int64_t, 3> queues, Rows<const double> red_max_prob)
{
    const size_t n = ends.shape(0);
    SameLength(rate_bps.shape(0), n);
    SameLength(delay_ns.shape(0), n);
    SameLength(queues.shape(0), n);
    SameLength(red_max_prob.shape(0), n);
    if (ends.shape(1) != 2 || queues.shape(1) != 2 || queues.shape(2) != 7 || red_max_prob.shape(1) != 2) {
        throw std::invalid_argument("link columns of the wrong shape");
    }
    const auto nodes = static_cast<int64_t>(spec.is_host.size());
    auto end = [&](size_t link, size_t i) {
        if (ends(link, i) < 0 || ends(link, i) >= nodes) {
            throw std::invalid_argument("link " + std::to_string(link) + " ends at a node that does not exist");
        }
        return static_cast<uint32_t>(ends(link, i));
    };
    auto queue = [&](size_t link, size_t i) {
        QueueSpec q;
        q.buffer_bytes = queues(link, i, 0);
        q.threshold_bytes = queues(link, i, 1);
        q.red_min_bytes = queues(link, i, 2);
        q.red_max_bytes = queues(link, i, 3);
        q.red_max_prob = red_max_prob(link, i);
        q.pool = static_cast<int32_t>(queues(link, i, 4));
        q.control_first = queues(link, i, 5) != 0;
        q.mark_leaving = queues(link, i, 6) != 0;
        return q;
    };
    spec.links.clear();
    spec.links.reserve(n);
    for (size_t i = 0; i < n; ++i) {
        spec.links.push_back({end(i, 0), end(i, 1), rate_bps(i), delay_ns(i), {queue(i, 0), queue(i, 1)}});
    }
}

// `red_min_bytes`, `red_max_bytes`, `red_max_prob`: as PoolSpec has them.
inline void SetPools(Spec &spec, In<int64_t> size_bytes, In<double> alpha, In<int64_t> red_min_bytes,
                     In<int64_t> red_max_bytes, In<double> red_max_prob)
{
    for (const size_t length :
         {alpha.shape(0), red_min_bytes.shape(0), red_max_bytes.shape(0), red_max_prob.shape(0)}) {
        SameLength(length, size_bytes.shape(0));
    }
    spec.pools.clear();
    for (size_t i = 0; i < size_bytes.shape(0); ++i) {
        spec.pools.push_back({size_bytes(i), alpha(i), red_min_bytes(i), red_max_bytes(i), red_max_prob(i)});
    }
}

inline void SetFlows(Spec &spec, In<int64_t> start_ns, In<int64_t> src, In<int64_t> dst, In<int64_t> size_bytes)
{
    const size_t n = start_ns.shape(0);
    SameLength(src.shape(0), n);
    SameLength(dst.shape(0), n);
    SameLength(size_bytes.shape(0), n);
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
        FlowSpec flow{};
        flow.start_ns = start_ns(i);
        flow.src = static_cast<uint32_t>(src(i));
        flow.dst = static_cast<uint32_t>(dst(i));
        flow.size_bytes = static_cast<uint64_t>(size_bytes(i));
        spec.flows.push_back(flow);
    }
}

// Which flows' data, and whose ACKs, are under their host's rate limit; of each flow, as FlowSpec has it.
inline void SetLimited(Spec &spec, In<uint8_t> data, In<uint8_t> acks)
{
    SameLength(data.shape(0), spec.flows.size());
    SameLength(acks.shape(0), spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        spec.flows[i].limited[0] = data(i) != 0;
        spec.flows[i].limited[1] = acks(i) != 0;
    }
}

// Which flows wait for their receiver's word.
inline void SetHeld(Spec &spec, In<uint8_t> held)
{
    SameLength(held.shape(0), spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        spec.flows[i].hold = held(i) != 0;
    }
}

// How applications write each flow, as FlowSpec has it.
inline void SetWrites(Spec &spec, In<int64_t> chunk_bytes, In<int64_t> every_ns)
{
    SameLength(chunk_bytes.shape(0), spec.flows.size());
    SameLength(every_ns.shape(0), spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        if (chunk_bytes(i) < 0 || (chunk_bytes(i) > 0 && every_ns(i) < 1)) {
            throw std::invalid_argument("flow " + std::to_string(i) + " is written in pieces of no size or time");
        }
        spec.flows[i].chunk_bytes = static_cast<uint64_t>(chunk_bytes(i));
        spec.flows[i].every_ns = every_ns(i);
    }
}

// The predictor of each flow, as FlowSpec has it; numbered from 0.
inline void SetPredictors(Spec &spec, In<int64_t> predictor)
{
    SameLength(predictor.shape(0), spec.flows.size());
    const auto n = static_cast<int64_t>(spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        if (predictor(i) < 0 || predictor(i) >= n) {
            throw std::invalid_argument("flow " + std::to_string(i) + " has a predictor that is not one of " +
                                        std::to_string(n));
        }
        spec.flows[i].predictor = static_cast<uint32_t>(predictor(i));
    }
}

// Predictor::BeyondBytes at each of some ages [n], after these sizes.
inline Column<int64_t> BeyondBytes(In<int64_t> size_bytes, In<int64_t> known_bytes)
{
    Predictor predictor;
    for (size_t i = 0; i < size_bytes.shape(0); ++i) {
        predictor.Add(static_cast<uint64_t>(size_bytes(i)));
    }
    std::vector<int64_t> beyond_bytes;
    for (size_t i = 0; i < known_bytes.shape(0); ++i) {
        beyond_bytes.push_back(static_cast<int64_t>(predictor.BeyondBytes(static_cast<uint64_t>(known_bytes(i)))));
    }
    return Own(std::move(beyond_bytes));
}

// Index of the first limit that cannot be used, or -1.
inline int64_t BadLimit(const nb::ndarray<const double, nb::c_contig, nb::device::cpu> &limits_bps)
{
    for (size_t i = 0; i < limits_bps.size(); ++i) {
        if (!(limits_bps.data()[i] > 0)) {
            return static_cast<int64_t>(i);
        }
    }
    return -1;
}

// Where one network's measurement goes: of a batch, the blocks of its row.
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

// Touches nothing of Python.
template <typename Network>
void MeasureInto(Network &network, const Blocks &to)
{
    network.Measure({to.hosts, to.host_counts, network.spec().agents.size()},
                    {to.uplinks, to.uplink_counts, network.spec().uplinks.size()});
    to.progress[0] = network.now_ns();
    to.progress[1] = network.epoch();
    to.progress[2] = network.flows_started();
    to.progress[3] = network.flows_finished();
}

template <typename Network>
void Step(Network &network, In<double> limits_bps)
{
    SameLength(limits_bps.shape(0), network.spec().agents.size());
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
    const size_t n = network.spec().agents.size(), m = network.spec().uplinks.size();
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
    for (const FlowRecord &record : network.records()) {
        rows.push_back(MeasureFlow(record));
    }
    return ColumnsOf(rows);
}

template <typename Network>
nb::dict PortRecords(Network &network)
{
    std::vector<PortRow> rows;
    for (uint32_t port = 0; port < 2 * network.spec().links.size(); ++port) {
        rows.push_back(MeasurePort(network.PortRecord(port)));
    }
    return ColumnsOf(rows);
}

// Messages of receivers for the next step: a row of each column is one message to the sender `src`. `window_pkts` 0: no
// bound; `late_ns`: it leaves so long after the limits take effect. The rows have been checked.
template <typename Network>
void Tell(Network &network, In<int64_t> src, In<int64_t> dst, In<int64_t> start_ns, In<double> rate_bps,
          In<int64_t> window_pkts, In<int64_t> late_ns)
{
    for (const size_t length :
         {dst.shape(0), start_ns.shape(0), rate_bps.shape(0), window_pkts.shape(0), late_ns.shape(0)}) {
        SameLength(length, src.shape(0));
    }
    if (!network.spec().receivers) {
        throw std::invalid_argument("receivers that tell nothing");
    }
    std::vector<Grant> grants;
    for (size_t i = 0; i < src.shape(0); ++i) {
        grants.push_back({static_cast<uint32_t>(src(i)), static_cast<uint32_t>(dst(i)), start_ns(i), rate_bps(i),
                          static_cast<uint32_t>(window_pkts(i)), late_ns(i)});
    }
    network.Tell(std::move(grants));
}

// Whole numbers [E, 3]: source, destination and flows of each edge; real numbers [E, 4]: waiting, next and received
// bytes, and age in seconds.
template <typename Network>
nb::tuple EdgesOf(const Network &network)
{
    std::vector<int64_t> whole;
    std::vector<double> real;
    for (const Gates::Edge &edge : network.Edges()) {
        whole.insert(whole.end(), {edge.src, edge.dst, edge.flows});
        real.insert(real.end(), {edge.waiting_bytes, edge.next_bytes, edge.received_bytes, edge.age_s});
    }
    return nb::make_tuple(Own(std::move(whole)), Own(std::move(real)));
}

// Class `Network`, to which a module may add what is its own. Its constructor throws std::invalid_argument for what
// cannot be built, std::runtime_error for what cannot be built now.
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
        .def_prop_ro("messages", &Network::messages)
        .def("drop_packet", &Network::DropPacket, "port"_a, "nth"_a)
        .def("mark_packet", &Network::MarkPacket, "port"_a, "nth"_a)
        .def(
            "sender_window",
            [](const Network &network, uint32_t flow) {
                const auto window = network.SenderWindow(flow);
                return std::make_tuple(window.cwnd_bytes, window.ssthresh_bytes, window.una_bytes);
            },
            "flow"_a)
        .def_prop_ro("now_ns", &Network::now_ns)
        .def_prop_ro("epoch", &Network::epoch)
        .def_prop_ro("live_connections", &Network::live_connections);
}

// Class `Spec`, and the functions of which every module has one.
inline void BindSpec(nb::module_ &m)
{
    nb::class_<Spec>(m, "Spec")
        .def(nb::init<>())
        .def("set_nodes", &SetNodes, "is_host"_a)
        .def("set_links", &SetLinks, "ends"_a, "rate_bps"_a, "delay_ns"_a, "queues"_a, "red_max_prob"_a)
        .def("set_pools", &SetPools, "size_bytes"_a, "alpha"_a, "red_min_bytes"_a, "red_max_bytes"_a, "red_max_prob"_a)
        .def("set_flows", &SetFlows, "start_ns"_a, "src"_a, "dst"_a, "size_bytes"_a)
        .def("set_limited", &SetLimited, "data"_a, "acks"_a)
        .def("set_held", &SetHeld, "held"_a)
        .def("set_predictors", &SetPredictors, "predictor"_a)
        .def("set_writes", &SetWrites, "chunk_bytes"_a, "every_ns"_a)
        .def_rw("agents", &Spec::agents)
        .def_rw("uplinks", &Spec::uplinks)
        .def_rw("mtu_bytes", &Spec::mtu_bytes)
        .def_rw("frame_overhead_bytes", &Spec::frame_overhead_bytes)
        .def_rw("initial_window_pkts", &Spec::initial_window_pkts)
        .def_rw("delayed_ack_pkts", &Spec::delayed_ack_pkts)
        .def_rw("send_buffer_bytes", &Spec::send_buffer_bytes)
        .def_rw("receive_buffer_bytes", &Spec::receive_buffer_bytes)
        .def_rw("dup_ack_pkts", &Spec::dup_ack_pkts)
        .def_rw("handshake", &Spec::handshake)
        .def_rw("connections_per_pair", &Spec::connections_per_pair)
        .def_rw("idle_restart", &Spec::idle_restart)
        .def_rw("sack", &Spec::sack)
        .def_rw("limited_transmit", &Spec::limited_transmit)
        .def_rw("modern", &Spec::modern)
        .def_rw("timer_slack_ns", &Spec::timer_slack_ns)
        .def_rw("timer_tick_ns", &Spec::timer_tick_ns)
        .def_rw("min_rto_ns", &Spec::min_rto_ns)
        .def_rw("initial_rto_ns", &Spec::initial_rto_ns)
        .def_rw("delayed_ack_ns", &Spec::delayed_ack_ns)
        .def_rw("rtt_noise_max_ns", &Spec::rtt_noise_max_ns)
        .def_rw("bucket_bytes", &Spec::bucket_bytes)
        .def_rw("small_queue_bytes", &Spec::small_queue_bytes)
        .def_rw("backlog", &Spec::backlog)
        .def_rw("first_write_pkts", &Spec::first_write_pkts)
        .def_rw("receivers", &Spec::receivers)
        .def_rw("patience_ns", &Spec::patience_ns)
        .def_rw("queue_ns", &Spec::queue_ns)
        .def_rw("instant", &Spec::instant)
        .def_rw("period_ns", &Spec::period_ns)
        .def_rw("latency_ns", &Spec::latency_ns)
        .def_rw("transport", &Spec::transport)
        .def_rw("params", &Spec::params)
        .def_rw("order", &Spec::order)
        .def_rw("order_params", &Spec::order_params)
        .def_rw("seed", &Spec::seed);
    m.def("bad_limit", &BadLimit, "limits_bps"_a);
    m.def("beyond_bytes", &BeyondBytes, "size_bytes"_a, "known_bytes"_a);
    m.def("orders", &OrderNames);
    m.def("order_params", &OrderParamRows, "order"_a);
}

} // namespace ncc::bind
