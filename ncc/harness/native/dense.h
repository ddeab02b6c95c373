// SPDX-License-Identifier: BSD-3-Clause
// Neural networks of tanh layers: the forward pass and its gradient. Include this header in one file of a module.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace ncc
{

// The compiler also makes versions of a function for wider registers; one is chosen when the module is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#pragma GCC diagnostic ignored "-Wpsabi" // about arguments of these types, which no function here has after inlining
#else
#define WIDE
#endif
#define INLINED inline __attribute__((always_inline))

constexpr size_t kLanes = 8;
typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t EightInts __attribute__((vector_size(32), aligned(4), may_alias));

inline size_t Padded(size_t size) { return (size + kLanes - 1) / kLanes * kLanes; }

// A matrix whose number in row r and column c is at[r * row + c * column].
struct Strided {
    const float *at;
    size_t row, column;
};

// Adds `inner` products to `Rows` x 8 `Vectors` sums, which stay in registers. They begin at `start` [8 Vectors], or at
// what `out` holds.
template <int Rows, int Vectors>
INLINED void Tile(Strided a, size_t inner, const float *b, size_t width, const float *start, float *out)
{
    Eight sums[Rows][Vectors];
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Vectors; ++v) {
            sums[r][v] = *reinterpret_cast<const Eight *>((start ? start : out + r * width) + v * kLanes);
        }
    }
    for (size_t i = 0; i < inner; ++i) {
        const Eight *of = reinterpret_cast<const Eight *>(b + i * width);
        for (int r = 0; r < Rows; ++r) {
            const float x = a.at[r * a.row + i * a.column];
            for (int v = 0; v < Vectors; ++v) {
                sums[r][v] += x * of[v];
            }
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Vectors; ++v) {
            *reinterpret_cast<Eight *>(out + r * width + v * kLanes) = sums[r][v];
        }
    }
}

template <int Rows>
INLINED void Stripe(Strided a, size_t inner, const float *b, size_t width, const float *start, float *out)
{
    size_t at = 0;
    for (; at + 2 * kLanes <= width; at += 2 * kLanes) {
        Tile<Rows, 2>(a, inner, b + at, width, start ? start + at : nullptr, out + at);
    }
    if (at < width) {
        Tile<Rows, 1>(a, inner, b + at, width, start ? start + at : nullptr, out + at);
    }
}

// out [rows, width] = start [width] + a [rows, inner] x b [inner, width]; without `start`, the product is added to
// `out`. `width` is a multiple of 8. Each sum is made in the order of `inner`, so a row does not depend on the others.
WIDE inline void Product(Strided a, size_t rows, size_t inner, const float *b, size_t width, const float *start,
                         float *out)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        Stripe<4>({a.at + r * a.row, a.row, a.column}, inner, b, width, start, out + r * width);
    }
    for (; r < rows; ++r) {
        Stripe<1>({a.at + r * a.row, a.row, a.column}, inner, b, width, start, out + r * width);
    }
}

// e^x to within some 1e-7 of its size, for x in [-87, 87]; outside, the value at the nearest bound. It is 2^k times 2^f
// with -1/2 <= f <= 1/2: 2^k comes from the exponent's bits and 2^f from its Taylor series, so there are no branches.
INLINED Eight Exp(Eight x)
{
    const Eight most = Eight{} + 87.0F, half = Eight{} + 0.5F;
    // This is a number even for NaN, because NaN cannot be converted to an integer.
    const Eight y = (x > most ? most : x > -most ? x : -most) * 1.44269504F;
    const EightInts whole = __builtin_convertvector(y + (y < 0 ? -half : half), EightInts);
    const Eight f = (y - __builtin_convertvector(whole, Eight)) * 0.693147181F;
    const Eight part = 1 + f * (1 + f * (1 / 2.F + f * (1 / 6.F + f * (1 / 24.F + f * (1 / 120.F + f * (1 / 720.F))))));
    return std::bit_cast<Eight>((whole + 127) << 23) * part;
}

// tanh(x) = 1 - 2 / (1 + e^2x) in place, for n numbers, a multiple of 8; NaN stays NaN.
WIDE inline void Tanh(float *x, size_t n)
{
    for (size_t i = 0; i < n; i += kLanes) {
        Eight &eight = *reinterpret_cast<Eight *>(x + i);
        const Eight tanh = 1 - 2 / (1 + Exp(2 * eight));
        eight = eight == eight ? tanh : eight;
    }
}

// gradient *= 1 - tanh^2, for n numbers.
WIDE inline void TimesSlope(float *gradient, const float *tanh, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        gradient[i] *= 1 - tanh[i] * tanh[i];
    }
}

// Draws an action per row from softmax(logits): the first whose cumulative probability exceeds the row's number in
// `uniform`. Each row of `logits` [rows, width] has `n` logits and is overwritten. Returns false if one is not finite.
WIDE inline bool Draw(float *logits, size_t rows, size_t n, size_t width, const double *uniform, int64_t *actions)
{
    bool finite = true;
    for (size_t r = 0; r < rows; ++r) {
        float *row = logits + r * width;
        float most = row[0];
        for (size_t k = 0; k < n; ++k) {
            finite &= std::isfinite(row[k]);
            most = std::max(most, row[k]);
        }
        for (size_t i = 0; i < width; i += kLanes) {
            Eight &eight = *reinterpret_cast<Eight *>(row + i);
            eight = Exp(eight - most);
        }
        double total = 0, upto = 0;
        for (size_t k = 0; k < n; ++k) {
            total += row[k];
        }
        // The last action takes what is lost to rounding.
        int64_t action = 0;
        for (size_t k = 0; k + 1 < n; ++k) {
            upto += row[k];
            action += upto <= uniform[r] * total;
        }
        actions[r] = action;
    }
    return finite;
}

// Affine layers with tanh between them. The rows of each layer's outputs are padded with 0 to a multiple of 8.
class Layers
{
  public:
    // Numbers of inputs, of each hidden layer's units, and of outputs.
    explicit Layers(std::vector<size_t> sizes) : sizes_(std::move(sizes))
    {
        if (sizes_.size() < 2 || std::count(sizes_.begin(), sizes_.end(), 0U)) {
            throw std::invalid_argument("a network needs numbers of inputs and outputs of at least 1");
        }
        for (size_t k = 0; k + 1 < sizes_.size(); ++k) {
            const size_t inputs = sizes_[k], outputs = sizes_[k + 1];
            layers_.push_back({std::vector<float>(inputs * Padded(outputs)), std::vector<float>(Padded(outputs)),
                               std::vector<float>(outputs * Padded(inputs))});
            weights_ += outputs * (inputs + 1);
        }
        rows_of_.resize(sizes_.size());
    }

    size_t Inputs() const { return sizes_.front(); }
    size_t Outputs() const { return sizes_.back(); }
    size_t Weights() const { return weights_; }
    size_t Rows() const { return n_; }
    size_t Width() const { return Padded(Outputs()); }

    // Copies the weights: for each layer W [outputs, inputs] and then b [outputs].
    void Load(const float *weights)
    {
        for (size_t k = 0; k < layers_.size(); ++k) {
            const size_t inputs = sizes_[k], outputs = sizes_[k + 1];
            for (size_t j = 0; j < outputs; ++j) {
                for (size_t i = 0; i < inputs; ++i) {
                    const float weight = weights[j * inputs + i];
                    layers_[k].forward[i * Padded(outputs) + j] = layers_[k].backward[j * Padded(inputs) + i] = weight;
                }
            }
            weights += outputs * inputs;
            std::copy_n(weights, outputs, layers_[k].bias.data());
            weights += outputs;
        }
    }

    // Forgets all rows but the first n.
    void Keep(size_t n) { n_ = n; }

    // Passes rows [rows, inputs] forward and keeps them, and the outputs [rows, Width()] that it returns.
    float *Forward(const float *rows, size_t n)
    {
        const size_t first = n_;
        n_ += n;
        for (size_t k = 0; k < sizes_.size(); ++k) {
            if (rows_of_[k].size() < n_ * Padded(sizes_[k])) {
                rows_of_[k].resize(n_ * Padded(sizes_[k]));
            }
        }
        for (size_t r = 0; r < n; ++r) {
            std::copy_n(rows + r * Inputs(), Inputs(), At(0, first + r));
        }
        for (size_t k = 0; k < layers_.size(); ++k) {
            const size_t width = Padded(sizes_[k + 1]);
            Product({At(k, first), Padded(sizes_[k]), 1}, n, sizes_[k], layers_[k].forward.data(), width,
                    layers_[k].bias.data(), At(k + 1, first));
            if (k + 1 < layers_.size()) {
                Tanh(At(k + 1, first), n * width);
            }
        }
        return At(layers_.size(), first);
    }

    // The inputs [Rows(), inputs] or the outputs [Rows(), outputs] that were kept.
    void Kept(bool outputs, float *to) const
    {
        const size_t k = outputs ? layers_.size() : 0, size = sizes_[k];
        for (size_t r = 0; r < n_; ++r) {
            std::copy_n(rows_of_[k].data() + r * Padded(size), size, to + r * size);
        }
    }

    // Computes the gradient with respect to the weights, in the order of `Load`, from that with respect to the outputs
    // [Rows(), outputs].
    void Backward(const float *outputs, float *weights)
    {
        std::vector<float> gradient(n_ * Width()), before;
        for (size_t r = 0; r < n_; ++r) {
            std::copy_n(outputs + r * Outputs(), Outputs(), gradient.data() + r * Width());
        }
        weights += weights_;
        for (size_t k = layers_.size(); k-- > 0;) {
            const size_t size = sizes_[k], width = Padded(size), next = sizes_[k + 1], step = Padded(next);
            std::vector<float> sums(next * width), bias(step);
            // Some rows at a time, which stay in the cache.
            for (size_t r = 0; r < n_; r += kRowsAtOnce) {
                Product({gradient.data() + r * step, 1, step}, next, std::min(kRowsAtOnce, n_ - r), At(k, r), width,
                        nullptr, sums.data());
            }
            for (size_t r = 0; r < n_; ++r) {
                for (size_t j = 0; j < step; ++j) {
                    bias[j] += gradient[r * step + j];
                }
            }
            weights -= next;
            std::copy_n(bias.data(), next, weights);
            weights -= next * size;
            for (size_t j = 0; j < next; ++j) {
                std::copy_n(sums.data() + j * width, size, weights + j * size);
            }
            if (k == 0) {
                return;
            }
            before.resize(n_ * width);
            const std::vector<float> nothing(width);
            Product({gradient.data(), step, 1}, n_, next, layers_[k].backward.data(), width, nothing.data(),
                    before.data());
            TimesSlope(before.data(), At(k, 0), n_ * width);
            gradient.swap(before);
        }
    }

  private:
    static constexpr size_t kRowsAtOnce = 128;

    // Weights [inputs, padded outputs], as forward takes them, and [outputs, padded inputs], as backward does.
    struct Layer {
        std::vector<float> forward, bias, backward;
    };

    float *At(size_t k, size_t row) { return rows_of_[k].data() + row * Padded(sizes_[k]); }

    std::vector<size_t> sizes_;
    std::vector<Layer> layers_;
    size_t weights_ = 0, n_ = 0;
    std::vector<std::vector<float>> rows_of_; // inputs of each layer, then the outputs: [rows, padded size]
};

} // namespace ncc
