// SPDX-License-Identifier: BSD-3-Clause
// Arrays passed from Python, and the network of a policy's layers.
#pragma once

#include "dense.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
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

// A network of weights [outputs, inputs] and bias [outputs] of each layer.
inline Layers LayersOf(const std::vector<std::pair<Array<float>, Array<float>>> &layers)
{
    std::vector<size_t> sizes;
    std::vector<float> all;
    for (const auto &[weights, bias] : layers) {
        if (weights.ndim() != 2 || bias.size() != weights.shape(0) ||
            (!sizes.empty() && sizes.back() != weights.shape(1))) {
            throw std::invalid_argument("layers do not fit each other");
        }
        if (sizes.empty()) {
            sizes.push_back(weights.shape(1));
        }
        sizes.push_back(weights.shape(0));
        all.insert(all.end(), weights.data(), weights.data() + weights.size());
        all.insert(all.end(), bias.data(), bias.data() + bias.size());
    }
    Layers made(sizes);
    made.Load(all.data());
    return made;
}

} // namespace ncc
