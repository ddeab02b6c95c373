// SPDX-License-Identifier: BSD-3-Clause
// Arrays passed from Python, and the affine layers of a policy's network.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
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
    return {array.data(), array.data() + size};
}

struct Layer {
    size_t inputs, outputs;
    std::vector<float> weights, bias; // [inputs, outputs], so that a row is added to all sums at once
};

inline Layer Transposed(const Array<float> &weights, const Array<float> &bias)
{
    if (weights.ndim() != 2 || bias.size() != weights.shape(0)) {
        throw std::invalid_argument("a layer needs weights [outputs, inputs] and bias [outputs]");
    }
    const size_t outputs = weights.shape(0), inputs = weights.shape(1);
    Layer layer = {inputs, outputs, std::vector<float>(inputs * outputs), Copy(bias, outputs, "bias")};
    for (size_t i = 0; i < inputs; ++i) {
        for (size_t j = 0; j < outputs; ++j) {
            layer.weights[i * outputs + j] = weights.data()[j * inputs + i];
        }
    }
    return layer;
}

} // namespace ncc
