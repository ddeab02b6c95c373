// SPDX-License-Identifier: BSD-3-Clause
// Parameters of an observer, which columns.py computes, and the arrays of a measurement.
#pragma once

#include "kinds.h"
#include "local.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ncc
{

// A signal of a measurement: an array [hosts] or [uplinks] of doubles, or of int64_t if it counts. With several
// networks they are `row` bytes apart; numbers of one network are `step` bytes apart.
class Signal
{
  public:
    Signal(const void *data, bool counts, size_t size, int64_t step, int64_t row = 0)
        : data_(static_cast<const char *>(data)), size_(size), row_(row), step_(step), count_(counts)
    {
    }

    size_t Size() const { return size_; }

    double At(size_t row, size_t i) const
    {
        const char *at = data_ + static_cast<int64_t>(row) * row_ + static_cast<int64_t>(i) * step_;
        return count_ ? static_cast<double>(*reinterpret_cast<const int64_t *>(at))
                      : *reinterpret_cast<const double *>(at);
    }

  private:
    const char *data_;
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

// The name of a feature's kind (kinds.h), and its places.
using NamedEntry = std::pair<std::string, std::array<size_t, 5>>;

struct Tables {
    // `From` reads parameters by name: `Real`, `Size`, `Flag`; `Array<T>`; and `Columns`, `Entries` and `Constants`.
    template <typename From>
    explicit Tables(const From &from)
        : n(from.Size("n")), neighbours(from.Size("neighbours")), size(from.Size("size")), delay(from.Size("delay")),
          ceiling(static_cast<float>(from.Real("ceiling")))
    {
        for (const std::vector<int> &each : from.Columns()) {
            columns.push_back({static_cast<size_t>(each.at(0)), each.at(1), static_cast<size_t>(each.at(2)),
                               static_cast<size_t>(each.at(3)), each.at(4) != 0});
        }
        for (const auto &[kind, at] : from.Entries()) {
            const auto found = Features().find(kind);
            if (found == Features().end()) {
                throw std::invalid_argument("kinds.h had no function " + kind +
                                            " when it was built: write it, and run make build");
            }
            entries.push_back({found->second, {at[0], at[1], at[2], at[3], at[4]}});
        }
        const auto sized = [&]<typename T>(std::vector<T> &to, const char *name, size_t length) {
            to = from.template Array<T>(name);
            if (to.size() != length) {
                throw std::invalid_argument(std::string(name) + " has the wrong size");
            }
        };
        sized(cut, "cut", size), sized(unit, "unit", size), sized(offset, "offset", size);
        sized(least, "least", size), sized(most, "most", size), sized(gain, "gain", size);
        sized(area, "area", n), sized(near, "near", n * neighbours), sized(lies, "lies", n);
        for (size_t k = 0; k < near.size(); ++k) {
            const size_t i = k / neighbours, around = neighbours + 1, first = i / around * around;
            if (static_cast<size_t>(near[k]) != first + (i + 1 + k % neighbours) % around) {
                throw std::invalid_argument("neighbours must have consecutive numbers and follow their host");
            }
        }
        sized(uplink_frac, "uplink_frac", n), sized(links, "links", n * neighbours);
        constants = from.Constants();
        shared = from.template Array<size_t>("shared");
        uplink = from.template Array<size_t>("uplink");
        shared_flows = from.Size("shared_flows");
        shared_throughput = from.Size("shared_throughput");
        shared_limit = from.Size("shared_limit");
        next = from.Size("next");
        flows = from.Size("flows");
        used = from.Size("used");
        queue = from.Size("queue");
        sized(queue_log, "queue_log", n), sized(queue_unit, "queue_unit", n);
        pooled = from.Flag("pooled");
        ranked = from.Flag("ranked");
        ordered = from.Flag("ordered");
        const auto rule = [&](const char *name) { return static_cast<float>(from.Real(name)); };
        rules = {rule("gain_of_next"), rule("ranks_alike"), rule("ranks_slack")};
        formula = Formula<float>::Of(rule);
    }

    // Numbers that a host shares with each neighbour: columns, and the rest of its next flow in periods of its link.
    size_t Width() const { return shared.size() + 1; }

    size_t Areas() const
    {
        return area.empty() ? 0 : 1 + static_cast<size_t>(*std::max_element(area.begin(), area.end()));
    }

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
    bool pooled, ranked, ordered;
    Rules rules;
    Formula<float> formula;
};

} // namespace ncc
