// SPDX-License-Identifier: BSD-3-Clause
// The inner loops of two small dense networks. kernels.cc is compiled once per instruction set; the processor decides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ncc::a3c
{

constexpr size_t kLanes = 8; // floats in a vector; widths are padded to multiples of it with zeros

constexpr size_t Padded(size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Matrices are row-major with the distance between rows given. "Packed" is [k, n] in strips of 16 columns (the last may
// have 8), each strip contiguous: what the loops read in order.
struct Kernels {
    // y [rows, n] = x [rows, k] * packed [k, n] + bias [n], through tanh if `squash`.
    void (*dense)(const float *x, size_t ldx, const float *packed, const float *bias, float *y, size_t ldy, size_t rows,
                  size_t k, size_t n, bool squash);
    // d [rows, n] = (g [rows, k] * packed [k, n]) * (1 - h [rows, n]^2): through a layer's weights and its tanh.
    void (*back)(const float *g, size_t ldg, const float *packed, const float *h, size_t ldh, float *d, size_t ldd,
                 size_t rows, size_t k, size_t n);
    // c [m, n] += g [rows, m] transposed * x [rows, n]; sums [m] += column sums of g.
    void (*weights)(const float *g, size_t ldg, const float *x, size_t ldx, float *c, size_t ldc, float *sums,
                    size_t rows, size_t m, size_t n);
    // In place: logits [rows, n] to log-probabilities, and probabilities beside them. Columns from `n_actions` on count
    // as impossible. Draws an action per row: the first whose share of the distribution lies above uniform [rows].
    // False: a logit is not finite.
    bool (*choose)(float *logits, float *probabilities, size_t ld, size_t rows, size_t n_actions, const double *uniform,
                   int64_t *actions);
};

extern const Kernels kPlain, kAvx2;

} // namespace ncc::a3c
