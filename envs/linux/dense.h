// SPDX-License-Identifier: BSD-3-Clause
// A dense layer and its tanh, for several hosts at a time. Included by one file only.
#ifndef NCC_LINUX_DENSE_H
#define NCC_LINUX_DENSE_H

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ncc
{

// The compiler also makes versions of these loops for wider registers; one is chosen when the module is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define WIDE
#endif

// out [rows, outputs] = in [rows, inputs] x weights [inputs, outputs] + bias.
WIDE inline void Affine(const float *in, size_t rows, size_t inputs, const float *weights, const float *bias,
                        size_t outputs, float *out)
{
    for (size_t row = 0; row < rows; ++row) {
        float *sums = out + row * outputs;
        std::copy_n(bias, outputs, sums);
        for (size_t i = 0; i < inputs; ++i) {
            const float x = in[row * inputs + i];
            const float *of = weights + i * outputs;
            for (size_t j = 0; j < outputs; ++j) {
                sums[j] += x * of[j];
            }
        }
    }
}

// Computes tanh(x) = 1 - 2 / (1 + e^2x) in place, to within some 1e-7. e^y is 2^k times 2^f with -1/2 <= f <= 1/2: 2^k
// comes from the exponent's bits and 2^f from its Taylor series, so the loop has no calls or branches. NaN stays NaN.
WIDE inline void Tanh(float *x, size_t n)
{
    constexpr float kLog2E = 1.44269504F;
    constexpr float kMost = 20.0F; // 2x is kept within +-20: tanh(10) is 1 in float.
    for (size_t i = 0; i < n; ++i) {
        const float twice = 2 * x[i];
        // This is a number even for NaN, because NaN cannot be converted to an integer.
        const float y = (twice > kMost ? kMost : twice > -kMost ? twice : -kMost) * kLog2E;
        const auto whole = static_cast<int32_t>(y + (y < 0 ? -0.5F : 0.5F));
        const float f = (y - static_cast<float>(whole)) * 0.693147181F;
        const float part =
            1 + f * (1 + f * (1 / 2.F + f * (1 / 6.F + f * (1 / 24.F + f * (1 / 120.F + f * (1 / 720.F))))));
        const float power = std::bit_cast<float>((whole + 127) << 23) * part;
        x[i] = twice == twice ? 1 - 2 / (1 + power) : twice;
    }
}

} // namespace ncc

#endif
