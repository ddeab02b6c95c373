// SPDX-License-Identifier: BSD-3-Clause
// One pass per period over all connections of this machine's hosts. It computes signals (ncc/core/signals.py) from the
// reports in the map that the kernel writes. live.py explains the meaning of the signals here.
#include "reports.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

using ncc::Column;
using ncc::Counts;
using ncc::HostSums;
using ncc::Report;
using ncc::Reports;
using Reals = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Columns = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Columns of live connections: `LIVE_COLUMNS` of extension.py.
enum LiveColumn { kSlot, kOf, kLeftBytes, kUnsentBytes, kDeliveredBytes, kColumns };

// Last known values of the connection in a slot.
struct Before {
    int64_t generation = -1, updated_ns = 0;
    Counts counts;
};

class Connections
{
  public:
    // `reals` and `counts` are the signals of hosts, a row each. `rtt_s` is a host's RTT while it has no sample; each
    // new mean updates it.
    Connections(const Reports &reports, Columns columns, Column<double> rtt_s, Reals reals, Columns counts)
        : reports_(reports), columns_(columns), counts_(counts), rtt_s_(rtt_s), reals_(reals), n_hosts_(rtt_s.shape(0)),
          before_(reports.slots())
    {
    }

    // Fills the signals and the columns from the first `used` reports. Returns the number of connections with a new
    // report, the number of live ones (at the front of the columns), and the results of `Reports::Each`.
    std::tuple<size_t, size_t, std::vector<int64_t>, size_t> Measure(size_t used, int64_t now_ns, double interval_s)
    {
        const HostSums hosts(reals_.data(), counts_.data(), n_hosts_);
        const double now_s = static_cast<double>(now_ns) / 1e9;
        size_t reported = 0, n_live = 0;
        auto [ended, torn] = reports_.Each(used, [&](size_t slot, const Report &report) {
            if (static_cast<size_t>(report.host) >= n_hosts_) {
                return;
            }
            Before &before = before_[slot];
            if (before.generation != report.generation) {
                before = Before{report.generation, 0, {}};
                before.counts.last_left_s = static_cast<double>(report.began_ns) / 1e9;
            }
            reported += report.updated_ns != before.updated_ns;
            before.updated_ns = report.updated_ns;
            const bool live = report.state == reports_.live;
            const int64_t left = report.sent_bytes - report.retrans_bytes;
            const Counts now{report.delivered_bytes, left, report.rtt_samples,
                             static_cast<double>(report.rtt_sum_ns) / 1e9};
            hosts.Add(static_cast<size_t>(report.host), now, before.counts, now_s, live ? report.unsent_bytes : 0);
            if (live) {
                const int64_t values[kColumns] = {static_cast<int64_t>(slot), report.generation, left,
                                                  report.unsent_bytes, report.delivered_bytes};
                for (size_t column = 0; column < kColumns; ++column) {
                    columns_(column, n_live) = values[column];
                }
                ++n_live;
            }
        });
        hosts.End(interval_s, rtt_s_);
        return {reported, n_live, std::move(ended), torn};
    }

  private:
    const Reports reports_;
    Columns columns_, counts_;
    Column<double> rtt_s_;
    Reals reals_;
    size_t n_hosts_;
    std::vector<Before> before_;
};

} // namespace

void bind_live(nb::module_ &m)
{
    nb::class_<Connections>(m, "Connections")
        .def(nb::init<const Reports &, Columns, Column<double>, Reals, Columns>(), nb::kw_only(), "reports"_a,
             "columns"_a.noconvert(), "rtt_s"_a.noconvert(), "reals"_a.noconvert(), "counts"_a.noconvert())
        .def("measure", &Connections::Measure, "used"_a, "now_ns"_a, "interval_s"_a);
}
