// SPDX-License-Identifier: BSD-3-Clause
// One pass per period over all connections of this machine's hosts, which computes signals (ncc/core/signals.py) from
// the reports in the map that the kernel writes. live.py explains what the signals mean here.
#include "reports.h"
#include "signals.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
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
using Reals = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Means = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Columns = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Columns of live connections: `LIVE_COLUMNS` of extension.py.
enum Column { kSlot, kOf, kAt, kBeganNs, kLastLeftNs, kLeftBytes, kUnsentBytes, kDeliveredNow, kColumns };

// Last known values of the connection in a slot.
struct Before {
    int64_t generation = -1, updated = 0, delivered = 0, sent = 0, retrans = 0, packets = 0, rtt_sum = 0, rtts = 0;
    int64_t last_left_ns = 0;
};

class Connections
{
  public:
    // `reals` and `counts` are rows of the signals of hosts. `rtt_s` is assumed of a host without a sample, and gets
    // each new mean.
    Connections(const Reports &reports, Columns columns, Means rtt_s, Reals reals, Columns counts)
        : reports_(reports), columns_(columns), counts_(counts), rtt_s_(rtt_s), reals_(reals), n_hosts_(rtt_s.shape(0)),
          before_(reports.slots())
    {
        if (columns.shape(0) != kColumns || columns.shape(1) < reports.slots()) {
            throw std::invalid_argument("reports and columns do not fit each other");
        }
        if (reals.shape(0) != HostColumns::kReals || reals.shape(1) != n_hosts_ ||
            counts.shape(0) != HostColumns::kCounts || counts.shape(1) != n_hosts_) {
            throw std::invalid_argument("columns of hosts have the wrong shape");
        }
    }

    // Fills the signals from the first `used` reports, and the columns if `listed`. Returns how many connections have
    // reported since the last call; how many are live, at the front of the columns; and what `Reports::Each` does.
    std::tuple<size_t, size_t, std::vector<int64_t>, size_t> Measure(size_t used, int64_t now_ns, double interval_s,
                                                                     bool listed)
    {
        const HostColumns hosts(reals_.data(), counts_.data(), n_hosts_);
        for (double *sums : {hosts.throughput_bps, hosts.goodput_bps, hosts.rtt_s, hosts.wait_s, hosts.queued_bytes,
                             hosts.next_bytes}) {
            std::fill_n(sums, n_hosts_, 0.0);
        }
        std::fill_n(hosts.rtt_samples, n_hosts_, 0);
        std::fill_n(hosts.queued_flows, n_hosts_, 0);
        size_t reported = 0, n_live = 0;
        auto [ended, torn] = reports_.Each(used, [&](size_t slot, const Report &report) {
            if (static_cast<size_t>(report.host) < n_hosts_) {
                reported += Add(slot, report, now_ns, hosts);
                if (report.state == reports_.live) {
                    if (listed) {
                        List(n_live, slot, report);
                    }
                    ++n_live;
                }
            }
        });
        const double bits_per_s = interval_s > 0 ? 8 / interval_s : 0;
        for (size_t host = 0; host < n_hosts_; ++host) {
            hosts.throughput_bps[host] *= bits_per_s;
            hosts.goodput_bps[host] *= bits_per_s;
            if (hosts.rtt_samples[host] > 0) {
                rtt_s_(host) = hosts.rtt_s[host] / static_cast<double>(hosts.rtt_samples[host]) / 1e9;
            }
            hosts.rtt_s[host] = rtt_s_(host);
            hosts.wait_s[host] /= 1e9;
        }
        return {reported, n_live, std::move(ended), torn};
    }

  private:
    // Adds a connection's bytes and ns to its host. Returns true if it has reported since the last call.
    bool Add(size_t slot, const Report &report, int64_t now_ns, const HostColumns &hosts)
    {
        Before &before = before_[slot];
        if (before.generation != report.generation) {
            before = Before{};
            before.generation = report.generation;
            before.last_left_ns = report.began_ns;
        }
        const auto host = static_cast<size_t>(report.host);
        const int64_t sent = report.sent_bytes - before.sent, again = report.retrans_bytes - before.retrans;
        const bool anew = report.updated_ns != before.updated;
        if (sent > again) {
            before.last_left_ns = now_ns;
        }
        const int64_t sent_bytes = sent + (report.sent_packets - before.packets) * report.header_bytes;
        hosts.throughput_bps[host] += static_cast<double>(sent_bytes);
        hosts.goodput_bps[host] += static_cast<double>(report.delivered_bytes - before.delivered);
        hosts.rtt_s[host] += static_cast<double>(report.rtt_sum_ns - before.rtt_sum);
        hosts.rtt_samples[host] += report.rtt_samples - before.rtts;
        if (report.state == reports_.live && report.unsent_bytes > 0) {
            const auto unsent = static_cast<double>(report.unsent_bytes);
            double &next = hosts.next_bytes[host];
            next = hosts.queued_flows[host] > 0 ? std::min(next, unsent) : unsent;
            hosts.wait_s[host] += static_cast<double>(std::max<int64_t>(now_ns - before.last_left_ns, 0));
            hosts.queued_bytes[host] += unsent;
            ++hosts.queued_flows[host];
        }
        before.updated = report.updated_ns;
        before.delivered = report.delivered_bytes;
        before.sent = report.sent_bytes;
        before.retrans = report.retrans_bytes;
        before.packets = report.sent_packets;
        before.rtt_sum = report.rtt_sum_ns;
        before.rtts = report.rtt_samples;
        return anew;
    }

    void List(size_t row, size_t slot, const Report &report)
    {
        const int64_t values[kColumns] = {static_cast<int64_t>(slot),
                                          report.generation,
                                          report.host,
                                          report.began_ns,
                                          before_[slot].last_left_ns,
                                          report.sent_bytes - report.retrans_bytes,
                                          report.unsent_bytes,
                                          report.delivered_bytes};
        for (size_t column = 0; column < kColumns; ++column) {
            columns_(column, row) = values[column];
        }
    }

    const Reports reports_;
    Columns columns_, counts_;
    Means rtt_s_;
    Reals reals_;
    size_t n_hosts_;
    std::vector<Before> before_;
};

} // namespace

void bind_live(nb::module_ &m)
{
    nb::class_<Connections>(m, "Connections")
        .def(nb::init<const Reports &, Columns, Means, Reals, Columns>(), nb::kw_only(), "reports"_a,
             "columns"_a.noconvert(), "rtt_s"_a.noconvert(), "reals"_a.noconvert(), "counts"_a.noconvert())
        .def("measure", &Connections::Measure, "used"_a, "now_ns"_a, "interval_s"_a, "listed"_a);
}
