// SPDX-License-Identifier: BSD-3-Clause
// Parameters and measurements that Python gives, as `Tables`, `Rates` and `Signal` take them.
#pragma once

#include "tables.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace ncc
{

// Reads a dict by name.
class FromPython
{
    template <typename T>
    using Given = nanobind::ndarray<const T, nanobind::c_contig, nanobind::device::cpu>;

    template <typename T>
    static std::vector<T> Copy(const Given<T> &array)
    {
        return std::vector<T>(array.data(), array.data() + array.size());
    }

  public:
    explicit FromPython(const nanobind::dict &from) : from_(from) {}

    double Real(const char *name) const { return Get<double>(name); }
    size_t Size(const char *name) const { return Get<size_t>(name); }
    bool Flag(const char *name) const { return Get<bool>(name); }
    std::string Text(const char *name) const { return Get<std::string>(name); }
    template <typename T>
    std::vector<T> Array(const char *name) const
    {
        if constexpr (std::is_same_v<T, size_t>) { // a list or tuple of places
            return Get<std::vector<size_t>>(name);
        } else {
            return Copy<T>(Get<Given<T>>(name));
        }
    }
    std::vector<std::vector<int>> Columns() const { return Get<std::vector<std::vector<int>>>("columns"); }
    std::vector<NamedEntry> Entries() const
    {
        std::vector<NamedEntry> entries;
        for (const nanobind::handle each : from_["entries"]) {
            const auto at = [&](int k) { return nanobind::cast<size_t>(each[k]); };
            entries.push_back({nanobind::cast<std::string>(each[0]), {at(1), at(2), at(3), at(4), at(5)}});
        }
        return entries;
    }
    std::vector<std::vector<float>> Constants() const
    {
        std::vector<std::vector<float>> constants;
        for (const auto &each : Get<std::vector<Given<float>>>("constants")) {
            constants.push_back(Copy<float>(each));
        }
        return constants;
    }

  private:
    template <typename T>
    T Get(const char *name) const
    {
        return nanobind::cast<T>(from_[name]);
    }

    const nanobind::dict &from_;
};

using AnySignal = nanobind::ndarray<nanobind::ro, nanobind::device::cpu>;

// A signal [n], or [networks, n], of any strides.
inline Signal SignalOf(const AnySignal &array, size_t networks)
{
    const bool several = array.ndim() == 2, counts = array.dtype() == nanobind::dtype<int64_t>();
    if ((!counts && array.dtype() != nanobind::dtype<double>()) || (!several && array.ndim() != 1) ||
        (several ? array.shape(0) : 1) != networks) {
        throw std::invalid_argument("a signal has the wrong type or shape");
    }
    constexpr int64_t kBytes = 8;
    return {array.data(), counts, array.shape(several), kBytes * array.stride(several),
            several ? kBytes * array.stride(0) : 0};
}

} // namespace ncc
