// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of a run's description (spec.h), which the simulators' extension modules share.
// ncc/envs/native/spec.py uses it.
#pragma once

#include "order.h"
#include "programs.h"
#include "spec.h"
#include "tags.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
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

// `ends` [n, 2]; `queues` [n, 2, 9]: buffer, threshold, RED min, RED max, pool, control first, mark leaving, classes,
// programs, as QueueSpec has them; `red_max_prob` [n, 2].
inline void SetLinks(Spec &spec, Rows<const int64_t> ends, In<double> rate_bps, In<int64_t> delay_ns,
                     Rows<const int64_t, 3> queues, Rows<const double> red_max_prob)
{
    const size_t n = ends.shape(0);
    SameLength(rate_bps.shape(0), n);
    SameLength(delay_ns.shape(0), n);
    SameLength(queues.shape(0), n);
    SameLength(red_max_prob.shape(0), n);
    if (ends.shape(1) != 2 || queues.shape(1) != 2 || queues.shape(2) != 9 || red_max_prob.shape(1) != 2) {
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
        q.classes = static_cast<int32_t>(queues(link, i, 7));
        q.programs = static_cast<int32_t>(queues(link, i, 8));
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

// Of each list of programs, in order: names and parameters.
using ProgramRows = std::vector<std::vector<std::pair<std::string, std::vector<std::pair<std::string, uint64_t>>>>>;
inline void SetPrograms(Spec &spec, const ProgramRows &programs)
{
    spec.programs.clear();
    for (const auto &list : programs) {
        spec.programs.emplace_back();
        for (const auto &[name, params] : list) {
            spec.programs.back().push_back({name, params});
        }
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

// Class `Spec`, and the functions of which every module has one.
inline void BindSpec(nb::module_ &m)
{
    nb::class_<Spec>(m, "Spec")
        .def(nb::init<>())
        .def("set_nodes", &SetNodes, "is_host"_a)
        .def("set_links", &SetLinks, "ends"_a, "rate_bps"_a, "delay_ns"_a, "queues"_a, "red_max_prob"_a)
        .def("set_pools", &SetPools, "size_bytes"_a, "alpha"_a, "red_min_bytes"_a, "red_max_bytes"_a, "red_max_prob"_a)
        .def("set_programs", &SetPrograms, "programs"_a)
        .def("set_flows", &SetFlows, "start_ns"_a, "src"_a, "dst"_a, "size_bytes"_a)
        .def("set_limited", &SetLimited, "data"_a, "acks"_a)
        .def("set_held", &SetHeld, "held"_a)
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
        .def_rw("tags", &Spec::tags)
        .def_rw("tag_params", &Spec::tag_params)
        .def_rw("symmetric", &Spec::symmetric)
        .def_rw("seed", &Spec::seed);
    m.def("bad_limit", &BadLimit, "limits_bps"_a);
    m.def("orders", &OrderNames);
    m.def("order_params", &OrderParamRows, "order"_a);
    m.def("tags", &TagNames);
    m.def("tag_params", &TagParamRows, "tags"_a);
    m.def("programs", &ProgramNames);
    m.def("program_params", &ProgramParamRows, "program"_a);
    m.def("program_needs", &ProgramNeeds, "program"_a);
    m.attr("PROGRAM_RANKED") = static_cast<uint32_t>(NCC_SW_RANKED);
    m.attr("PROGRAM_SYMMETRIC") = static_cast<uint32_t>(NCC_SW_SYMMETRIC);
    m.attr("PROGRAM_COUNTS") = static_cast<uint32_t>(NCC_SW_COUNTS);
}

} // namespace ncc::bind
