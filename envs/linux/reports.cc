// SPDX-License-Identifier: BSD-3-Clause
// Two passes per period over all connections: one reads reports from the map that the kernel writes, the other computes
// signals (ncc/core/signals.py).
#include "reports.h"
#include "signals.h"

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
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

using ncc::HostColumns;
using ncc::Report;
using ncc::Reports;
using ncc::UplinkColumns;

using ncc::Column;
using ncc::Flows;
using Table = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Counters = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>; // [ports, kPortCounters]

// Takes in a sender's counts since its flow began. Older counts change nothing.
void Update(const Flows &flows, size_t row, uint64_t delivered, uint64_t left, uint64_t unsent, double rtt_sum_s,
            uint64_t rtt_samples)
{
    const auto size = static_cast<uint64_t>(flows.size(row));
    auto &so_far = flows.delivered(row);
    so_far = std::max(so_far, static_cast<int64_t>(std::min(delivered, size)));
    flows.left(row) = std::max({flows.left(row), static_cast<int64_t>(std::min(left, size)), so_far});
    flows.known(row) =
        std::max({flows.known(row), static_cast<int64_t>(std::min(left + unsent, size)), flows.left(row)});
    if (static_cast<int64_t>(rtt_samples) > flows.rtt_samples(row)) {
        flows.rtt_samples(row) = static_cast<int64_t>(rtt_samples);
        flows.rtt_sum_s(row) = rtt_sum_s;
    }
}

// Writes for every slot in use among the first `used` its index, its generation and the row of its flow (-1: no flow of
// the run). Returns the number of these slots, and the results of `Reports::Each`.
std::tuple<size_t, std::vector<int64_t>, size_t> Collect(const Reports &reports, size_t used, const Flows &flows,
                                                         Column<int64_t> slots, Column<uint32_t> generations,
                                                         Column<int64_t> rows)
{
    if (std::min({slots.shape(0), generations.shape(0), rows.shape(0)}) < reports.slots()) {
        throw std::invalid_argument("reports and outputs do not fit each other");
    }
    size_t n = 0;
    auto [ended, torn] = reports.Each(used, [&](size_t slot, const Report &report) {
        const bool known = report.flow > 0 && static_cast<size_t>(report.flow) <= flows.size.shape(0);
        slots(n) = static_cast<int64_t>(slot);
        generations(n) = static_cast<uint32_t>(report.generation);
        rows(n) = known ? report.flow - 1 : -1;
        ++n;
        if (known) {
            Update(flows, static_cast<size_t>(report.flow) - 1, static_cast<uint64_t>(report.delivered_bytes),
                   static_cast<uint64_t>(report.sent_bytes - report.retrans_bytes),
                   static_cast<uint64_t>(report.unsent_bytes), static_cast<double>(report.rtt_sum_ns) * 1e-9,
                   static_cast<uint64_t>(report.rtt_samples));
        }
    });
    return {n, std::move(ended), torn};
}

// Counts at the end of the last epoch.
struct Before {
    Column<int64_t> delivered, left, rtt_samples;
    Column<double> rtt_sum_s, last_left_s;
};

// Columns of a port's counters: `PORT_COUNTERS` of measure.py.
enum PortCounter { kTxPkts, kTxBytes, kMarked, kDropped, kQueueBytes, kByteNs, kPktNs, kPortCounters };

// The epochs of one run: signals of hosts and uplinks between two calls of `End`.
class Epochs
{
  public:
    // Takes the columns of one run. `agent` is the number of agents for a flow that no agent sends. `live` has room for
    // all flows. `rtt_s` holds each host's RTT until its first sample arrives.
    Epochs(Flows flows, Before before, Column<const double> start_s, Column<const int64_t> agent,
           Column<const uint8_t> limited, Column<double> rtt_s, Column<const int64_t> host_ports,
           Column<const int64_t> uplinks, const Counters &ports, Column<int64_t> live)
        : flows_(flows), before_(before), start_s_(start_s), agent_(agent), limited_(limited), rtt_s_(rtt_s),
          host_ports_(host_ports), uplinks_(uplinks), live_(live), ports_(ports.data(), ports.data() + ports.size())
    {
        const size_t n = flows.size.shape(0);
        if (start_s.shape(0) != n || agent.shape(0) != n || limited.shape(0) != n || live.shape(0) != n ||
            before.left.shape(0) != n || host_ports.shape(0) != rtt_s.shape(0) || ports.shape(1) != kPortCounters) {
            throw std::invalid_argument("columns of flows, hosts or ports differ in length");
        }
        for (const auto &of : {host_ports, uplinks}) {
            for (size_t i = 0; i < of.shape(0); ++i) {
                if (of(i) < 0 || static_cast<size_t>(of(i)) >= ports.shape(0)) {
                    throw std::invalid_argument("there is no such port");
                }
            }
        }
    }

    // Ends the epoch at `time_s`, `interval_s` after the last. Returns the numbers of flows that are live (at the front
    // of `live`), that have arrived, and that are delivered.
    std::tuple<size_t, size_t, size_t> End(double time_s, bool arrivals, double interval_s,
                                           Column<const uint8_t> finished, const Counters &ports, Table host_reals,
                                           Integers host_counts, Table uplink_reals, Integers uplink_counts)
    {
        const size_t agents = rtt_s_.shape(0), n_uplinks = uplinks_.shape(0);
        if (finished.shape(0) != live_.shape(0) || ports.size() != ports_.size() ||
            host_reals.size() != HostColumns::kReals * agents || host_counts.size() != HostColumns::kCounts * agents ||
            uplink_reals.size() != UplinkColumns::kReals * n_uplinks ||
            uplink_counts.size() != UplinkColumns::kCounts * n_uplinks) {
            throw std::invalid_argument("finished, ports or outputs have the wrong shape");
        }
        while (arrivals && started_ < live_.shape(0) && start_s_(started_) <= time_s) {
            live_(n_live_++) = static_cast<int64_t>(started_++);
        }
        const double bits_per_s = interval_s > 0 ? 8 / interval_s : 0;
        const HostColumns hosts(host_reals.data(), host_counts.data(), agents);
        Count(time_s, finished, hosts, agents);
        for (size_t host = 0; host < agents; ++host) {
            if (hosts.rtt_samples[host] > 0) {
                rtt_s_(host) = hosts.rtt_s[host] / static_cast<double>(hosts.rtt_samples[host]);
            }
            hosts.rtt_s[host] = rtt_s_(host);
            hosts.goodput_bps[host] *= bits_per_s;
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

    // Sums by agent over the flows that are live or have arrived in the epoch; keeps the unfinished ones in `live_`.
    void Count(double time_s, const Column<const uint8_t> &finished, const HostColumns &hosts, size_t agents)
    {
        for (double *sums : {hosts.goodput_bps, hosts.rtt_s, hosts.wait_s, hosts.queued_bytes, hosts.next_bytes,
                             hosts.active_per_byte, hosts.active_left}) {
            std::fill_n(sums, agents, 0.0);
        }
        for (int64_t *sums : {hosts.rtt_samples, hosts.queued_flows, hosts.active_flows}) {
            std::fill_n(sums, agents, 0);
        }
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
            const int64_t delivered = flows_.delivered(row), left = flows_.left(row), known = flows_.known(row);
            if (left > before_.left(row)) {
                before_.last_left_s(row) = time_s;
            }
            if (host < agents) {
                hosts.goodput_bps[host] += static_cast<double>(delivered - before_.delivered(row));
                hosts.rtt_s[host] += flows_.rtt_sum_s(row) - before_.rtt_sum_s(row);
                hosts.rtt_samples[host] += flows_.rtt_samples(row) - before_.rtt_samples(row);
                if (!finished(row)) {
                    ++hosts.active_flows[host];
                    hosts.active_per_byte[host] += 1 / static_cast<double>(size);
                    hosts.active_left[host] += static_cast<double>(size - delivered) / static_cast<double>(size);
                }
                if (left < known && limited_(row)) {
                    const auto rest = static_cast<double>(known - left);
                    hosts.wait_s[host] += time_s - before_.last_left_s(row);
                    hosts.queued_bytes[host] += rest;
                    hosts.next_bytes[host] = hosts.queued_flows[host] ? std::min(hosts.next_bytes[host], rest) : rest;
                    ++hosts.queued_flows[host];
                }
            }
            before_.delivered(row) = delivered;
            before_.left(row) = left;
            before_.rtt_sum_s(row) = flows_.rtt_sum_s(row);
            before_.rtt_samples(row) = flows_.rtt_samples(row);
        }
        n_live_ = kept;
    }

    Flows flows_;
    Before before_;
    Column<const double> start_s_;
    Column<const int64_t> agent_;
    Column<const uint8_t> limited_;
    Column<double> rtt_s_;
    Column<const int64_t> host_ports_, uplinks_;
    Column<int64_t> live_;
    std::vector<int64_t> ports_; // counters at the end of the last epoch
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
               Column<int64_t> left, Column<double> rtt_sum_s, Column<int64_t> rtt_samples) {
                for (const size_t n :
                     {known.shape(0), delivered.shape(0), left.shape(0), rtt_sum_s.shape(0), rtt_samples.shape(0)}) {
                    if (n != size.shape(0)) {
                        throw std::invalid_argument("columns differ in length");
                    }
                }
                new (self) Flows{size, known, delivered, left, rtt_samples, rtt_sum_s};
            },
            "size_bytes"_a.noconvert(), "known_bytes"_a.noconvert(), "delivered_bytes"_a.noconvert(),
            "left_bytes"_a.noconvert(), "rtt_sum_s"_a.noconvert(), "rtt_samples"_a.noconvert());
    nb::class_<Before>(m, "Before")
        .def(
            "__init__",
            [](Before *self, Column<int64_t> delivered, Column<int64_t> left, Column<double> rtt_sum_s,
               Column<int64_t> rtt_samples,
               Column<double> last_left_s) { new (self) Before{delivered, left, rtt_samples, rtt_sum_s, last_left_s}; },
            "delivered_bytes"_a.noconvert(), "left_bytes"_a.noconvert(), "rtt_sum_s"_a.noconvert(),
            "rtt_samples"_a.noconvert(), "last_left_s"_a.noconvert());
    nb::class_<Reports>(m, "Reports")
        .def(nb::init<Reports::Bytes, const std::map<std::string, size_t> &, int64_t, int64_t>(), nb::kw_only(),
             "rows"_a.noconvert(), "offsets"_a, "live"_a, "ended"_a);
    m.def("collect", &Collect, nb::kw_only(), "reports"_a, "used"_a, "flows"_a, "slots"_a.noconvert(),
          "generations"_a.noconvert(), "rows"_a.noconvert());
    nb::class_<Epochs>(m, "Epochs")
        .def(nb::init<Flows, Before, Column<const double>, Column<const int64_t>, Column<const uint8_t>, Column<double>,
                      Column<const int64_t>, Column<const int64_t>, const Counters &, Column<int64_t>>(),
             nb::kw_only(), "flows"_a, "before"_a, "start_s"_a.noconvert(), "agent"_a.noconvert(),
             "limited"_a.noconvert(), "rtt_s"_a.noconvert(), "host_ports"_a.noconvert(), "uplinks"_a.noconvert(),
             "ports"_a.noconvert(), "live"_a.noconvert())
        .def("end", &Epochs::End, "time_s"_a, "arrivals"_a, "interval_s"_a, "finished"_a.noconvert(),
             "ports"_a.noconvert(), "host_reals"_a.noconvert(), "host_counts"_a.noconvert(),
             "uplink_reals"_a.noconvert(), "uplink_counts"_a.noconvert());
}
