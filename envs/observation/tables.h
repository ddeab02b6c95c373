// SPDX-License-Identifier: BSD-3-Clause
// Parameters of an observer, which columns.py computes, and the arrays of a measurement.
#pragma once

#include "kinds.h"
#include "local.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace ncc
{

template <typename T>
using Array = nanobind::ndarray<const T, nanobind::c_contig, nanobind::device::cpu>;

template <typename T>
std::vector<T> Copy(const Array<T> &array, size_t size, const char *name)
{
    if (array.size() != size) {
        throw std::invalid_argument(std::string(name) + " has the wrong size");
    }
    return std::vector<T>(array.data(), array.data() + size);
}

// A signal of a measurement: an array [hosts] or [uplinks], or with a leading axis of networks, of any strides.
class Signal
{
  public:
    using Any = nanobind::ndarray<nanobind::ro, nanobind::device::cpu>;

    Signal(const Any &array, size_t networks) : data_(array.data())
    {
        const bool several = array.ndim() == 2;
        count_ = array.dtype() == nanobind::dtype<int64_t>();
        if ((!count_ && array.dtype() != nanobind::dtype<double>()) || (!several && array.ndim() != 1) ||
            (several ? array.shape(0) : 1) != networks) {
            throw std::invalid_argument("a signal has the wrong type or shape");
        }
        size_ = array.shape(several);
        row_ = several ? array.stride(0) : 0;
        step_ = array.stride(several);
    }

    size_t Size() const { return size_; }

    double At(size_t row, size_t i) const
    {
        const auto at = static_cast<int64_t>(row) * row_ + static_cast<int64_t>(i) * step_;
        return count_ ? static_cast<double>(static_cast<const int64_t *>(data_)[at])
                      : static_cast<const double *>(data_)[at];
    }

  private:
    const void *data_;
    size_t size_;
    int64_t row_, step_;
    bool count_;
};

using Signals = std::vector<Signal>;

// A number of each host or uplink, made of a signal, and where those lie in the vector of a measurement.
struct Column {
    size_t signal;
    int over; // number of the signal that it is divided by; -1: none
    size_t first, size;
    bool logarithmic;
};

struct Entry {
    Feature feature;
    Where where;
};

struct Tables {
    explicit Tables(const nanobind::dict &from)
        : n(Get<size_t>(from, "n")), neighbours(Get<size_t>(from, "neighbours")), size(Get<size_t>(from, "size")),
          delay(Get<size_t>(from, "delay")), ceiling(static_cast<float>(Get<double>(from, "ceiling")))
    {
        for (const auto &each : Get<std::vector<std::vector<int>>>(from, "columns")) {
            columns.push_back({static_cast<size_t>(each.at(0)), each.at(1), static_cast<size_t>(each.at(2)),
                               static_cast<size_t>(each.at(3)), each.at(4) != 0});
        }
        for (const nanobind::handle each : from["entries"]) {
            const auto kind = nanobind::cast<std::string>(each[0]);
            const auto found = Features().find(kind);
            if (found == Features().end()) {
                throw std::invalid_argument("kinds.h had no function " + kind +
                                            " when it was built: write it, and run make build");
            }
            const auto at = [&](int k) { return nanobind::cast<size_t>(each[k]); };
            entries.push_back({found->second, {at(1), at(2), at(3), at(4), at(5)}});
        }
        const auto reals = [&](const char *name, std::vector<double> &to) {
            to = Copy(Get<Array<double>>(from, name), size, name);
        };
        reals("cut", cut), reals("unit", unit), reals("offset", offset);
        reals("least", least), reals("most", most), reals("gain", gain);
        area = Copy(Get<Array<int64_t>>(from, "area"), n, "area");
        near = Copy(Get<Array<int64_t>>(from, "near"), n * neighbours, "near");
        lies = Copy(Get<Array<bool>>(from, "lies"), n, "lies");
        uplink_frac = Copy(Get<Array<float>>(from, "uplink_frac"), n, "uplink_frac");
        links = Copy(Get<Array<float>>(from, "links"), n * neighbours, "links");
        for (const auto &each : Get<std::vector<Array<float>>>(from, "constants")) {
            constants.push_back(Copy(each, n, "constants"));
        }
        shared = Get<std::vector<size_t>>(from, "shared");
        uplink = Get<std::vector<size_t>>(from, "uplink");
        shared_flows = Get<size_t>(from, "shared_flows");
        shared_throughput = Get<size_t>(from, "shared_throughput");
        shared_limit = Get<size_t>(from, "shared_limit");
        next = Get<size_t>(from, "next");
        flows = Get<size_t>(from, "flows");
        used = Get<size_t>(from, "used");
        queue = Get<size_t>(from, "queue");
        queue_log = Copy(Get<Array<float>>(from, "queue_log"), n, "queue_log");
        queue_unit = Copy(Get<Array<float>>(from, "queue_unit"), n, "queue_unit");
        ranked = Get<bool>(from, "ranked");
        ordered = Get<bool>(from, "ordered");
        const auto rule = [&](const char *name) { return static_cast<float>(Get<double>(from, name)); };
        rules = {rule("gain_of_next"), rule("ranks_alike"), rule("ranks_slack")};
        formula = Formula<float>::Of(rule);
    }

    // Numbers that a host shares with each neighbour: columns, and the rest of its next flow in periods of its link.
    size_t Width() const { return shared.size() + 1; }

    size_t Areas() const
    {
        return area.empty() ? 0 : 1 + static_cast<size_t>(*std::max_element(area.begin(), area.end()));
    }

    // True if the host that is neighbour j of host i always reports that it is idle.
    bool Lies(size_t i, size_t j) const { return lies[static_cast<size_t>(near[i * neighbours + j])]; }

    size_t n, neighbours, size, delay;
    float ceiling;
    std::vector<Column> columns;
    std::vector<Entry> entries;
    std::vector<double> cut, unit, offset, least, most, gain; // [size]
    std::vector<int64_t> area, near;                          // [n], [n, neighbours]
    std::vector<bool> lies;                                   // [n]
    std::vector<float> uplink_frac, links;                    // [n], [n, neighbours]
    std::vector<std::vector<float>> constants;                // [n] each
    std::vector<size_t> shared, uplink; // first places of the columns in messages of hosts and uplinks
    size_t shared_flows, shared_throughput, shared_limit, next, flows;
    size_t used;                              // number of the uplink's throughput among its numbers
    size_t queue;                             // number of the uplink's queue among its numbers
    std::vector<float> queue_log, queue_unit; // [n] from that number to periods of the uplink
    bool ranked, ordered;
    Rules rules;
    Formula<float> formula;

  private:
    template <typename T>
    static T Get(const nanobind::dict &from, const char *name)
    {
        return nanobind::cast<T>(from[name]);
    }
};

} // namespace ncc
