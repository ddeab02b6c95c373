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

// Losses of packets at their destination, beside those that switches drop.
struct Losses {
    double chance = 0;                  // probability for each packet
    uint32_t in_a_row = 5;              // most losses in a row of one flow, so that every flow can finish
    std::array<uint32_t, 5> first = {}; // by Packet::kind: number of each flow's first packets to lose
    uint32_t last_acks = 0;             // number of ACKs of a whole flow to lose
};

struct RandomCase {
    Spec spec;
    Losses losses;
    double fault_chance = 0; // probability of a drop or mark at a switch, per epoch
    bool endless = false;    // extreme numbers: a flow may never finish

    static RandomCase Make(uint64_t seed);
};

} // namespace ncc::packetsim
