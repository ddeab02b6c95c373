// SPDX-License-Identifier: BSD-3-Clause
// Two passes per period over all connections: one reads reports from the map that the kernel writes, the other computes
// signals (ncc/core/signals.py).
#include "reports.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

using ncc::Counts;
using ncc::HostColumns;
using ncc::HostSums;
using ncc::Report;
using ncc::Reports;
using ncc::UplinkColumns;

using ncc::Column;
using ncc::Flows;
using Table = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Counters = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>; // [ports, kPortCounters]

// Updates a flow by its sender's counts since it began. Older counts change nothing, and none exceeds the flow's size.
void Update(const Flows &flows, size_t row, int64_t known, int64_t delivered, int64_t left, double rtt_sum_s,
            int64_t rtt_samples)
{
    const int64_t size = flows.size(row);
    auto &so_far = flows.delivered(row);
    so_far = std::max(so_far, std::min(delivered, size));
    flows.left(row) = std::max({flows.left(row), std::min(left, size), so_far});
    flows.known(row) = std::max({flows.known(row), std::min(known, size), flows.left(row)});
    if (rtt_samples > flows.rtt_samples(row)) {
        flows.rtt_samples(row) = rtt_samples;
        flows.rtt_sum_s(row) = rtt_sum_s;
    }
}

// Does the same for some flows; all columns have the length of `rows`.
void UpdateAll(const Flows &flows, Column<const int64_t> rows, Column<const int64_t> known,
               Column<const int64_t> delivered, Column<const int64_t> left, Column<const double> rtt_sum_s,
               Column<const int64_t> rtt_samples)
{
    for (size_t i = 0; i < rows.shape(0); ++i) {
        Update(flows, static_cast<size_t>(rows(i)), known(i), delivered(i), left(i), rtt_sum_s(i), rtt_samples(i));
    }
}

// Writes index, generation and row of the flow (-1: no flow of the run) of every slot in use among the first `used`.
// Returns the number of these slots, and the results of `Reports::Each`.
std::tuple<size_t, std::vector<int64_t>, size_t> Collect(const Reports &reports, size_t used, const Flows &flows,
                                                         Column<int64_t> slots, Column<uint32_t> generations,
                                                         Column<int64_t> rows)
{
    size_t n = 0;
    auto [ended, torn] = reports.Each(used, [&](size_t slot, const Report &report) {
        const bool known = report.flow > 0 && static_cast<size_t>(report.flow) <= flows.size.shape(0);
        slots(n) = static_cast<int64_t>(slot);
        generations(n) = static_cast<uint32_t>(report.generation);
        rows(n) = known ? report.flow - 1 : -1;
        ++n;
        if (known) {
            const int64_t left = report.sent_bytes - report.retrans_bytes;
            Update(flows, static_cast<size_t>(report.flow) - 1, left + report.unsent_bytes, report.delivered_bytes,
                   left, static_cast<double>(report.rtt_sum_ns) * 1e-9, report.rtt_samples);
        }
    });
    return {n, std::move(ended), torn};
}

// Columns of a port's counters: `PORT_COUNTERS` of measure.py.
enum PortCounter { kTxPkts, kTxBytes, kMarked, kDropped, kQueueBytes, kByteNs, kPktNs, kPortCounters };

// The periods of one run: signals of hosts and uplinks between two calls of `End`.
class Epochs
{
  public:
    // Takes the columns of one run. `agent` is the row of a flow's agent, or the number of agents if no agent sends it.
    // `order` are the rows of flows in order of their start. `start_s` and `order` are read when a flow has arrived.
    // `live` has room for all flows. `rtt_s` holds each host's RTT until its first sample arrives.
    Epochs(Flows flows, Column<const double> start_s, Column<const int64_t> order, Column<const int64_t> agent,
           Column<const uint8_t> limited, Column<double> rtt_s, Column<const int64_t> host_ports,
           Column<const int64_t> uplinks, const Counters &ports, Column<int64_t> live)
        : flows_(flows), before_(flows.size.shape(0)), start_s_(start_s), order_(order), agent_(agent),
          limited_(limited), rtt_s_(rtt_s), host_ports_(host_ports), uplinks_(uplinks), live_(live),
          ports_(ports.data(), ports.data() + ports.size())
    {
    }

    // Ends the period at `time_s`, `interval_s` after the last, by which `arrived` flows have arrived. Returns the
    // numbers of flows that are live (at the front of `live`), that have arrived, and that are delivered.
    std::tuple<size_t, size_t, size_t> End(double time_s, size_t arrived, double interval_s,
                                           Column<const uint8_t> finished, const Counters &ports, Table host_reals,
                                           Integers host_counts, Table uplink_reals, Integers uplink_counts)
    {
        const size_t agents = rtt_s_.shape(0), n_uplinks = uplinks_.shape(0);
        for (; started_ < arrived; ++started_) {
            const auto row = static_cast<size_t>(live_(n_live_++) = order_(started_));
            before_[row].last_left_s = start_s_(row);
        }
        const double bits_per_s = interval_s > 0 ? 8 / interval_s : 0;
        const HostSums hosts(host_reals.data(), host_counts.data(), agents);
        Count(time_s, finished, hosts, agents);
        hosts.End(interval_s, rtt_s_);
        for (size_t host = 0; host < agents; ++host) {
            hosts.throughput_bps[host] = Grown(ports, host_ports_(host), kTxBytes) * bits_per_s;
        }
        const UplinkColumns uplinks(uplink_reals.data(), uplink_counts.data(), n_uplinks);
        for (size_t i = 0; i < n_uplinks; ++i) {
            const int64_t port = uplinks_(i);
            const double sent = Grown(ports, port, kTxPkts);
            uplinks.throughput_bps[i] = Grown(ports, port, kTxBytes) * bits_per_s;
            uplinks.queue_bytes[i] = static_cast<double>(ports(static_cast<size_t>(port), kQueueBytes));
            uplinks.queue_mean_bytes[i] = Grown(ports, port, kByteNs) * (bits_per_s / 8 / 1e9);
            uplinks.queue_delay_s[i] = sent > 0 ? Grown(ports, port, kPktNs) / 1e9 / sent : 0;
            uplinks.marked_pkts[i] = static_cast<int64_t>(Grown(ports, port, kMarked));
            uplinks.dropped_pkts[i] = static_cast<int64_t>(Grown(ports, port, kDropped));
        }
        std::copy_n(ports.data(), ports_.size(), ports_.data());
        return {n_live_, started_, started_ - n_live_};
    }

  private:
    double Grown(const Counters &ports, int64_t port, PortCounter counter) const
    {
        const auto row = static_cast<size_t>(port);
        return static_cast<double>(ports(row, counter) - ports_[row * kPortCounters + counter]);
    }

    // Sums by agent over the flows that are live or arrived in the period; keeps the unfinished ones in `live_`.
    void Count(double time_s, const Column<const uint8_t> &finished, const HostSums &hosts, size_t agents)
    {
        size_t kept = 0;
        for (size_t i = 0; i < n_live_; ++i) {
            const auto row = static_cast<size_t>(live_(i));
            const auto host = static_cast<size_t>(agent_(row));
            const int64_t size = flows_.size(row);
            if (finished(row)) {
                flows_.delivered(row) = flows_.left(row) = flows_.known(row) = size;
            } else {
                live_(kept++) = static_cast<int64_t>(row);
            }
            if (host >= agents) {
                continue;
            }
            const Counts now{flows_.delivered(row), flows_.left(row), flows_.rtt_samples(row), flows_.rtt_sum_s(row)};
            hosts.Add(host, now, before_[row], time_s, limited_(row) ? flows_.known(row) - now.left : 0);
            if (!finished(row)) {
                ++hosts.active_flows[host];
                hosts.active_per_byte[host] += 1 / static_cast<double>(size);
                hosts.active_left[host] += static_cast<double>(size - now.delivered) / static_cast<double>(size);
            }
        }
        n_live_ = kept;
    }

    Flows flows_;
    std::vector<Counts> before_; // counts at the end of the last period
    Column<const double> start_s_;
    Column<const int64_t> order_, agent_;
    Column<const uint8_t> limited_;
    Column<double> rtt_s_;
    Column<const int64_t> host_ports_, uplinks_;
    Column<int64_t> live_;
    std::vector<int64_t> ports_; // counters at the end of the last period
    size_t n_live_ = 0, started_ = 0;
};

} // namespace

void bind_reports(nb::module_ &m)
{
    // Arguments are not converted, because data written into a copy would be lost.
    nb::class_<Flows>(m, "Flows")
        .def(
            "__init__",
            [](Flows *self, Column<int64_t> size, Column<int64_t> known, Column<int64_t> delivered,
               Column<int64_t> left, Column<double> rtt_sum_s,
               Column<int64_t> rtt_samples) { new (self) Flows{size, known, delivered, left, rtt_samples, rtt_sum_s}; },
            "size_bytes"_a.noconvert(), "known_bytes"_a.noconvert(), "delivered_bytes"_a.noconvert(),
            "left_bytes"_a.noconvert(), "rtt_sum_s"_a.noconvert(), "rtt_samples"_a.noconvert())
        .def("update", &UpdateAll, "rows"_a, nb::kw_only(), "known_bytes"_a, "delivered_bytes"_a, "left_bytes"_a,
             "rtt_sum_s"_a, "rtt_samples"_a);
    nb::class_<Reports>(m, "Reports")
        .def(nb::init<Reports::Bytes, const std::map<std::string, size_t> &, int64_t, int64_t>(), nb::kw_only(),
             "rows"_a.noconvert(), "offsets"_a, "live"_a, "ended"_a);
    m.def("collect", &Collect, nb::kw_only(), "reports"_a, "used"_a, "flows"_a, "slots"_a.noconvert(),
          "generations"_a.noconvert(), "rows"_a.noconvert());
    nb::class_<Epochs>(m, "Epochs")
        .def(
            nb::init<Flows, Column<const double>, Column<const int64_t>, Column<const int64_t>, Column<const uint8_t>,
                     Column<double>, Column<const int64_t>, Column<const int64_t>, const Counters &, Column<int64_t>>(),
            nb::kw_only(), "flows"_a, "start_s"_a.noconvert(), "order"_a.noconvert(), "agent"_a.noconvert(),
            "limited"_a.noconvert(), "rtt_s"_a.noconvert(), "host_ports"_a.noconvert(), "uplinks"_a.noconvert(),
            "ports"_a.noconvert(), "live"_a.noconvert())
        .def("end", &Epochs::End, "time_s"_a, "arrived"_a, "interval_s"_a, "finished"_a.noconvert(),
             "ports"_a.noconvert(), "host_reals"_a.noconvert(), "host_counts"_a.noconvert(),
             "uplink_reals"_a.noconvert(), "uplink_counts"_a.noconvert());
}
