// SPDX-License-Identifier: BSD-3-Clause
// Python binding of a switch's decisions: the functions of step_mark.h, red.h and dynamic_threshold.h; programs of
// ports (switch.h), one at a time; and the tags of packets (flow_tag.h).
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ncc_controllers.h"

extern "C" {
#include "dynamic_threshold.h"
#include "red.h"
#include "step_mark.h"
}

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

int step_mark(ncc_u64 size_bytes, ncc_u64 mark_threshold_bytes, ncc_u64 queue_bytes, ncc_u32 packet_bytes,
              bool ecn_capable)
{
    const ncc_step_mark p{size_bytes, mark_threshold_bytes};
    return ncc_step_mark_admit(&p, queue_bytes, packet_bytes, ecn_capable);
}

int red(ncc_u64 min_bytes, ncc_u64 max_bytes, ncc_u64 max_prob, ncc_u64 queue_bytes, bool ecn_capable, ncc_u32 random)
{
    if (max_bytes <= min_bytes || max_bytes - min_bytes >= NCC_RED_ONE || max_prob > NCC_RED_ONE) {
        throw nb::value_error("max_bytes must be above min_bytes by less than 2^32, and max_prob at most RED_ONE");
    }
    const ncc_red p{min_bytes, max_bytes, max_prob};
    return ncc_red_admit(&p, queue_bytes, ecn_capable, random);
}

int dynamic_threshold(ncc_u64 private_bytes, ncc_u64 shared_bytes, ncc_u64 alpha, ncc_u64 queue_bytes,
                      ncc_u64 used_bytes, ncc_u32 packet_bytes)
{
    if (alpha < 1 || alpha > NCC_DT_ALPHA_MAX || shared_bytes > NCC_DT_SHARED_MAX_BYTES || used_bytes > shared_bytes) {
        throw nb::value_error("alpha must be from 1 to DT_ALPHA_MAX, shared_bytes at most DT_SHARED_MAX_BYTES, and "
                              "used_bytes at most shared_bytes");
    }
    const ncc_dynamic_threshold p{private_bytes, shared_bytes, alpha};
    return ncc_dynamic_threshold_admit(&p, queue_bytes, used_bytes, packet_bytes);
}

using ParamRow = std::tuple<std::string, ncc_u64, ncc_u64, ncc_u64, std::string>;

std::vector<ParamRow> params_of(const ncc_cc_param *params, ncc_u32 n)
{
    std::vector<ParamRow> rows;
    for (ncc_u32 i = 0; i < n; ++i) {
        rows.emplace_back(params[i].name, params[i].def, params[i].min, params[i].max, params[i].help);
    }
    return rows;
}

// name, summary, parameters: of the programs, or of the tags
template <typename Table>
std::vector<std::tuple<std::string, std::string, std::vector<ParamRow>>> rows_of(const Table &table)
{
    std::vector<std::tuple<std::string, std::string, std::vector<ParamRow>>> rows;
    for (const auto *ops : table) {
        rows.emplace_back(ops->name, ops->summary, params_of(ops->params, ops->n_params));
    }
    return rows;
}

// Class and rank.
std::tuple<ncc_u32, ncc_u32> tag(const std::string &name, const std::vector<ncc_u64> &params, ncc_u64 offset_bytes,
                                 ncc_u64 payload_bytes, ncc_u64 size_bytes, ncc_u64 delivered_bytes)
{
    for (const ncc_tag_ops *ops : ncc_tag_table) {
        if (name != ops->name) {
            continue;
        }
        if (params.size() != ops->n_params || payload_bytes < 1 || delivered_bytes > size_bytes) {
            throw nb::value_error("tags need all their parameters, a payload, and at most size_bytes delivered");
        }
        const ncc_tag_packet packet{offset_bytes, payload_bytes, size_bytes, delivered_bytes};
        ncc_tag_out out{};
        ops->tag(params.data(), &packet, &out);
        return {out.prio, out.rank};
    }
    throw nb::value_error(("no tags called '" + name + "' in the table").c_str());
}

// A program at a port, whose hooks are called by hand. `init` has been.
class Program
{
  public:
    Program(const std::string &name, std::vector<ncc_u64> params, ncc_u64 size_bytes, ncc_u32 mtu_bytes)
        : params_(std::move(params))
    {
        port_.size_bytes = size_bytes;
        port_.mtu_bytes = mtu_bytes;
        for (const ncc_sw_ops *ops : ncc_program_table) {
            ops_ = name == ops->name ? ops : ops_;
        }
        if (ops_ == nullptr || params_.size() != ops_->n_params) {
            throw nb::value_error(("no program '" + name + "' with so many parameters in the table").c_str());
        }
        state_.resize((ops_->state_bytes + 7) / 8);
        ops_->init(state_.data(), params_.data(), &port_, &out_);
    }

    // Verdict and rank.
    std::tuple<int, ncc_u64> enqueue(ncc_u64 queue_bytes, ncc_u32 flow, ncc_u32 flags, ncc_u32 payload_bytes,
                                     ncc_u64 rank, int verdict, ncc_u32 hops, ncc_u32 random)
    {
        ncc_sw_packet packet{flow, payload_bytes + 40, payload_bytes, flags, hops, 0, rank, 0, 0};
        out_ = {static_cast<ncc_verdict>(verdict), 0, {}, NCC_SW_AS_IT_WAS, {}};
        port_.random = random;
        port_.queue_bytes = queue_bytes;
        ops_->enqueue(state_.data(), params_.data(), &port_, &packet, &out_);
        return {out_.verdict, packet.rank};
    }
    // Verdict.
    int dequeue(ncc_u64 queue_bytes, ncc_u32 flags, ncc_u32 payload_bytes, ncc_u64 now_ns, ncc_u64 queued_ns)
    {
        ncc_sw_packet packet{0, payload_bytes + 40, payload_bytes, flags, 1, 0, 0, 0, queued_ns};
        out_ = {NCC_PASS, 0, {}, NCC_SW_AS_IT_WAS, {}};
        port_.queue_bytes = queue_bytes;
        port_.now_ns = now_ns;
        ops_->dequeue(state_.data(), params_.data(), &port_, &packet, &out_);
        return out_.verdict;
    }
    // The window that it leaves.
    ncc_u64 reverse(ncc_u64 queue_bytes, ncc_u32 flow, ncc_u32 flags, ncc_u64 window_bytes)
    {
        ncc_sw_packet packet{flow, 40, 0, flags, 1, 0, 0, window_bytes, 0};
        out_ = {NCC_PASS, 0, {}, NCC_SW_AS_IT_WAS, {}};
        port_.queue_bytes = queue_bytes;
        ops_->reverse(state_.data(), params_.data(), &port_, &packet, &out_);
        return packet.window_bytes;
    }
    // Kind and value.
    std::tuple<ncc_u32, ncc_u32> signal() const { return {out_.signal.kind, out_.signal.value}; }
    // The way of `ways`, in a switch of its own.
    ncc_u32 route(ncc_u64 now_ns, ncc_u32 ways, ncc_u32 flow, ncc_u32 flags, ncc_u32 random)
    {
        if (ops_->route == nullptr || ways < 2) {
            throw nb::value_error((std::string(ops_->name) + " chooses no ways, or there is one alone").c_str());
        }
        node_.resize((ops_->node_bytes + 7) / 8);
        const ncc_sw_packet packet{flow, 1500, 1460, flags, 1, 0, 0, 0, 0};
        const ncc_sw_ways seen{now_ns, ways, random};
        return ops_->route(node_.data(), params_.data(), &seen, &packet);
    }
    // The queue that a packet joins.
    ncc_u32 classify(ncc_u32 flow, ncc_u32 flags, ncc_u32 prio)
    {
        const ncc_sw_packet packet{flow, 1500, 1460, flags, 1, prio, 0, 0, 0};
        return ops_->classify(state_.data(), params_.data(), &packet);
    }
    // The queue that sends, where `queues` has the packets of each that is not empty, by number, in bytes.
    ncc_u32 next(const std::map<ncc_u32, std::vector<ncc_u32>> &queues)
    {
        std::vector<ncc_sw_queue> of(ops_->queues);
        for (const auto &[queue, packets] : queues) {
            of.at(queue) = {std::accumulate(packets.begin(), packets.end(), ncc_u64{0}), packets.at(0)};
        }
        return ops_->next(state_.data(), params_.data(), of.data());
    }
    // When it is to be called again, in ns from now.
    ncc_u64 timer(ncc_u64 queue_bytes)
    {
        out_ = {NCC_PASS, 0, {}, NCC_SW_AS_IT_WAS, {}};
        port_.queue_bytes = queue_bytes;
        ops_->timer(state_.data(), params_.data(), &port_, &out_);
        return out_.timer_ns;
    }
    // NCC_SW_PAUSE, NCC_SW_RESUME, or NCC_SW_AS_IT_WAS.
    int ingress(ncc_u64 ingress_bytes)
    {
        out_ = {NCC_PASS, 0, {}, NCC_SW_AS_IT_WAS, {}};
        port_.ingress_bytes = ingress_bytes;
        ops_->ingress(state_.data(), params_.data(), &port_, &out_);
        return out_.pause;
    }

  private:
    const ncc_sw_ops *ops_ = nullptr;
    std::vector<ncc_u64> params_;
    ncc_sw_port port_{};
    ncc_sw_out out_{};
    std::vector<ncc_u64> state_, node_;
};

} // namespace

void bind_switch(nb::module_ &m)
{
    m.attr("SYN_ACK") = static_cast<int>(NCC_SW_SYN_ACK);
    m.attr("FIN") = static_cast<int>(NCC_SW_FIN);
    m.attr("ECT") = static_cast<int>(NCC_SW_ECT);
    m.attr("HAS_WINDOW") = static_cast<int>(NCC_SW_HAS_WINDOW);
    m.attr("PAUSE") = static_cast<int>(NCC_SW_PAUSE);
    m.attr("RESUME") = static_cast<int>(NCC_SW_RESUME);
    m.def("programs", [] { return rows_of(ncc_program_table); });
    m.def("tags", [] { return rows_of(ncc_tag_table); });
    m.def("tag", &tag, "name"_a, "params"_a, nb::kw_only(), "offset_bytes"_a, "payload_bytes"_a, "size_bytes"_a,
          "delivered_bytes"_a);
    nb::class_<Program>(m, "Program")
        .def(nb::init<const std::string &, std::vector<ncc_u64>, ncc_u64, ncc_u32>(), "name"_a, "params"_a,
             nb::kw_only(), "size_bytes"_a, "mtu_bytes"_a)
        .def("enqueue", &Program::enqueue, nb::kw_only(), "queue_bytes"_a = 0, "flow"_a = 0, "flags"_a = 0,
             "payload_bytes"_a = 1460, "rank"_a = 0, "verdict"_a = 0, "hops"_a = 1, "random"_a = 0)
        .def("dequeue", &Program::dequeue, nb::kw_only(), "queue_bytes"_a = 0, "flags"_a = 0, "payload_bytes"_a = 1460,
             "now_ns"_a = 0, "queued_ns"_a = 0)
        .def_prop_ro("signal", &Program::signal)
        .def("reverse", &Program::reverse, nb::kw_only(), "queue_bytes"_a = 0, "flow"_a = 0, "flags"_a = 0,
             "window_bytes"_a = 0)
        .def("route", &Program::route, nb::kw_only(), "now_ns"_a, "ways"_a, "flow"_a = 0, "flags"_a = 1, "random"_a = 0)
        .def("classify", &Program::classify, nb::kw_only(), "flow"_a = 0, "flags"_a = 1, "prio"_a = 0)
        .def("next", &Program::next, "queues"_a)
        .def("timer", &Program::timer, nb::kw_only(), "queue_bytes"_a)
        .def("ingress", &Program::ingress, nb::kw_only(), "ingress_bytes"_a);
    m.attr("PASS") = static_cast<int>(NCC_PASS);
    m.attr("MARK") = static_cast<int>(NCC_MARK);
    m.attr("TRIM") = static_cast<int>(NCC_TRIM);
    m.attr("DROP") = static_cast<int>(NCC_DROP);
    m.attr("RED_ONE") = NCC_RED_ONE;
    m.attr("DT_ALPHA_ONE") = NCC_DT_ALPHA_ONE;
    m.attr("DT_ALPHA_MAX") = NCC_DT_ALPHA_MAX;
    m.attr("DT_SHARED_MAX_BYTES") = NCC_DT_SHARED_MAX_BYTES;
    m.def("step_mark", &step_mark, nb::kw_only(), "size_bytes"_a, "mark_threshold_bytes"_a, "queue_bytes"_a,
          "packet_bytes"_a, "ecn_capable"_a);
    m.def("red", &red, nb::kw_only(), "min_bytes"_a, "max_bytes"_a, "max_prob"_a, "queue_bytes"_a, "ecn_capable"_a,
          "random"_a);
    m.def("dynamic_threshold", &dynamic_threshold, nb::kw_only(), "private_bytes"_a, "shared_bytes"_a, "alpha"_a,
          "queue_bytes"_a, "used_bytes"_a, "packet_bytes"_a);
}
