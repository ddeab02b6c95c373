// SPDX-License-Identifier: BSD-3-Clause
#include "actor_critic.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ncc::a3c
{
namespace
{

constexpr size_t kChunk = 96; // rows taken through all layers before the next: what they need stays in cache

const Kernels &Best() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? kAvx2 : kPlain; }

// [k, n] with element(i, j) in strips (see kernels.h).
template <typename F>
void PackStrips(std::vector<float> &packed, size_t k, size_t n, F element)
{
    float *to = packed.data();
    for (size_t c = 0; c < n; c += 2 * kLanes) {
        const size_t width = std::min(2 * kLanes, n - c);
        for (size_t i = 0; i < k; ++i) {
            for (size_t j = 0; j < width; ++j) {
                *to++ = element(i, c + j);
            }
        }
    }
}

} // namespace

ActorCritic::ActorCritic(size_t obs_dim, std::vector<size_t> hidden, size_t n_actions, size_t capacity)
    : kernels_(Best()), obs_dim_(obs_dim), n_actions_(n_actions), capacity_(capacity), obs_padded_(Padded(obs_dim))
{
    policy_ = Build(hidden, n_actions);
    value_ = Build(hidden, 1);
    obs_.resize(capacity * obs_padded_);
    probabilities_.resize(capacity * Padded(n_actions));
    passing_.resize(kChunk * obs_padded_);
    here_.resize(kChunk * widest_);
    there_.resize(kChunk * widest_);
}

ActorCritic::Net ActorCritic::Build(const std::vector<size_t> &hidden, size_t out)
{
    std::vector<size_t> widths = hidden;
    widths.push_back(out);
    Net net;
    size_t in = obs_dim_;
    for (size_t width : widths) {
        Layer layer{in, width, Padded(in), Padded(width), size_, {}, {}, {}, {}, {}, {}};
        layer.forward.resize(in * layer.out_padded);
        layer.backward.resize(layer.out_padded * layer.in_padded);
        layer.bias.resize(layer.out_padded);
        layer.weights.resize(layer.out_padded * layer.in_padded);
        layer.sums.resize(layer.out_padded);
        // Beyond the rollout there is room for a chunk that is not kept.
        layer.output.resize((capacity_ + kChunk) * layer.out_padded);
        widest_ = std::max({widest_, layer.in_padded, layer.out_padded});
        size_ += width * in + width;
        in = width;
        net.push_back(std::move(layer));
    }
    return net;
}

void ActorCritic::Load(const float *params)
{
    for (Net *net : {&policy_, &value_}) {
        for (Layer &layer : *net) {
            Pack(layer, params);
        }
    }
}

void ActorCritic::Pack(Layer &layer, const float *params)
{
    const float *w = params + layer.offset, *b = w + layer.out * layer.in;
    const size_t in = layer.in, out = layer.out;
    PackStrips(layer.forward, in, layer.out_padded, [&](size_t i, size_t o) { return o < out ? w[o * in + i] : 0.0f; });
    PackStrips(layer.backward, layer.out_padded, layer.in_padded,
               [&](size_t o, size_t i) { return o < out && i < in ? w[o * in + i] : 0.0f; });
    std::copy(b, b + out, layer.bias.begin());
}

void ActorCritic::CopyIn(const float *obs, size_t rows, float *x) const
{
    for (size_t r = 0; r < rows; ++r) {
        std::copy(obs + r * obs_dim_, obs + (r + 1) * obs_dim_, x + r * obs_padded_);
    }
}

void ActorCritic::Forward(Net &net, const float *x, size_t at, size_t rows, bool keep)
{
    size_t ldx = obs_padded_;
    for (Layer &layer : net) {
        float *y = layer.output.data() + (keep ? at : capacity_) * layer.out_padded;
        kernels_.dense(x, ldx, layer.forward.data(), layer.bias.data(), y, layer.out_padded, rows, layer.in,
                       layer.out_padded, &layer != &net.back());
        x = y;
        ldx = layer.out_padded;
    }
}

bool ActorCritic::Act(const float *obs, size_t rows, size_t at, const double *uniform, int64_t *actions, float *values)
{
    bool finite = true;
    Layer &logits = policy_.back(), &value = value_.back();
    for (size_t first = 0; first < rows; first += kChunk) {
        const size_t n = std::min(kChunk, rows - first), here = at + first;
        float *x = obs_.data() + here * obs_padded_;
        CopyIn(obs + first * obs_dim_, n, x);
        Forward(policy_, x, here, n, true);
        Forward(value_, x, here, n, true);
        finite &= kernels_.choose(logits.output.data() + here * logits.out_padded,
                                  probabilities_.data() + here * logits.out_padded, logits.out_padded, n, n_actions_,
                                  uniform + first, actions + first);
        for (size_t r = 0; r < n; ++r) {
            values[first + r] = value.output[(here + r) * value.out_padded];
        }
    }
    return finite;
}

void ActorCritic::Value(const float *obs, size_t rows, float *values)
{
    const Layer &value = value_.back();
    for (size_t first = 0; first < rows; first += kChunk) {
        const size_t n = std::min(kChunk, rows - first);
        CopyIn(obs + first * obs_dim_, n, passing_.data());
        Forward(value_, passing_.data(), 0, n, false);
        for (size_t r = 0; r < n; ++r) {
            values[first + r] = value.output[(capacity_ + r) * value.out_padded];
        }
    }
}

// From the gradient by a net's outputs, in `here_`, to that of its weights.
void ActorCritic::Backward(Net &net, size_t at, size_t rows)
{
    for (size_t l = net.size(); l-- > 0;) {
        Layer &layer = net[l];
        const float *x = l > 0 ? net[l - 1].output.data() + at * layer.in_padded : obs_.data() + at * obs_padded_;
        kernels_.weights(here_.data(), layer.out_padded, x, layer.in_padded, layer.weights.data(), layer.in_padded,
                         layer.sums.data(), rows, layer.out_padded, layer.in_padded);
        if (l > 0) {
            kernels_.back(here_.data(), layer.out_padded, layer.backward.data(), x, layer.in_padded, there_.data(),
                          layer.in_padded, rows, layer.out_padded, layer.in_padded);
            std::swap(here_, there_);
        }
    }
}

Losses ActorCritic::Gradient(size_t rows, const int64_t *actions, const float *advantages, const float *returns,
                             double value_coef, double entropy_coef, float *gradient)
{
    for (Net *net : {&policy_, &value_}) {
        for (Layer &layer : *net) {
            std::fill(layer.weights.begin(), layer.weights.end(), 0.0f);
            std::fill(layer.sums.begin(), layer.sums.end(), 0.0f);
        }
    }
    Losses sum;
    const size_t ld = policy_.back().out_padded, ldv = value_.back().out_padded;
    const double share = 1.0 / static_cast<double>(rows);
    const auto per_sample = static_cast<float>(share), entropy_share = static_cast<float>(entropy_coef * share),
               value_share = static_cast<float>(value_coef * share);
    for (size_t first = 0; first < rows; first += kChunk) {
        const size_t n = std::min(kChunk, rows - first);
        for (size_t r = 0; r < n; ++r) {
            const size_t sample = first + r;
            const float *log_p = policy_.back().output.data() + sample * ld, *p = probabilities_.data() + sample * ld;
            const auto chosen = static_cast<size_t>(actions[sample]);
            float entropy = 0, *d = here_.data() + r * ld;
            for (size_t i = 0; i < ld; ++i) {
                entropy -= p[i] * log_p[i];
            }
            const float advantage = advantages[sample] * per_sample;
            // By logit i: of -log p_chosen it is p_i - [i chosen], of the entropy H it is -p_i (log p_i + H).
            for (size_t i = 0; i < ld; ++i) {
                d[i] = p[i] * (advantage + entropy_share * (log_p[i] + entropy));
            }
            d[chosen] -= advantage;
            sum.policy -= static_cast<double>(log_p[chosen]) * static_cast<double>(advantages[sample]);
            sum.entropy += static_cast<double>(entropy);
        }
        Backward(policy_, first, n);
        std::fill(here_.begin(), here_.begin() + static_cast<ptrdiff_t>(n * ldv), 0.0f);
        for (size_t r = 0; r < n; ++r) {
            const float error = value_.back().output[(first + r) * ldv] - returns[first + r];
            here_[r * ldv] = value_share * error;
            sum.value += 0.5 * static_cast<double>(error) * static_cast<double>(error);
        }
        Backward(value_, first, n);
    }
    for (const Net *net : {&policy_, &value_}) {
        for (const Layer &layer : *net) {
            float *w = gradient + layer.offset;
            for (size_t o = 0; o < layer.out; ++o) {
                const float *row = layer.weights.data() + o * layer.in_padded;
                std::copy(row, row + layer.in, w + o * layer.in);
            }
            std::copy(layer.sums.begin(), layer.sums.begin() + static_cast<ptrdiff_t>(layer.out),
                      w + layer.out * layer.in);
        }
    }
    return {sum.policy * share, sum.value * share, sum.entropy * share};
}

} // namespace ncc::a3c
