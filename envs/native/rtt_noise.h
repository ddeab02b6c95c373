// SPDX-License-Identifier: BSD-3-Clause
// Measurement errors in the RTT that a congestion controller gets. TCP's own timers and the records use the true RTT.
#pragma once

#include "mix.h"

#include <cstdint>

namespace ncc
{

// Adds to each sample a time that is uniform in [0, max_ns], max_ns < 2^32. It depends on the run's seed, the flow
// and the number of earlier samples alone, so that every simulator adds the same.
class RttNoise
{
  public:
    // The seed is inverted, so that it is not that of any port's discipline.
    RttNoise(uint64_t run_seed, int64_t max_ns) : seed_(Mix(~run_seed)), max_ns_(static_cast<uint64_t>(max_ns)) {}

    int64_t Measured(uint32_t flow, uint64_t samples_before, int64_t rtt_ns) const
    {
        if (max_ns_ == 0) {
            return rtt_ns;
        }
        const uint64_t bits = Mix(Mix(seed_ ^ flow) + samples_before * kMixStep) >> 32;
        return rtt_ns + static_cast<int64_t>((bits * (max_ns_ + 1)) >> 32);
    }

  private:
    uint64_t seed_;
    uint64_t max_ns_;
};

} // namespace ncc
