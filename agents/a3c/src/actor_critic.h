// SPDX-License-Identifier: BSD-3-Clause
// Policy and value networks of tanh layers, and the gradient of the actor-critic loss over a rollout. What acting has
// worked out is kept, so that learning from it does not work it out again.
#pragma once

#include "kernels.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncc::a3c
{

// Means over all samples, `Losses` of network.py.
struct Losses {
    double policy = 0, value = 0, entropy = 0;
};

class ActorCritic
{
  public:
    // Room for `capacity` samples of a rollout.
    ActorCritic(size_t obs_dim, std::vector<size_t> hidden, size_t n_actions, size_t capacity);

    // Weights are one vector: of the policy, then of the value, for each layer W [outputs, inputs] and b [outputs].
    size_t size() const { return size_; }
    size_t obs_dim() const { return obs_dim_; }
    size_t n_actions() const { return n_actions_; }
    size_t capacity() const { return capacity_; }
    void Load(const float *params);

    // Draws actions [rows] for observations [rows, obs_dim] and states their values [rows]; samples at, at + 1, ... of
    // the rollout. False: a logit is not finite.
    bool Act(const float *obs, size_t rows, size_t at, const double *uniform, int64_t *actions, float *values);
    // Values [rows] of observations that are not acted on.
    void Value(const float *obs, size_t rows, float *values);
    // The gradient [size] of the loss over the first `rows` samples, acted on with the weights that are loaded.
    Losses Gradient(size_t rows, const int64_t *actions, const float *advantages, const float *returns,
                    double value_coef, double entropy_coef, float *gradient);

  private:
    struct Layer {
        size_t in, out, in_padded, out_padded, offset; // offset of its weights in the vector
        std::vector<float> forward, backward, bias;    // packed
        std::vector<float> weights, sums;              // of the gradient, padded
        std::vector<float> output;                     // [capacity, out_padded]
    };
    using Net = std::vector<Layer>;

    Net Build(const std::vector<size_t> &hidden, size_t out);
    void Pack(Layer &layer, const float *params);
    void Forward(Net &net, const float *x, size_t at, size_t rows, bool keep);
    void Backward(Net &net, size_t at, size_t rows);
    void CopyIn(const float *obs, size_t rows, float *x) const;

    const Kernels &kernels_;
    size_t obs_dim_, n_actions_, capacity_, obs_padded_, size_ = 0, widest_ = 0;
    Net policy_, value_;
    std::vector<float> obs_;           // [capacity, obs_padded]
    std::vector<float> probabilities_; // [capacity, padded actions]
    std::vector<float> passing_;       // a chunk's observations that are not kept
    std::vector<float> here_, there_;  // a chunk's gradients by layer output
};

} // namespace ncc::a3c
