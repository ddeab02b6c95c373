// SPDX-License-Identifier: BSD-3-Clause
// A period's pass over all connections of this machine's hosts, whoever began them: signals (ncc/core/signals.py) from
// the reports in the map that the kernel writes. ncc/envs/linux/extension.py is the same in Python types; live.py says
// what they mean here.
#include "signals.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
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
using Bytes = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Reals = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Means = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Columns = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr int kReads = 100; // of a report that the kernel is writing, as in reports.cc

// `LIVE_FIELDS` of extension.py: the first five have 32 bits, the others 64.
enum Field {
    kSeq,
    kState,
    kGeneration,
    kHost,
    kHeader,
    kUpdated,
    kBegan,
    kDelivered,
    kSent,
    kRetrans,
    kPackets,
    kUnsent,
    kRttSum,
    kRttSamples,
    kFields
};
constexpr size_t kWide = kUpdated;
// `LIVE_COLUMNS`.
enum Column { kSlot, kOf, kAt, kBeganNs, kLastLeftNs, kLeftBytes, kUnsentBytes, kDeliveredNow, kColumns };

using Report = std::array<int64_t, kFields>;

// What was known of the connection in a slot.
struct Before {
    int64_t generation = -1, updated = 0, delivered = 0, sent = 0, retrans = 0, packets = 0, rtt_sum = 0, rtts = 0;
    int64_t last_left_ns = 0;
};

class Connections
{
  public:
    Connections(Bytes reports, const std::vector<size_t> &fields, const std::vector<int64_t> &states, size_t n_hosts,
                Columns columns)
        : reports_(reports), columns_(columns), n_hosts_(n_hosts), before_(reports.shape(0))
    {
        if (fields.size() != kFields || states.size() != 2 || columns.shape(0) != kColumns ||
            columns.shape(1) < reports.shape(0) ||
            *std::max_element(fields.begin(), fields.end()) + sizeof(uint64_t) > reports.shape(1)) {
            throw std::invalid_argument("reports, fields, states and columns do not fit each other");
        }
        std::copy(fields.begin(), fields.end(), at_.begin());
        live_ = states[0];
        ended_ = states[1];
    }

    // See `Connections.measure` of extension.py.
    std::tuple<size_t, size_t, std::vector<int64_t>, size_t> Measure(size_t used, int64_t now_ns, double interval_s,
                                                                     Means rtt_s, Reals reals, Columns counts)
    {
        if (rtt_s.shape(0) != n_hosts_ || reals.shape(0) != HostColumns::kReals || reals.shape(1) != n_hosts_ ||
            counts.shape(0) != HostColumns::kCounts || counts.shape(1) != n_hosts_) {
            throw std::invalid_argument("columns of hosts have the wrong shape");
        }
        const HostColumns hosts(reals.data(), counts.data(), n_hosts_);
        for (double *sums : {hosts.throughput_bps, hosts.goodput_bps, hosts.rtt_s, hosts.wait_s, hosts.queued_bytes,
                             hosts.next_bytes}) {
            std::fill_n(sums, n_hosts_, 0.0);
        }
        std::fill_n(hosts.rtt_samples, n_hosts_, 0);
        std::fill_n(hosts.queued_flows, n_hosts_, 0);
        std::vector<int64_t> ended;
        size_t reported = 0, n_live = 0, torn = 0;
        for (size_t slot = 0; slot < std::min(used, before_.size()); ++slot) {
            const uint8_t *row = reports_.data() + slot * reports_.shape(1);
            Report report;
            if (Load<uint32_t>(row, kState) == 0) {
                continue;
            }
            if (!Read(row, report)) {
                ++torn;
                continue;
            }
            if (report[kState] == ended_) {
                ended.push_back(static_cast<int64_t>(slot));
            }
            if (static_cast<uint64_t>(report[kHost]) < n_hosts_) {
                reported += Add(slot, report, now_ns, hosts);
                if (report[kState] == live_) {
                    List(n_live++, slot, report);
                }
            }
        }
        const double bits_per_s = interval_s > 0 ? 8 / interval_s : 0;
        for (size_t host = 0; host < n_hosts_; ++host) {
            hosts.throughput_bps[host] *= bits_per_s;
            hosts.goodput_bps[host] *= bits_per_s;
            if (hosts.rtt_samples[host] > 0) {
                rtt_s(host) = hosts.rtt_s[host] / static_cast<double>(hosts.rtt_samples[host]) / 1e9;
            }
            hosts.rtt_s[host] = rtt_s(host);
            hosts.wait_s[host] /= 1e9;
        }
        return {reported, n_live, std::move(ended), torn};
    }

  private:
    template <typename T>
    T Load(const uint8_t *row, size_t field) const
    {
        return __atomic_load_n(reinterpret_cast<const T *>(row + at_[field]), __ATOMIC_RELAXED);
    }

    // A consistent copy; false if the kernel wrote whenever it was read.
    bool Read(const uint8_t *row, Report &report) const
    {
        for (int i = 0; i < kReads; ++i) {
            const auto before = __atomic_load_n(reinterpret_cast<const uint32_t *>(row + at_[kSeq]), __ATOMIC_ACQUIRE);
            for (size_t field = 0; field < kFields; ++field) {
                report[field] = field < kWide ? static_cast<int64_t>(Load<uint32_t>(row, field))
                                              : static_cast<int64_t>(Load<uint64_t>(row, field));
            }
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
            if (before % 2 == 0 && before == Load<uint32_t>(row, kSeq)) {
                return true;
            }
        }
        return false;
    }

    // Adds a connection to its host: bytes and ns so far. Returns whether it has reported since the last time.
    bool Add(size_t slot, const Report &report, int64_t now_ns, const HostColumns &hosts)
    {
        Before &before = before_[slot];
        if (before.generation != report[kGeneration]) {
            before = Before{};
            before.generation = report[kGeneration];
            before.last_left_ns = report[kBegan];
        }
        const auto host = static_cast<size_t>(report[kHost]);
        const int64_t sent = report[kSent] - before.sent, again = report[kRetrans] - before.retrans;
        const bool anew = report[kUpdated] != before.updated;
        if (sent > again) {
            before.last_left_ns = now_ns;
        }
        const int64_t sent_bytes = sent + (report[kPackets] - before.packets) * report[kHeader];
        hosts.throughput_bps[host] += static_cast<double>(sent_bytes);
        hosts.goodput_bps[host] += static_cast<double>(report[kDelivered] - before.delivered);
        hosts.rtt_s[host] += static_cast<double>(report[kRttSum] - before.rtt_sum);
        hosts.rtt_samples[host] += report[kRttSamples] - before.rtts;
        if (report[kState] == live_ && report[kUnsent] > 0) {
            const auto unsent = static_cast<double>(report[kUnsent]);
            double &next = hosts.next_bytes[host];
            next = hosts.queued_flows[host] > 0 ? std::min(next, unsent) : unsent;
            hosts.wait_s[host] += static_cast<double>(std::max<int64_t>(now_ns - before.last_left_ns, 0));
            hosts.queued_bytes[host] += unsent;
            ++hosts.queued_flows[host];
        }
        before.updated = report[kUpdated];
        before.delivered = report[kDelivered];
        before.sent = report[kSent];
        before.retrans = report[kRetrans];
        before.packets = report[kPackets];
        before.rtt_sum = report[kRttSum];
        before.rtts = report[kRttSamples];
        return anew;
    }

    void List(size_t row, size_t slot, const Report &report)
    {
        const int64_t values[kColumns] = {static_cast<int64_t>(slot),
                                          report[kGeneration],
                                          report[kHost],
                                          report[kBegan],
                                          before_[slot].last_left_ns,
                                          report[kSent] - report[kRetrans],
                                          report[kUnsent],
                                          report[kDelivered]};
        for (size_t column = 0; column < kColumns; ++column) {
            columns_(column, row) = values[column];
        }
    }

    Bytes reports_;
    Columns columns_;
    size_t n_hosts_;
    std::vector<Before> before_;
    std::array<size_t, kFields> at_{};
    int64_t live_ = 0, ended_ = 0;
};

} // namespace

void bind_live(nb::module_ &m)
{
    nb::class_<Connections>(m, "Connections")
        .def(nb::init<Bytes, const std::vector<size_t> &, const std::vector<int64_t> &, size_t, Columns>(),
             nb::kw_only(), "reports"_a.noconvert(), "fields"_a, "states"_a, "n_hosts"_a, "columns"_a.noconvert())
        .def("measure", &Connections::Measure, "used"_a, "now_ns"_a, "interval_s"_a, "rtt_s"_a.noconvert(),
             "reals"_a.noconvert(), "counts"_a.noconvert());
}
