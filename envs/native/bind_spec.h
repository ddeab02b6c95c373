// SPDX-License-Identifier: BSD-3-Clause
// Python bindings that the simulators' extension modules share: a Spec and its parts.
#pragma once

#include "spec.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ncc::bind
{

namespace nb = nanobind;

template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T, size_t Dims = 2>
using Rows = nb::ndarray<T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Column = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

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

// Sets the flows. Set the nodes before, and the other columns of flows (below) after.
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
        const bool waits = size_bytes(i) == 0 && src(i) == dst(i); // only with a graph (SetGraph)
        if (!host(src(i)) || !host(dst(i)) || (src(i) == dst(i) && !waits)) {
            throw std::invalid_argument("flow " + std::to_string(i) + " must go from one host to another");
        }
        if ((size_bytes(i) < 1 && !waits) || start_ns(i) < 0 || (i > 0 && start_ns(i) < start_ns(i - 1))) {
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

// Fills a column of n rows.
template <typename T, typename From>
void Fill(std::vector<T> &column, In<From> values, size_t n)
{
    SameLength(values.shape(0), n);
    column.assign(values.data(), values.data() + n);
}

// Sets the graph of requests (GraphSpec), which Python has checked.
inline void SetGraph(Spec &spec, In<int64_t> group, In<int64_t> after, In<int64_t> think_ns, In<uint8_t> answer)
{
    const size_t n = spec.flows.size();
    spec.graph = {};
    Fill(spec.graph.group, group, n);
    Fill(spec.graph.after, after, n);
    Fill(spec.graph.think_ns, think_ns, n);
    Fill(spec.graph.answer, answer, n);
}

// Sets the columns of a graph that front ends need (GraphSpec), which Python has checked.
inline void SetQueries(Spec &spec, In<int64_t> query_of, In<int64_t> end_of)
{
    Fill(spec.graph.query_of, query_of, spec.flows.size());
    Fill(spec.graph.end_of, end_of, spec.flows.size());
}

// Sets the streams that are passed on (GraphSpec), which Python has checked, after the graph and the pieces of writes.
inline void SetStreams(Spec &spec, In<int64_t> feeds, In<double> query_rate_bps)
{
    Fill(spec.graph.feeds, feeds, spec.flows.size());
    Fill(spec.graph.query_rate_bps, query_rate_bps, spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        if (const int32_t to = spec.graph.feeds[i]; to >= 0) {
            FlowSpec &fed = spec.flows[static_cast<size_t>(to)];
            const uint64_t rest = fed.every_ns == kFed ? fed.chunk_bytes : fed.size_bytes;
            fed.every_ns = kFed;
            fed.chunk_bytes = rest - spec.flows[i].size_bytes; // its host has them
        }
    }
}

// Sets FlowSpec::limited of each flow: 1 if its data, or its ACKs, are under their host's rate limit.
inline void SetLimited(Spec &spec, In<uint8_t> data, In<uint8_t> acks)
{
    SameLength(data.shape(0), spec.flows.size());
    SameLength(acks.shape(0), spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        spec.flows[i].limited[0] = data(i) != 0;
        spec.flows[i].limited[1] = acks(i) != 0;
    }
}

// Sets a member of each flow.
template <auto Member, typename T>
void SetEach(Spec &spec, In<T> values)
{
    SameLength(values.shape(0), spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        spec.flows[i].*Member = static_cast<std::decay_t<decltype(spec.flows[i].*Member)>>(values(i));
    }
}

// Sets the pieces in which applications write each flow (FlowSpec).
inline void SetWrites(Spec &spec, In<int64_t> chunk_bytes, In<int64_t> every_ns)
{
    SetEach<&FlowSpec::chunk_bytes>(spec, chunk_bytes);
    SetEach<&FlowSpec::every_ns>(spec, every_ns);
}

// Class `Spec` and those of its parts, whose fields Python sets by name.
inline void BindSpec(nb::module_ &m)
{
    using namespace nb::literals;
    nb::class_<QueueSpec>(m, "QueueSpec")
        .def(nb::init<>())
        .def_rw("buffer_bytes", &QueueSpec::buffer_bytes)
        .def_rw("threshold_bytes", &QueueSpec::threshold_bytes)
        .def_rw("red_min_bytes", &QueueSpec::red_min_bytes)
        .def_rw("red_max_bytes", &QueueSpec::red_max_bytes)
        .def_rw("red_max_prob", &QueueSpec::red_max_prob)
        .def_rw("pool", &QueueSpec::pool)
        .def_rw("control_first", &QueueSpec::control_first)
        .def_rw("mark_leaving", &QueueSpec::mark_leaving)
        .def_rw("classes", &QueueSpec::classes)
        .def_rw("shaped_frac", &QueueSpec::shaped_frac)
        .def_rw("shaped_pkts", &QueueSpec::shaped_pkts)
        .def_rw("selective_pkts", &QueueSpec::selective_pkts)
        .def_rw("programs", &QueueSpec::programs);
    nb::class_<LinkSpec>(m, "LinkSpec")
        .def(nb::init<>())
        .def_rw("a", &LinkSpec::a)
        .def_rw("b", &LinkSpec::b)
        .def_rw("rate_bps", &LinkSpec::rate_bps)
        .def_rw("delay_ns", &LinkSpec::delay_ns)
        .def_rw("queue", &LinkSpec::queue);
    nb::class_<PoolSpec>(m, "PoolSpec")
        .def(nb::init<>())
        .def_rw("size_bytes", &PoolSpec::size_bytes)
        .def_rw("alpha", &PoolSpec::alpha)
        .def_rw("red_min_bytes", &PoolSpec::red_min_bytes)
        .def_rw("red_max_bytes", &PoolSpec::red_max_bytes)
        .def_rw("red_max_prob", &PoolSpec::red_max_prob);
    nb::class_<ProgramSpec>(m, "ProgramSpec")
        .def(nb::init<>())
        .def_rw("name", &ProgramSpec::name)
        .def_rw("params", &ProgramSpec::params);
    nb::class_<StackSpec>(m, "StackSpec")
        .def(nb::init<>())
        .def_rw("transport", &StackSpec::transport)
        .def_rw("params", &StackSpec::params)
        .def_rw("min_rto_ns", &StackSpec::min_rto_ns)
        .def_rw("initial_rto_ns", &StackSpec::initial_rto_ns)
        .def_rw("initial_window_pkts", &StackSpec::initial_window_pkts);
    nb::class_<AnswerSpec>(m, "AnswerSpec")
        .def(nb::init<>())
        .def_rw("ahead_bytes", &AnswerSpec::ahead_bytes)
        .def_rw("ns_per_byte", &AnswerSpec::ns_per_byte);
    nb::class_<FrontEndSpec>(m, "FrontEndSpec")
        .def(nb::init<>())
        .def_rw("rate_bytes_per_s", &FrontEndSpec::rate_bytes_per_s)
        .def_rw("buffer_bytes", &FrontEndSpec::buffer_bytes);
    nb::class_<Spec>(m, "Spec")
        .def(nb::init<>())
        .def_rw("is_host", &Spec::is_host)
        .def_rw("links", &Spec::links)
        .def_rw("pools", &Spec::pools)
        .def_rw("programs", &Spec::programs)
        .def("set_flows", &SetFlows, "start_ns"_a, "src"_a, "dst"_a, "size_bytes"_a)
        .def("set_graph", &SetGraph, "group"_a, "after"_a, "think_ns"_a, "answer"_a)
        .def("set_queries", &SetQueries, "query_of"_a, "end_of"_a)
        .def("set_streams", &SetStreams, "feeds"_a, "query_rate_bps"_a)
        .def("set_limited", &SetLimited, "data"_a, "acks"_a)
        .def("set_writes", &SetWrites, "chunk_bytes"_a, "every_ns"_a)
        .def("set_predictors", &SetEach<&FlowSpec::predictor, int64_t>, "predictor"_a)
        .def("set_stack_of", &SetEach<&FlowSpec::stack, uint8_t>, "stack"_a)
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
        .def_rw("shaped_frac", &Spec::shaped_frac)
        .def_rw("shaped_pkts", &Spec::shaped_pkts)
        .def_rw("selective_pkts", &Spec::selective_pkts)
        .def_rw("small_queue_bytes", &Spec::small_queue_bytes)
        .def_rw("backlog", &Spec::backlog)
        .def_rw("first_write_pkts", &Spec::first_write_pkts)
        .def_rw("receivers", &Spec::receivers)
        .def_rw("hold", &Spec::hold)
        .def_rw("answers", &Spec::answers)
        .def_rw("patience_ns", &Spec::patience_ns)
        .def_rw("queue_ns", &Spec::queue_ns)
        .def_rw("instant", &Spec::instant)
        .def_rw("period_ns", &Spec::period_ns)
        .def_rw("latency_ns", &Spec::latency_ns)
        .def_rw("transport", &Spec::transport)
        .def_rw("params", &Spec::params)
        .def_rw("stacks", &Spec::stacks)
        .def_rw("order", &Spec::order)
        .def_rw("order_params", &Spec::order_params)
        .def_rw("tags", &Spec::tags)
        .def_rw("tag_params", &Spec::tag_params)
        .def_rw("front", &Spec::front)
        .def_rw("front_params", &Spec::front_params)
        .def_rw("front_ends", &Spec::front_ends)
        .def_rw("symmetric", &Spec::symmetric)
        .def_rw("sprayed", &Spec::sprayed)
        .def_rw("by_entropy", &Spec::by_entropy)
        .def_rw("seed", &Spec::seed);
}

} // namespace ncc::bind
