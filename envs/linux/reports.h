// SPDX-License-Identifier: BSD-3-Clause
// Reports of connections, in the memory of a map that the kernel writes (layout.py), and the hosts' signals that are
// sums over reports: for runs (reports.cc) and for hosts in operation (live.cc).
#pragma once

#include "signals.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ncc
{

template <typename T>
using Column = nanobind::ndarray<T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

// Arrays over all flows of a run.
struct Flows {
    Column<int64_t> size, known, delivered, left, rtt_samples;
    Column<double> rtt_sum_s;
};

// Counts of a flow since it began, and when a new byte of it last left its host.
struct Counts {
    int64_t delivered = 0, left = 0, rtt_samples = 0;
    double rtt_sum_s = 0, last_left_s = 0;
};

// Signals of hosts (ncc/core/signals.py) in a period, summed up flow by flow.
class HostSums : public HostColumns
{
  public:
    HostSums(double *reals, int64_t *counts, size_t n) : HostColumns(reals, counts, n), n_(n)
    {
        std::fill_n(reals, kReals * n, 0.0);
        std::fill_n(counts, kCounts * n, 0);
    }

    // Adds a flow's progress from `before` to `now` and its payload that waits in the host; sets `before` to `now`.
    void Add(size_t host, Counts now, Counts &before, double time_s, int64_t waiting_bytes) const
    {
        now.last_left_s = now.left > before.left ? time_s : before.last_left_s;
        goodput_bps[host] += static_cast<double>(now.delivered - before.delivered);
        rtt_s[host] += now.rtt_sum_s - before.rtt_sum_s;
        rtt_samples[host] += now.rtt_samples - before.rtt_samples;
        if (waiting_bytes > 0) {
            const auto waiting = static_cast<double>(waiting_bytes);
            next_bytes[host] = queued_flows[host] > 0 ? std::min(next_bytes[host], waiting) : waiting;
            wait_s[host] += std::max(time_s - now.last_left_s, 0.0);
            queued_bytes[host] += waiting;
            ++queued_flows[host];
        }
        before = now;
    }

    // Turns bytes into rates and sums of RTTs into means. A host without a sample keeps its last mean (`rtt_means_s`).
    void End(double interval_s, const Column<double> &rtt_means_s) const
    {
        for (size_t host = 0; host < n_; ++host) {
            goodput_bps[host] *= interval_s > 0 ? 8 / interval_s : 0;
            if (rtt_samples[host] > 0) {
                rtt_means_s(host) = rtt_s[host] / static_cast<double>(rtt_samples[host]);
            }
            rtt_s[host] = rtt_means_s(host);
        }
    }

  private:
    size_t n_;
};

// Fields of `layout.REPORT` that are read here.
#define NCC_REPORT_FIELDS(X)                                                                                           \
    X(uint32_t, seq)                                                                                                   \
    X(uint32_t, state)                                                                                                 \
    X(uint32_t, generation)                                                                                            \
    X(uint32_t, flow)                                                                                                  \
    X(uint32_t, host)                                                                                                  \
    X(uint64_t, began_ns)                                                                                              \
    X(uint64_t, updated_ns)                                                                                            \
    X(uint64_t, delivered_bytes)                                                                                       \
    X(uint64_t, sent_bytes)                                                                                            \
    X(uint64_t, retrans_bytes)                                                                                         \
    X(uint64_t, unsent_bytes)                                                                                          \
    X(uint64_t, rtt_sum_ns)                                                                                            \
    X(uint64_t, rtt_samples)

#define NCC_REPORT_VALUE(type, name) int64_t name = 0;
#define NCC_REPORT_OFFSET(type, name) size_t name;

struct Report {
    NCC_REPORT_FIELDS(NCC_REPORT_VALUE)
};

class Reports
{
  public:
    using Bytes = nanobind::ndarray<uint8_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

    // `offsets` are those of all fields in a row; `live` and `ended` are values of `state`, which is 0 in a free slot.
    Reports(Bytes rows, const std::map<std::string, size_t> &offsets, int64_t live, int64_t ended)
        : live(live), ended(ended), rows_(rows)
    {
#define NCC_REPORT_FIND(type, name) at_.name = offsets.at(#name);
        NCC_REPORT_FIELDS(NCC_REPORT_FIND)
#undef NCC_REPORT_FIND
    }

    size_t slots() const { return rows_.shape(0); }

    // Calls visit(slot, report) for each slot in use among the first `used`. Returns the slots whose connections have
    // ended, and the number of reports that were skipped because the kernel was writing them.
    template <typename Visit>
    std::pair<std::vector<int64_t>, size_t> Each(size_t used, const Visit &visit) const
    {
        std::vector<int64_t> done;
        size_t torn = 0;
        for (size_t slot = 0; slot < std::min(used, slots()); ++slot) {
            const uint8_t *row = rows_.data() + slot * rows_.shape(1);
            Report report;
            if (Load<uint32_t>(row, at_.state) == 0) {
                continue;
            }
            if (!Read(row, report)) {
                ++torn;
                continue;
            }
            if (report.state == ended) {
                done.push_back(static_cast<int64_t>(slot));
            }
            visit(slot, report);
        }
        return {std::move(done), torn};
    }

    const int64_t live, ended;

  private:
    static constexpr int kReads = 100; // attempts to read a report; writing one takes less than a microsecond

    template <typename T>
    static T Load(const uint8_t *row, size_t at)
    {
        return __atomic_load_n(reinterpret_cast<const T *>(row + at), __ATOMIC_RELAXED);
    }

    // Makes a consistent copy of a report; returns false if the kernel was writing it at every attempt.
    bool Read(const uint8_t *row, Report &report) const
    {
        for (int i = 0; i < kReads; ++i) {
            const auto before = __atomic_load_n(reinterpret_cast<const uint32_t *>(row + at_.seq), __ATOMIC_ACQUIRE);
#define NCC_REPORT_LOAD(type, name) report.name = static_cast<int64_t>(Load<type>(row, at_.name));
            NCC_REPORT_FIELDS(NCC_REPORT_LOAD)
#undef NCC_REPORT_LOAD
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
            if (before % 2 == 0 && before == Load<uint32_t>(row, at_.seq)) {
                return true;
            }
        }
        return false;
    }

    struct {
        NCC_REPORT_FIELDS(NCC_REPORT_OFFSET)
    } at_{};
    Bytes rows_;
};

#undef NCC_REPORT_VALUE
#undef NCC_REPORT_OFFSET

} // namespace ncc
