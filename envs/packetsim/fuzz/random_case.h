// SPDX-License-Identifier: BSD-3-Clause
// A random small network with flows, settings and faults.
#pragma once

#include "spec.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <random>

namespace ncc::packetsim
{

class Random
{
  public:
    explicit Random(uint64_t seed) : engine_(seed) {}

    uint64_t Between(uint64_t low, uint64_t high)
    {
        return std::uniform_int_distribution<uint64_t>(low, high)(engine_);
    }
    bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(engine_) < p; }
    template <typename T>
    T OneOf(std::initializer_list<T> values)
    {
        return values.begin()[Between(0, values.size() - 1)];
    }

  private:
    std::mt19937_64 engine_;
};

// Packets that are lost where they arrive, beside those that switches drop.
struct Losses {
    double chance = 0;                  // of any packet
    uint32_t in_a_row = 5;              // of one flow at most, so that every flow can finish
    std::array<uint32_t, 5> first = {}; // by Packet::kind: so many of each flow's first ones
    uint32_t last_acks = 0;             // so many of the ACKs of a whole flow
};

struct RandomCase {
    Spec spec;
    Losses losses;
    double fault_chance = 0; // of a drop or mark at a switch, per epoch
    bool endless = false;    // its numbers are extreme: a flow may outlast any patience

    static RandomCase Make(uint64_t seed);
};

} // namespace ncc::packetsim
