// SPDX-License-Identifier: BSD-3-Clause
// Two passes per period over the live flows: one sums up receivers' knowledge by pair of hosts, the other writes the
// decision for each sender. The class Gates in gates.py explains both.
#include "reports.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

using ncc::Column;
using ncc::Flows;
using Table = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Field = nb::ndarray<T, nb::ndim<1>, nb::device::cpu>; // one field of all rows of a BPF map

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr uint64_t kAtOnceNs = 1;

// Columns of edges; their pair and its number of flows are apart.
enum EdgeColumn { kWaiting, kNext, kReceived, kAge, kEdgeColumns };

class Pairs
{
  public:
    // `pair` and `heard_s` have an entry per flow: its pair, and the time at which its receiver learned of it (NaN: not
    // yet). The columns from `as_of_s` to `flows` have an entry per pair: its last grant, and its number of flows.
    // `edges` and `columns` are room for the edges.
    Pairs(Column<const int64_t> pair, Column<double> heard_s, Column<double> as_of_s, Column<const double> start_s,
          Column<double> rate_bps, Column<int64_t> window_pkts, Column<int64_t> flows, Column<int64_t> edges,
          Table columns)
        : pair_(pair), heard_s_(heard_s), as_of_s_(as_of_s), start_s_(start_s), rate_bps_(rate_bps),
          window_pkts_(window_pkts), flows_(flows), edges_(edges), columns_(columns), place_(edges.shape(0))
    {
    }

    // Fills the edges of live flows with `from` <= state < `until`, in the order of their first flows. Returns the
    // number of edges. A pair without flows loses its grant.
    size_t Edges(const Flows &flows, Column<const int64_t> live, Column<const int64_t> states, int64_t from,
                 int64_t until, double time_s)
    {
        const std::vector<int64_t> before(edges_.data(), edges_.data() + n_edges_);
        for (const int64_t pair : before) {
            flows_(pair) = 0;
        }
        n_edges_ = 0;
        for (size_t i = 0; i < live.shape(0); ++i) {
            const int64_t row = live(i);
            if (states(row) >= from && states(row) < until) {
                Add(flows, row, time_s);
            }
        }
        for (size_t edge = 0; edge < n_edges_; ++edge) {
            columns_(kAge, edge) = time_s - columns_(kAge, edge);
        }
        for (const int64_t pair : before) {
            if (flows_(pair) == 0) {
                as_of_s_(pair) = -kNone, rate_bps_(pair) = kNone, window_pkts_(pair) = 0;
            }
        }
        return n_edges_;
    }

    // Writes the decisions of connections; those of a row below 0 are no flows of the run. A flow whose start is not
    // after `due_s` begins at once. Returns slot and row of each flow that may begin and is still held, and whether it
    // has a grant.
    std::vector<std::tuple<int64_t, int64_t, bool>> Decide(Column<const int64_t> slots, Column<const int64_t> rows,
                                                           Column<const uint32_t> generations, int64_t start_ns,
                                                           double due_s, double patience_s, int64_t mss_bytes,
                                                           double payload_frac, Field<uint64_t> start,
                                                           Field<uint64_t> most_bytes, Field<uint64_t> rate,
                                                           Field<uint32_t> generation, Field<const uint32_t> held)
    {
        std::vector<std::tuple<int64_t, int64_t, bool>> woken;
        for (size_t i = 0; i < rows.shape(0); ++i) {
            const int64_t row = rows(i), slot = slots(i);
            if (row < 0) {
                continue;
            }
            const int64_t pair = pair_(row);
            const bool told = heard_s_(row) <= as_of_s_(pair);
            const bool may = told ? start_s_(pair) <= due_s : heard_s_(row) + patience_s <= due_s;
            const double at_ns = static_cast<double>(start_ns) + std::rint(start_s_(pair) * 1e9);
            start(slot) = may ? kAtOnceNs : told ? static_cast<uint64_t>(std::max(at_ns, 1.0)) : 0;
            most_bytes(slot) = static_cast<uint64_t>(window_pkts_(pair) * mss_bytes);
            const double share =
                rate_bps_(pair) / static_cast<double>(std::max<int64_t>(flows_(pair), 1)) / 8 * payload_frac;
            rate(slot) = std::isinf(share) ? 0 : static_cast<uint64_t>(std::max(share, 1.0));
            __atomic_store_n(&generation(slot), generations(i), __ATOMIC_RELEASE); // makes the fields above valid
            if (may && held(slot) != 0) {
                woken.emplace_back(slot, row, told);
            }
        }
        return woken;
    }

  private:
    void Add(const Flows &flows, int64_t row, double time_s)
    {
        if (std::isnan(heard_s_(row))) {
            heard_s_(row) = time_s;
        }
        const int64_t pair = pair_(row);
        if (flows_(pair)++ == 0) {
            edges_(n_edges_) = pair;
            place_[static_cast<size_t>(pair)] = n_edges_;
            columns_(kWaiting, n_edges_) = columns_(kReceived, n_edges_) = 0;
            columns_(kNext, n_edges_) = kNone, columns_(kAge, n_edges_) = -kNone;
            ++n_edges_;
        }
        const size_t edge = place_[static_cast<size_t>(pair)];
        const auto received = static_cast<double>(flows.delivered(row));
        const double waiting = std::max(static_cast<double>(flows.known(row)) - received, 0.0);
        columns_(kWaiting, edge) += waiting;
        columns_(kNext, edge) = std::min(columns_(kNext, edge), waiting);
        columns_(kReceived, edge) += received;
        columns_(kAge, edge) = std::max(columns_(kAge, edge), heard_s_(row)); // the newest flow's time
    }

    Column<const int64_t> pair_;
    Column<double> heard_s_, as_of_s_;
    Column<const double> start_s_;
    Column<double> rate_bps_;
    Column<int64_t> window_pkts_, flows_, edges_;
    Table columns_;
    std::vector<size_t> place_; // index of the edge of each pair
    size_t n_edges_ = 0;
};

} // namespace

void bind_gates(nb::module_ &m)
{
    nb::class_<Pairs>(m, "Pairs")
        .def(nb::init<Column<const int64_t>, Column<double>, Column<double>, Column<const double>, Column<double>,
                      Column<int64_t>, Column<int64_t>, Column<int64_t>, Table>(),
             nb::kw_only(), "pair"_a.noconvert(), "heard_s"_a.noconvert(), "as_of_s"_a.noconvert(),
             "start_s"_a.noconvert(), "rate_bps"_a.noconvert(), "window_pkts"_a.noconvert(), "flows"_a.noconvert(),
             "edges"_a.noconvert(), "columns"_a.noconvert())
        .def("edges", &Pairs::Edges, "flows"_a, "live"_a.noconvert(), "states"_a.noconvert(), "first"_a, "until"_a,
             "time_s"_a)
        .def("decide", &Pairs::Decide, nb::kw_only(), "slots"_a.noconvert(), "rows"_a.noconvert(),
             "generations"_a.noconvert(), "start_ns"_a, "due_s"_a, "patience_s"_a, "mss_bytes"_a, "payload_frac"_a,
             "start"_a.noconvert(), "most_bytes"_a.noconvert(), "rate"_a.noconvert(), "generation"_a.noconvert(),
             "held"_a.noconvert());
}
