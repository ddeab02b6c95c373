// SPDX-License-Identifier: BSD-3-Clause
// Values that user space writes for the kernel each period: hosts' rates, from limits and from what hosts really sent,
// and flows' weights. ncc/envs/linux/limits.py and order.py explain them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

template <typename T>
using Column = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

class Steering
{
  public:
    // `hosts` is the map's memory, a row for each host; `rate_at` and `decision_at` are offsets in a row.
    Steering(Bytes hosts, size_t rate_at, size_t decision_at, size_t n, double most, double horizon_s, double memory_s,
             double below, double trim_frac)
        : hosts_(hosts), rate_at_(rate_at), decision_at_(decision_at), most_(most), horizon_s_(horizon_s),
          memory_s_(memory_s), below_(below), trim_frac_(trim_frac), limits_(n, INFINITY), due_bytes_(n)
    {
        if (n > hosts.shape(0) || std::max(rate_at, decision_at) + sizeof(uint64_t) > hosts.shape(1)) {
            throw std::invalid_argument("there are more hosts than rows, or rows end before their fields");
        }
    }

    void Steer(Column<const double> limits, bool decided, double interval_s, Column<const double> sent_bps,
               Column<const double> waiting_bytes)
    {
        const size_t n = limits_.size();
        if (limits.shape(0) != n || sent_bps.shape(0) != n || waiting_bytes.shape(0) != n) {
            throw std::invalid_argument("columns of hosts differ in length");
        }
        for (size_t i = 0; i < n; ++i) {
            double &due = due_bytes_[i];
            if (std::isinf(limits_[i]) || !std::isfinite(sent_bps(i))) {
                due = 0;
            } else {
                due += (limits_[i] - sent_bps(i)) * interval_s / 8;
                due = waiting_bytes(i) > 0 ? due : std::min(due, 0.0);
            }
            limits_[i] = limits(i);
            const double rate = limits(i) / 8, trim = trim_frac_ * rate, bound = trim * memory_s_;
            uint64_t written = 0; // no limit
            if (!std::isinf(rate)) {
                due = std::clamp(due, -below_ * bound, bound);
                written = static_cast<uint64_t>(
                    std::clamp(rate + std::clamp(due / horizon_s_, -below_ * trim, trim), 1.0, most_));
            }
            Store(i, rate_at_, written);
            if (decided) {
                Store(i, decision_at_, *At(i, decision_at_) + 1);
            }
        }
    }

  private:
    uint64_t *At(size_t host, size_t at) const
    {
        return reinterpret_cast<uint64_t *>(hosts_.data() + host * hosts_.shape(1) + at);
    }
    void Store(size_t host, size_t at, uint64_t value) { __atomic_store_n(At(host, at), value, __ATOMIC_RELEASE); }

    Bytes hosts_;
    size_t rate_at_, decision_at_;
    double most_, horizon_s_, memory_s_, below_, trim_frac_;
    std::vector<double> limits_, due_bytes_; // limits in force; bytes that hosts were allowed and did not send
};

// Computes weights of flows by the rank of their key among those of their host, as order.py describes.
void RankWeights(Column<const int64_t> agent, Column<const uint64_t> keys, Column<const int64_t> rows, int64_t depth,
                 int64_t first, int64_t step, int64_t least, Column<int64_t> weights)
{
    const size_t n = agent.shape(0);
    if (keys.shape(0) != n || rows.shape(0) != n || weights.shape(0) != n || step < 1) {
        throw std::invalid_argument("columns differ in length");
    }
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<char> late(n);
    // Sorts the flows of each host and calls `mark` with every flow and its rank, counted from 0.
    const auto ranked = [&](auto &&before, auto &&mark) {
        std::sort(order.begin(), order.end(), before);
        for (size_t i = 0, from = 0; i < n; ++i) {
            from = i && agent(order[i]) != agent(order[i - 1]) ? i : from;
            mark(order[i], static_cast<int64_t>(i - from));
        }
    };
    if (depth > 0) {
        ranked([&](size_t a, size_t b) { return std::tuple(agent(a), rows(a)) < std::tuple(agent(b), rows(b)); },
               [&](size_t flow, int64_t rank) { late[flow] = rank >= depth; });
    }
    // The largest key comes first; among equal keys, the flow that came first.
    ranked(
        [&](size_t a, size_t b) {
            return std::tuple(agent(a), late[a], ~keys(a), rows(a)) < std::tuple(agent(b), late[b], ~keys(b), rows(b));
        },
        [&](size_t flow, int64_t rank) {
            int64_t weight = first;
            for (; rank > 0 && weight > least; --rank) {
                weight /= step;
            }
            weights(flow) = late[flow] ? least : std::max(weight, least);
        });
}

} // namespace

void bind_steer(nb::module_ &m)
{
    nb::class_<Steering>(m, "Steering")
        .def(nb::init<Bytes, size_t, size_t, size_t, double, double, double, double, double>(), nb::kw_only(),
             "hosts"_a.noconvert(), "rate_at"_a, "decision_at"_a, "n"_a, "most"_a, "horizon_s"_a, "memory_s"_a,
             "below"_a, "trim_frac"_a)
        .def("steer", &Steering::Steer, "limits"_a.noconvert(), "decided"_a, "interval_s"_a, "sent_bps"_a.noconvert(),
             "waiting_bytes"_a.noconvert());
    m.def("rank_weights", &RankWeights, "agent"_a.noconvert(), "keys"_a.noconvert(), "rows"_a.noconvert(), "depth"_a,
          "first"_a, "step"_a, "least"_a, "weights"_a.noconvert());
}
