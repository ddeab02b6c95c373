// SPDX-License-Identifier: BSD-3-Clause
#include "kernels.h"

#include <cmath>
#include <cstring>

#ifndef NCC_KERNELS
#error "compile with -DNCC_KERNELS=kPlain and the like, once per instruction set"
#endif

namespace ncc::a3c
{
namespace
{

// Two types, as the compiler may keep one in a register and must not assume where the other lies.
using Vector = float __attribute__((vector_size(4 * kLanes)));
using Ints = int32_t __attribute__((vector_size(4 * kLanes)));

inline Vector Load(const float *p)
{
    Vector v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void Store(float *p, Vector v) { std::memcpy(p, &v, sizeof v); }

inline Vector All(float x) { return Vector{x, x, x, x, x, x, x, x}; }

// e^x to about one unit in the last place of float: x = n ln 2 + r, |r| <= ln 2 / 2, and the series of e^r up to r^7,
// whose rest is below 6e-9. Below -87 it is e^-87, above 88 it is e^88.
inline Vector Exp(Vector x)
{
    x = x < All(-87.0f) ? All(-87.0f) : x;
    x = x > All(88.0f) ? All(88.0f) : x;
    constexpr float kRound = 12582912.0f; // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
    const Vector shifted = x * 1.44269504f + kRound, n = shifted - kRound;
    const Vector r = (x - n * 0.693145752f) - n * 1.42860677e-6f; // ln 2 in two parts, the first with spare bits
    Vector p = All(1.0f / 5040);
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    Ints bits, power;
    std::memcpy(&bits, &p, sizeof bits);
    std::memcpy(&power, &shifted, sizeof power);
    bits += (power - 0x4B400000) << 23; // times 2^n, by the exponent
    std::memcpy(&p, &bits, sizeof p);
    return p;
}

// 1 - 2 / (e^2x + 1), to 1.5e-7 of the range.
inline Vector Tanh(Vector x) { return 1.0f - 2.0f / (Exp(x + x) + 1.0f); }

// acc[r][v] += sum over i < k of a[r * sm + i * sk] * b[i * ldb + 8 v ...]
template <int R, int V>
inline void Multiply(size_t k, const float *a, size_t sm, size_t sk, const float *b, size_t ldb, Vector (&acc)[R][V])
{
    const float *low = a, *high = a + 3 * sm; // two pointers and two distances instead of six pointers
    for (size_t i = 0; i < k; ++i, low += sk, high += sk, b += ldb) {
        Vector row[V];
        for (int v = 0; v < V; ++v) {
            row[v] = Load(b + kLanes * v);
        }
        for (int r = 0; r < R; ++r) {
            const Vector x = All((r < 3 ? low : high)[static_cast<size_t>(r % 3) * sm]);
            for (int v = 0; v < V; ++v) {
                acc[r][v] += x * row[v];
            }
        }
    }
}

// Calls f<R>(row) for blocks of six rows and one of what is left; six rows of two vectors fill the registers.
template <typename F>
inline void ByRows(size_t rows, F f)
{
    size_t r = 0;
    for (; r + 6 <= rows; r += 6) {
        f.template operator()<6>(r);
    }
    switch (rows - r) {
    case 5:
        f.template operator()<5>(r);
        break;
    case 4:
        f.template operator()<4>(r);
        break;
    case 3:
        f.template operator()<3>(r);
        break;
    case 2:
        f.template operator()<2>(r);
        break;
    case 1:
        f.template operator()<1>(r);
        break;
    default:
        break;
    }
}

// Calls f<V>(column) for strips of two vectors and at last perhaps one.
template <typename F>
inline void ByStrips(size_t n, F f)
{
    size_t c = 0;
    for (; c + 2 * kLanes <= n; c += 2 * kLanes) {
        f.template operator()<2>(c);
    }
    if (c < n) {
        f.template operator()<1>(c);
    }
}

void Dense(const float *x, size_t ldx, const float *packed, const float *bias, float *y, size_t ldy, size_t rows,
           size_t k, size_t n, bool squash)
{
    ByRows(rows, [&]<int R>(size_t r) {
        ByStrips(n, [&]<int V>(size_t c) {
            Vector acc[R][V];
            for (int i = 0; i < R; ++i) {
                for (int v = 0; v < V; ++v) {
                    acc[i][v] = Load(bias + c + kLanes * v);
                }
            }
            Multiply<R, V>(k, x + r * ldx, ldx, 1, packed + c * k, kLanes * V, acc);
            for (int i = 0; i < R; ++i) {
                for (int v = 0; v < V; ++v) {
                    Store(y + (r + i) * ldy + c + kLanes * v, squash ? Tanh(acc[i][v]) : acc[i][v]);
                }
            }
        });
    });
}

void Back(const float *g, size_t ldg, const float *packed, const float *h, size_t ldh, float *d, size_t ldd,
          size_t rows, size_t k, size_t n)
{
    ByRows(rows, [&]<int R>(size_t r) {
        ByStrips(n, [&]<int V>(size_t c) {
            Vector acc[R][V] = {};
            Multiply<R, V>(k, g + r * ldg, ldg, 1, packed + c * k, kLanes * V, acc);
            for (int i = 0; i < R; ++i) {
                for (int v = 0; v < V; ++v) {
                    const Vector out = Load(h + (r + i) * ldh + c + kLanes * v);
                    Store(d + (r + i) * ldd + c + kLanes * v, acc[i][v] * (1.0f - out * out));
                }
            }
        });
    });
}

void Weights(const float *g, size_t ldg, const float *x, size_t ldx, float *c, size_t ldc, float *sums, size_t rows,
             size_t m, size_t n)
{
    ByRows(m, [&]<int R>(size_t r) {
        ByStrips(n, [&]<int V>(size_t at) {
            Vector acc[R][V];
            for (int i = 0; i < R; ++i) {
                for (int v = 0; v < V; ++v) {
                    acc[i][v] = Load(c + (r + i) * ldc + at + kLanes * v);
                }
            }
            Multiply<R, V>(rows, g + r, 1, ldg, x + at, ldx, acc);
            for (int i = 0; i < R; ++i) {
                for (int v = 0; v < V; ++v) {
                    Store(c + (r + i) * ldc + at + kLanes * v, acc[i][v]);
                }
            }
        });
    });
    for (size_t row = 0; row < rows; ++row) {
        for (size_t i = 0; i < m; ++i) {
            sums[i] += g[row * ldg + i];
        }
    }
}

bool Choose(float *logits, float *probabilities, size_t ld, size_t rows, size_t n_actions, const double *uniform,
            int64_t *actions)
{
    bool finite = true;
    for (size_t row = 0; row < rows; ++row) {
        float *z = logits + row * ld, *p = probabilities + row * ld, most = z[0];
        for (size_t i = 0; i < n_actions; ++i) {
            finite &= std::isfinite(z[i]);
            most = z[i] > most ? z[i] : most;
        }
        for (size_t i = 0; i < ld; i += kLanes) {
            Store(z + i, Load(z + i) - most);
            Store(p + i, Exp(Load(z + i)));
        }
        double total = 0;
        for (size_t i = 0; i < n_actions; ++i) {
            total += static_cast<double>(p[i]);
        }
        const double threshold = uniform[row] * total;
        double below = 0;
        int64_t action = 0;
        for (size_t i = 0; i + 1 < n_actions; ++i) { // the last is what is left, so rounding cannot go past it
            below += static_cast<double>(p[i]);
            action += below <= threshold;
        }
        actions[row] = action;
        const float log_total = std::log(static_cast<float>(total)), scale = static_cast<float>(1 / total);
        for (size_t i = 0; i < ld; i += kLanes) {
            Store(z + i, Load(z + i) - log_total);
            Store(p + i, Load(p + i) * scale);
        }
        for (size_t i = n_actions; i < ld; ++i) {
            z[i] = p[i] = 0;
        }
    }
    return finite;
}

} // namespace

const Kernels NCC_KERNELS = {Dense, Back, Weights, Choose};

} // namespace ncc::a3c
