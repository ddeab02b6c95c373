// SPDX-License-Identifier: BSD-3-Clause
// What a period takes of every connection, in one pass each: reports out of the map that the kernel writes, and the
// columns of hosts (ncc/core/measurement.py). ncc/envs/linux/extension.py is the same in Python types.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
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

template <typename T>
using Column = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr int kReads = 100; // of a report that the kernel is writing: writing one takes less than a microsecond

// Where a report's fields lie, in the order of `REPORT_FIELDS` of extension.py.
struct Layout {
    size_t seq, state, generation, flow, delivered, sent, retrans, rtt_sum, rtt_samples;
};

struct Report {
    uint32_t state, generation, flow;
    uint64_t delivered, sent, retrans, rtt_sum, rtt_samples;
};

template <typename T>
T Load(const uint8_t *row, size_t at)
{
    return __atomic_load_n(reinterpret_cast<const T *>(row + at), __ATOMIC_RELAXED);
}

// A consistent copy; false if the kernel wrote whenever it was read.
bool Read(const uint8_t *row, const Layout &at, Report &report)
{
    for (int i = 0; i < kReads; ++i) {
        const auto before = __atomic_load_n(reinterpret_cast<const uint32_t *>(row + at.seq), __ATOMIC_ACQUIRE);
        report = {Load<uint32_t>(row, at.state),   Load<uint32_t>(row, at.generation),
                  Load<uint32_t>(row, at.flow),    Load<uint64_t>(row, at.delivered),
                  Load<uint64_t>(row, at.sent),    Load<uint64_t>(row, at.retrans),
                  Load<uint64_t>(row, at.rtt_sum), Load<uint64_t>(row, at.rtt_samples)};
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (before % 2 == 0 && before == Load<uint32_t>(row, at.seq)) {
            return true;
        }
    }
    return false;
}

// Arrays over all flows of a run.
struct Flows {
    Column<int64_t> size, delivered, left, rtt_samples;
    Column<double> rtt_sum_s;
};

// Takes in what the sender of a flow has counted since it began. Older news changes nothing.
void Hear(const Flows &flows, size_t row, uint64_t delivered, uint64_t left, double rtt_sum_s, uint64_t rtt_samples)
{
    const auto size = static_cast<uint64_t>(flows.size(row));
    auto &known = flows.delivered(row);
    known = std::max(known, static_cast<int64_t>(std::min(delivered, size)));
    flows.left(row) = std::max({flows.left(row), static_cast<int64_t>(std::min(left, size)), known});
    if (static_cast<int64_t>(rtt_samples) > flows.rtt_samples(row)) {
        flows.rtt_samples(row) = static_cast<int64_t>(rtt_samples);
        flows.rtt_sum_s(row) = rtt_sum_s;
    }
}

// Of every slot in use: its index, its generation and the row of its flow (-1: of no flow of the run); and the slots
// whose connections have ended; and how many were passed over this time, because their writer is stopped in the middle.
std::tuple<size_t, std::vector<int64_t>, size_t> Collect(Bytes reports, const std::vector<size_t> &fields,
                                                         uint32_t ended_state, const Flows &flows,
                                                         Column<int64_t> slots, Column<uint32_t> generations,
                                                         Column<int64_t> rows)
{
    if (fields.size() != 9 || slots.shape(0) < reports.shape(0) || generations.shape(0) < reports.shape(0) ||
        rows.shape(0) < reports.shape(0)) {
        throw std::invalid_argument("reports, fields and outputs do not fit each other");
    }
    const Layout at = {fields[0], fields[1], fields[2], fields[3], fields[4],
                       fields[5], fields[6], fields[7], fields[8]};
    std::vector<int64_t> ended;
    size_t n = 0, torn = 0;
    for (size_t slot = 0; slot < reports.shape(0); ++slot) {
        const uint8_t *row = reports.data() + slot * reports.shape(1);
        Report report;
        if (Load<uint32_t>(row, at.state) == 0) {
            continue;
        }
        if (!Read(row, at, report)) {
            ++torn;
            continue;
        }
        const bool known = report.flow > 0 && report.flow <= flows.size.shape(0);
        slots(n) = static_cast<int64_t>(slot);
        generations(n) = report.generation;
        rows(n) = known ? static_cast<int64_t>(report.flow) - 1 : -1;
        ++n;
        if (known) {
            Hear(flows, report.flow - 1, report.delivered, report.sent - report.retrans,
                 static_cast<double>(report.rtt_sum) * 1e-9, report.rtt_samples);
        }
        if (report.state == ended_state) {
            ended.push_back(static_cast<int64_t>(slot));
        }
    }
    return {n, std::move(ended), torn};
}

// Rows of what `Measure` fills; `HOST_SUMS` of extension.py.
enum Sum { kGoodput, kRttSum, kRttSamples, kWait, kQueued, kNext, kQueuedFlows, kActive, kPerByte, kActiveLeft, kSums };

// What was counted when the last epoch ended.
struct Before {
    Column<int64_t> delivered, left, rtt_samples;
    Column<double> rtt_sum_s, last_left_s;
};

// Sums by agent over `came`, flows that had arrived and not been delivered when the epoch began or have arrived in it;
// keeps at its front those that are left. `agent` of a flow that no agent sends is the number of agents.
size_t Measure(Column<int64_t> came, const Flows &flows, Before before, Column<const int64_t> agent,
               Column<const uint8_t> limited, Column<const uint8_t> finished, double time_s, Table sums)
{
    const size_t agents = sums.shape(1);
    if (sums.shape(0) != kSums) {
        throw std::invalid_argument("the table of sums has the wrong shape");
    }
    std::fill_n(sums.data(), sums.size(), 0.0);
    size_t kept = 0;
    for (size_t i = 0; i < came.shape(0); ++i) {
        const auto row = static_cast<size_t>(came(i));
        const auto host = static_cast<size_t>(agent(row));
        const int64_t size = flows.size(row);
        if (finished(row)) {
            flows.delivered(row) = flows.left(row) = size;
        } else {
            came(kept++) = static_cast<int64_t>(row);
        }
        const int64_t delivered = flows.delivered(row), left = flows.left(row);
        if (left > before.left(row)) {
            before.last_left_s(row) = time_s;
        }
        if (host < agents) {
            sums(kGoodput, host) += static_cast<double>(delivered - before.delivered(row));
            sums(kRttSum, host) += flows.rtt_sum_s(row) - before.rtt_sum_s(row);
            sums(kRttSamples, host) += static_cast<double>(flows.rtt_samples(row) - before.rtt_samples(row));
            if (!finished(row)) {
                sums(kActive, host) += 1;
                sums(kPerByte, host) += 1 / static_cast<double>(size);
                sums(kActiveLeft, host) += static_cast<double>(size - delivered) / static_cast<double>(size);
            }
            if (left < size && limited(row)) {
                const auto rest = static_cast<double>(size - left);
                sums(kWait, host) += time_s - before.last_left_s(row);
                sums(kQueued, host) += rest;
                sums(kNext, host) = sums(kQueuedFlows, host) > 0 ? std::min(sums(kNext, host), rest) : rest;
                sums(kQueuedFlows, host) += 1;
            }
        }
        before.delivered(row) = delivered;
        before.left(row) = left;
        before.rtt_sum_s(row) = flows.rtt_sum_s(row);
        before.rtt_samples(row) = flows.rtt_samples(row);
    }
    return kept;
}

} // namespace

void bind_reports(nb::module_ &m)
{
    // Nothing is converted: what is written into a copy would be lost.
    nb::class_<Flows>(m, "Flows")
        .def(
            "__init__",
            [](Flows *self, Column<int64_t> size, Column<int64_t> delivered, Column<int64_t> left,
               Column<double> rtt_sum_s, Column<int64_t> rtt_samples) {
                for (const size_t n : {delivered.shape(0), left.shape(0), rtt_sum_s.shape(0), rtt_samples.shape(0)}) {
                    if (n != size.shape(0)) {
                        throw std::invalid_argument("columns differ in length");
                    }
                }
                new (self) Flows{size, delivered, left, rtt_samples, rtt_sum_s};
            },
            "size_bytes"_a.noconvert(), "delivered_bytes"_a.noconvert(), "left_bytes"_a.noconvert(),
            "rtt_sum_s"_a.noconvert(), "rtt_samples"_a.noconvert());
    nb::class_<Before>(m, "Before")
        .def(
            "__init__",
            [](Before *self, Column<int64_t> delivered, Column<int64_t> left, Column<double> rtt_sum_s,
               Column<int64_t> rtt_samples,
               Column<double> last_left_s) { new (self) Before{delivered, left, rtt_samples, rtt_sum_s, last_left_s}; },
            "delivered_bytes"_a.noconvert(), "left_bytes"_a.noconvert(), "rtt_sum_s"_a.noconvert(),
            "rtt_samples"_a.noconvert(), "last_left_s"_a.noconvert());
    m.def("collect", &Collect, nb::kw_only(), "reports"_a.noconvert(), "fields"_a, "ended_state"_a, "flows"_a,
          "slots"_a.noconvert(), "generations"_a.noconvert(), "rows"_a.noconvert());
    m.def("measure", &Measure, nb::kw_only(), "came"_a.noconvert(), "flows"_a, "before"_a, "agent"_a.noconvert(),
          "limited"_a.noconvert(), "finished"_a.noconvert(), "time_s"_a, "sums"_a.noconvert());
}
