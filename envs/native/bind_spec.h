// SPDX-License-Identifier: BSD-3-Clause
// Python bindings that the simulators' extension modules share: the parts of a Spec, from plain arrays.
#pragma once

#include "predictor.h"
#include "spec.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
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

// Lists of programs; each program is a name and its parameters.
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

// Rows of stacks: transport, its parameters, minimum and initial RTO in ns, initial window in packets.
using StackRows =
    std::vector<std::tuple<std::string, std::vector<std::pair<std::string, uint64_t>>, int64_t, int64_t, uint32_t>>;
inline void SetStacks(Spec &spec, const StackRows &stacks, In<uint8_t> of)
{
    SameLength(of.shape(0), spec.flows.size());
    spec.stacks.clear();
    for (const auto &[transport, params, min_rto_ns, initial_rto_ns, initial_window_pkts] : stacks) {
        spec.stacks.push_back({transport, params, min_rto_ns, initial_rto_ns, initial_window_pkts});
    }
    for (size_t i = 0; i < spec.flows.size(); ++i) {
        if (of(i) > stacks.size()) {
            throw std::invalid_argument("flow " + std::to_string(i) + " has a stack that is not one of " +
                                        std::to_string(stacks.size() + 1));
        }
        spec.flows[i].stack = of(i);
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

// How the receiver at each node answers SYNs of held flows, as AnswerSpec has it.
inline void SetAnswers(Spec &spec, In<double> ahead_bytes, In<double> ns_per_byte)
{
    SameLength(ahead_bytes.shape(0), spec.is_host.size());
    SameLength(ns_per_byte.shape(0), spec.is_host.size());
    spec.answers.clear();
    for (size_t node = 0; node < spec.is_host.size(); ++node) {
        spec.answers.push_back({ahead_bytes(node), ns_per_byte(node)});
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

// For tests: Predictor::BeyondBytes at each of some ages, after these sizes.
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

} // namespace ncc::bind
