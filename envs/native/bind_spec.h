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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
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

// Sets the graph of requests (GraphSpec), which Python has checked.
inline void SetGraph(Spec &spec, In<int64_t> group, In<int64_t> after, In<int64_t> think_ns, In<uint8_t> answer)
{
    for (const size_t length : {group.shape(0), after.shape(0), think_ns.shape(0), answer.shape(0)}) {
        SameLength(length, spec.flows.size());
    }
    const auto flows = static_cast<int64_t>(spec.flows.size());
    spec.graph = {};
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        if (std::min(group(i), after(i)) < -1 || std::max(group(i), after(i)) >= flows) {
            throw std::invalid_argument("flow " + std::to_string(i) +
                                        " must name groups from -1 to the number of flows");
        }
        spec.graph.group.push_back(static_cast<int32_t>(group(i)));
        spec.graph.after.push_back(static_cast<int32_t>(after(i)));
        spec.graph.think_ns.push_back(think_ns(i));
        spec.graph.answer.push_back(answer(i));
    }
}

// Sets the columns of a graph that front ends need (GraphSpec), after the graph and the front ends.
inline void SetQueries(Spec &spec, In<int64_t> query_of, In<int64_t> end_of)
{
    const auto flows = static_cast<int64_t>(spec.graph.group.size());
    const auto ends = static_cast<int64_t>(spec.front_ends.size());
    SameLength(query_of.shape(0), spec.graph.group.size());
    SameLength(end_of.shape(0), spec.graph.group.size());
    spec.graph.query_of.clear();
    spec.graph.end_of.clear();
    for (size_t i = 0; i < query_of.shape(0); ++i) {
        if (query_of(i) < -1 || query_of(i) >= flows || end_of(i) < -1 || end_of(i) >= ends ||
            (query_of(i) >= 0 && end_of(static_cast<size_t>(query_of(i))) < 0)) {
            throw std::invalid_argument("flow " + std::to_string(i) + " must answer a query of a front end, or none");
        }
        spec.graph.query_of.push_back(static_cast<int32_t>(query_of(i)));
        spec.graph.end_of.push_back(static_cast<int32_t>(end_of(i)));
    }
}

// Sets the streams that are passed on (GraphSpec), which Python has checked, after the graph and the pieces of writes.
inline void SetStreams(Spec &spec, In<int64_t> feeds, In<double> query_rate_bps)
{
    const size_t n = spec.graph.group.size();
    SameLength(feeds.shape(0), n);
    SameLength(query_rate_bps.shape(0), n);
    std::vector<uint64_t> fed_bytes(n);
    spec.graph.feeds.clear();
    spec.graph.query_rate_bps.clear();
    for (size_t i = 0; i < n; ++i) {
        const int64_t to = feeds(i);
        if (to < -1 || to >= static_cast<int64_t>(n) || !(query_rate_bps(i) >= 0)) {
            throw std::invalid_argument("flow " + std::to_string(i) +
                                        " must feed a flow or none (-1), at no negative rate");
        }
        if (to >= 0) {
            FlowSpec &flow = spec.flows[static_cast<size_t>(to)];
            fed_bytes[static_cast<size_t>(to)] += spec.flows[i].size_bytes;
            if (fed_bytes[static_cast<size_t>(to)] > flow.size_bytes) {
                throw std::invalid_argument("flow " + std::to_string(to) + " is fed more bytes than it has");
            }
            flow.every_ns = kFed;
            flow.chunk_bytes = flow.size_bytes - fed_bytes[static_cast<size_t>(to)]; // its host has them
        }
        spec.graph.feeds.push_back(static_cast<int32_t>(to));
        spec.graph.query_rate_bps.push_back(query_rate_bps(i));
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

// Sets the pieces in which applications write each flow (FlowSpec).
inline void SetWrites(Spec &spec, In<int64_t> chunk_bytes, In<int64_t> every_ns)
{
    SameLength(chunk_bytes.shape(0), spec.flows.size());
    SameLength(every_ns.shape(0), spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        spec.flows[i].chunk_bytes = static_cast<uint64_t>(chunk_bytes(i));
        spec.flows[i].every_ns = every_ns(i);
    }
}

// Sets the predictor of each flow, numbered from 0.
inline void SetPredictors(Spec &spec, In<int64_t> predictor)
{
    SameLength(predictor.shape(0), spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        spec.flows[i].predictor = static_cast<uint32_t>(predictor(i));
    }
}

// Sets the stack of each flow: 0, or 1 + its index in Spec::stacks.
inline void SetStackOf(Spec &spec, In<uint8_t> stack)
{
    SameLength(stack.shape(0), spec.flows.size());
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        spec.flows[i].stack = stack(i);
    }
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
        .def("set_predictors", &SetPredictors, "predictor"_a)
        .def("set_stack_of", &SetStackOf, "stack"_a)
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
