// SPDX-License-Identifier: BSD-3-Clause
// Python module `ncc.baselines._baselines`: the tables of controllers, message transports, programs, orders, tags and
// front ends, and one connection run by a controller.
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ncc_controllers.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

enum Kind : ncc_u8 { kAck = 0, kLoss = 1, kTimeout = 2, kRestart = 3, kTimer = 4 };

using Out = std::tuple<ncc_u64, ncc_u64, ncc_u64>;
using Hops = std::vector<std::tuple<ncc_u64, ncc_u64, ncc_u64, ncc_u64>>; // rate, queue, sent, time: ncc_cc_hop

const ncc_cc_ops &find(const std::string &name)
{
    for (const ncc_cc_ops *ops : ncc_cc_table) {
        if (name == ops->name)
            return *ops;
    }
    throw nb::value_error(("no controller called '" + name + "' in the table").c_str());
}

class Connection
{
  public:
    Connection(const std::string &name, ncc_u32 mss_bytes, ncc_u32 init_cwnd_bytes, std::vector<ncc_u64> params,
               ncc_u64 line_bytes_per_s)
        : ops_(find(name)), params_(std::move(params)), conn_{mss_bytes, init_cwnd_bytes, line_bytes_per_s}
    {
        if (mss_bytes < 1 || init_cwnd_bytes < mss_bytes) {
            throw nb::value_error("mss_bytes must be at least 1 and init_cwnd_bytes at least mss_bytes");
        }
        ops_.init(state_, params_.data(), &conn_, &out_);
    }

    Out handle(Kind kind, const ncc_cc_event &event)
    {
        decltype(ops_.on_ack)
            const operations[] = {ops_.on_ack, ops_.on_loss, ops_.on_timeout, ops_.on_restart, ops_.on_timer};
        out_.timer_ns = 0;
        operations[kind](state_, params_.data(), &conn_, &event, &out_);
        return out();
    }

    Out signal(ncc_u32 kind, ncc_u32 value, ncc_u64 now_ns, ncc_u64 srtt_ns)
    {
        require(ops_.on_signal != nullptr, "on_signal");
        const ncc_cc_signal signal{kind, value};
        ncc_cc_event event{};
        event.now_ns = now_ns;
        event.srtt_ns = srtt_ns;
        out_.timer_ns = 0;
        ops_.on_signal(state_, params_.data(), &conn_, &event, &signal, &out_);
        return out();
    }
    // In the event, only the time is set.
    Out timer(ncc_u64 now_ns)
    {
        require(ops_.on_timer != nullptr, "on_timer");
        ncc_cc_event event{};
        event.now_ns = now_ns;
        return handle(kTimer, event);
    }
    ncc_u64 timer_ns() const { return out_.timer_ns; }

    Out out() const { return {out_.cwnd_bytes, out_.ssthresh_bytes, out_.pacing_bytes_per_s}; }
    nb::bytes state() const { return nb::bytes(state_, ops_.state_bytes); }

  private:
    void require(bool has, const char *handler) const
    {
        if (!has) {
            throw nb::value_error((std::string(ops_.name) + " has no " + handler).c_str());
        }
    }

    const ncc_cc_ops &ops_;
    std::vector<ncc_u64> params_;
    ncc_cc_conn conn_;
    ncc_cc_out out_{};
    alignas(8) unsigned char state_[NCC_CC_SIM_STATE_MAX]{};
};

template <Kind kind>
Out on_event(Connection &self, ncc_u64 now_ns, ncc_u64 rtt_ns, ncc_u64 min_rtt_ns, ncc_u64 srtt_ns,
             ncc_u64 delivered_bytes, ncc_u64 acked_bytes, ncc_u64 inflight_bytes, ncc_u64 una_bytes, ncc_u64 nxt_bytes,
             ncc_u32 flags, ncc_u64 total_delivered_bytes, ncc_u64 prior_delivered_bytes, ncc_u64 interval_ns,
             ncc_u64 lost_bytes, ncc_u32 idle_rtos, const Hops &hops)
{
    ncc_cc_hop written[NCC_CC_HOPS_MAX];
    if (hops.size() > NCC_CC_HOPS_MAX) {
        throw nb::value_error("hops must be of at most 8 ports");
    }
    for (size_t i = 0; i < hops.size(); ++i) {
        const auto &[rate, queue, sent, at] = hops[i];
        written[i] = {rate, queue, sent, at};
    }
    return self.handle(kind, {now_ns, rtt_ns, min_rtt_ns, srtt_ns, delivered_bytes, acked_bytes, inflight_bytes,
                              una_bytes, nxt_bytes, flags, idle_rtos, total_delivered_bytes, prior_delivered_bytes,
                              interval_ns, lost_bytes, written, static_cast<ncc_u32>(hops.size())});
}

template <Kind kind>
void bind_event(nb::class_<Connection> &type, const char *name)
{
    type.def(name, &on_event<kind>, nb::kw_only(), "now_ns"_a = 0, "rtt_ns"_a = 0, "min_rtt_ns"_a = 0, "srtt_ns"_a = 0,
             "delivered_bytes"_a = 0, "acked_bytes"_a = 0, "inflight_bytes"_a = 0, "una_bytes"_a = 0, "nxt_bytes"_a = 0,
             "flags"_a = 0, "total_delivered_bytes"_a = 0, "prior_delivered_bytes"_a = 0, "interval_ns"_a = 0,
             "lost_bytes"_a = 0, "idle_rtos"_a = 0, "hops"_a = Hops{});
}

using Param = std::tuple<std::string, ncc_u64, ncc_u64, ncc_u64, std::string>; // name, default, min, max, help
using Controller = std::tuple<std::string, std::string, int, ncc_u32, ncc_u32, std::vector<Param>>;

std::vector<Param> params_of(const ncc_cc_param *params, ncc_u32 n)
{
    std::vector<Param> rows;
    for (ncc_u32 i = 0; i < n; ++i) {
        rows.emplace_back(params[i].name, params[i].def, params[i].min, params[i].max, params[i].help);
    }
    return rows;
}

// name, summary, ecn, needs, state_bytes, parameters
std::vector<Controller> controllers()
{
    std::vector<Controller> rows;
    for (const ncc_cc_ops *ops : ncc_cc_table) {
        rows.emplace_back(ops->name, ops->summary, static_cast<int>(ops->ecn), ops->needs, ops->state_bytes,
                          params_of(ops->params, ops->n_params));
    }
    return rows;
}

// name, summary, needs, parameters: of message transports
std::vector<std::tuple<std::string, std::string, ncc_u32, std::vector<Param>>> transports()
{
    std::vector<std::tuple<std::string, std::string, ncc_u32, std::vector<Param>>> rows;
    for (const ncc_tp_ops *ops : ncc_tp_table) {
        rows.emplace_back(ops->name, ops->summary, ops->needs, params_of(ops->params, ops->n_params));
    }
    return rows;
}

// name, parameters: of programs, orders, tags or front ends
template <typename Table>
std::vector<std::tuple<std::string, std::vector<Param>>> rows_of(const Table &table)
{
    std::vector<std::tuple<std::string, std::vector<Param>>> rows;
    for (const auto *ops : table) {
        rows.emplace_back(ops->name, params_of(ops->params, ops->n_params));
    }
    return rows;
}

} // namespace

NB_MODULE(_baselines, m)
{
    m.def("controllers", &controllers);
    m.def("programs", [] { return rows_of(ncc_program_table); });
    m.def("orders", [] { return rows_of(ncc_order_table); });
    m.def("tags", [] { return rows_of(ncc_tag_table); });
    m.def("fronts", [] { return rows_of(ncc_front_table); });
    m.def("transports", &transports);
    m.def("program_needs", [] {
        nb::dict needs;
        for (const ncc_sw_ops *ops : ncc_program_table) {
            needs[ops->name] = ops->needs;
        }
        return needs;
    });
    m.attr("PROGRAM_OWNS_QUEUE") = static_cast<ncc_u32>(NCC_SW_RANKED | NCC_SW_TRIMS | NCC_SW_QUEUES);
    m.attr("PROGRAM_CHOOSES_NEXT") = static_cast<ncc_u32>(NCC_SW_RANKED | NCC_SW_QUEUES);
    m.attr("PROGRAM_SYMMETRIC") = static_cast<ncc_u32>(NCC_SW_SYMMETRIC);
    m.attr("PROGRAM_COUNTS") = static_cast<ncc_u32>(NCC_SW_COUNTS);
    m.attr("PROGRAM_ROUTES") = static_cast<ncc_u32>(NCC_SW_ROUTE);
    m.attr("PROGRAM_TRIMS") = static_cast<ncc_u32>(NCC_SW_TRIMS);
    m.attr("PROGRAM_RANKED") = static_cast<ncc_u32>(NCC_SW_RANKED);
    m.attr("PROGRAM_TELEMETRY") = static_cast<ncc_u32>(NCC_SW_TELEMETRY);
    m.attr("PROGRAM_TAGS") = static_cast<ncc_u32>(NCC_SW_TAGS);
    m.attr("TAG_LEAVES") = NCC_SW_LEAVES;
    m.attr("TAG_WAYS") = NCC_SW_WAYS;
    m.attr("PROGRAM_PAUSES") = static_cast<ncc_u32>(NCC_SW_INGRESS);
    m.attr("PROGRAM_KERNEL") = static_cast<ncc_u32>(NCC_SW_KERNEL);
    m.attr("PAUSE_BYTES") = NCC_SW_PAUSE_BYTES;
    m.attr("STATE_MAX") = NCC_CC_STATE_MAX;
    m.attr("SIM_STATE_MAX") = NCC_CC_SIM_STATE_MAX;
    m.attr("QCN") = static_cast<int>(NCC_CC_QCN);
    m.attr("CWND_MAX_BYTES") = NCC_CC_CWND_MAX;
    m.attr("ECE") = static_cast<int>(NCC_CC_ACK_ECE);
    m.attr("IN_RECOVERY") = static_cast<int>(NCC_CC_ACK_IN_RECOVERY);
    m.attr("APP_LIMITED") = static_cast<int>(NCC_CC_ACK_APP_LIMITED);
    m.attr("RATE_APP_LIMITED") = static_cast<int>(NCC_CC_ACK_RATE_APP_LIMITED);
    nb::class_<Connection> connection(m, "Connection");
    connection
        .def(nb::init<const std::string &, ncc_u32, ncc_u32, std::vector<ncc_u64>, ncc_u64>(), "name"_a, "mss_bytes"_a,
             "init_cwnd_bytes"_a, "params"_a, "line_bytes_per_s"_a = 0)
        .def("on_signal", &Connection::signal, "kind"_a, "value"_a, "now_ns"_a = 0, "srtt_ns"_a = 0)
        .def("on_timer", &Connection::timer, "now_ns"_a)
        .def_prop_ro("timer_ns", &Connection::timer_ns)
        .def_prop_ro("out", &Connection::out)
        .def_prop_ro("state", &Connection::state);
    bind_event<kAck>(connection, "on_ack");
    bind_event<kLoss>(connection, "on_loss");
    bind_event<kTimeout>(connection, "on_timeout");
    bind_event<kRestart>(connection, "on_restart");
}
