// SPDX-License-Identifier: BSD-3-Clause
// Module ncc.harness.native._local: the formula LOCAL and the receiver rule.
#include "local.h"
#include "receivers.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

template <typename T, int Dimensions>
using In = nb::ndarray<const T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Fills `limits` [networks, hosts] in bits/s for the hosts of neighbourhood `number`.
// constants: [networks or 1] each, by their names in `Formula`.
// own: [3, networks, hosts] keys in bytes, periods for which hosts have been busy, and 1 for busy hosts.
// messages: [networks, listeners or 1, kMessageRows, hosts] in bits/s and bytes; queue: [networks, listeners or 1,
// neighbourhoods]
void Limits(const nb::dict &constants, size_t number, In<int64_t, 1> hosts, In<double, 1> link_bps, double uplink_bps,
            double period_s, int64_t turns, In<double, 3> own, In<double, 4> messages, In<double, 3> queue, Out limits)
{
    const size_t networks = limits.shape(0), n = limits.shape(1), near = hosts.size();
    const size_t listeners = messages.shape(1), areas = queue.shape(2);
    if (own.shape(0) != 3 || own.shape(1) != networks || own.shape(2) != n || messages.shape(0) != networks ||
        messages.shape(2) != ncc::kMessageRows || messages.shape(3) != n || queue.shape(0) != networks ||
        queue.shape(1) != listeners || (listeners != 1 && listeners != n) || number >= areas ||
        link_bps.size() != near) {
        throw std::invalid_argument("states of hosts have the wrong shapes");
    }
    const ncc::LocalArea area{near, hosts.data(), link_bps.data(), uplink_bps};
    for (size_t r = 0; r < networks; ++r) {
        const auto formula = ncc::Formula<double>::Of([&](const char *name) {
            const auto each = nb::cast<In<double, 1>>(constants[name]);
            return each.data()[each.size() == 1 ? 0 : r];
        });
        const auto listener = [&](size_t host) { return r * listeners + (listeners == 1 ? 0 : host); };
        ncc::LocalLimits(
            formula, area, period_s, turns,
            [&](size_t row, size_t host) { return own.data()[(row * networks + r) * n + host]; },
            [&](size_t host, int row, size_t other) {
                return messages.data()[(listener(host) * ncc::kMessageRows + static_cast<size_t>(row)) * n + other];
            },
            [&](size_t host) { return queue.data()[listener(host) * areas + number]; }, limits.data() + r * n);
    }
}

// Fills `claims` with the rates that hosts may need; all arrays have shape [n].
void Claims(In<double, 1> sent, In<double, 1> limit, In<double, 1> link, nb::ndarray<double, nb::ndim<1>> claims)
{
    for (size_t k = 0; k < claims.size(); ++k) {
        claims.data()[k] = ncc::Claim(sent.data()[k], limit.data()[k], link.data()[k]);
    }
}

ncc::ReceiverSettings SettingsOf(const nb::dict &from)
{
    const auto real = [&](const char *name) { return nb::cast<double>(from[name]); };
    const auto reals = [&](const char *name) { return nb::cast<std::vector<double>>(from[name]); };
    return {real("ahead_frac"),    real("window_frac"),     real("floor_frac"),
            real("headroom_frac"), real("tolerance_s"),     nb::cast<bool>(from["by_arrival"]),
            real("period_s"),      real("next_grant_s"),    real("mss_bytes"),
            real("extra_bytes"),   real("mtu_bytes"),       real("full_frac"),
            real("full_gain"),     real("settled_periods"), real("behind_bytes"),
            reals("link_bps"),     reals("rate_bps"),       reals("buffer_bytes")};
}

// Columns of grants: sender, receiver, start in s, rate in bits/s, window in packets.
using Granted = std::tuple<std::vector<int64_t>, std::vector<int64_t>, std::vector<double>, std::vector<double>,
                           std::vector<int64_t>>;

// Columns of pairs, all [n], as in `Edges`.
Granted Decide(ncc::ReceiverRule &rule, In<int64_t, 1> src, In<int64_t, 1> dst, In<int64_t, 1> flows,
               In<double, 1> waiting, In<double, 1> next, In<double, 1> received, In<double, 1> age_s, double now_s)
{
    std::vector<ncc::Pair> pairs;
    for (size_t i = 0; i < src.size(); ++i) {
        pairs.push_back({src.data()[i], dst.data()[i], flows.data()[i], waiting.data()[i], next.data()[i],
                         received.data()[i], age_s.data()[i]});
    }
    Granted columns;
    auto &[to, from, start_s, rate_bps, window_pkts] = columns;
    for (const ncc::PairGrant &grant : rule.Decide(pairs, now_s)) {
        to.push_back(grant.src), from.push_back(grant.dst);
        start_s.push_back(grant.start_s), rate_bps.push_back(grant.rate_bps);
        window_pkts.push_back(grant.window_pkts);
    }
    return columns;
}

} // namespace

NB_MODULE(_local, m)
{
    m.def("limits", &Limits, "constants"_a, nb::kw_only(), "number"_a, "hosts"_a, "link_bps"_a, "uplink_bps"_a,
          "period_s"_a, "turns"_a, "own"_a, "messages"_a, "queue"_a, "limits"_a.noconvert());
    nb::class_<ncc::ReceiverRule>(m, "ReceiverRule")
        .def(
            "__init__",
            [](ncc::ReceiverRule *made, const nb::dict &settings) {
                new (made) ncc::ReceiverRule(SettingsOf(settings));
            },
            "settings"_a)
        .def("decide", &Decide, "src"_a, "dst"_a, "flows"_a, "waiting_bytes"_a, "next_bytes"_a, "received_bytes"_a,
             "age_s"_a, "now_s"_a);
    m.def("claims", &Claims, "sent"_a, "limit"_a, "link"_a, "claims"_a.noconvert());
}
