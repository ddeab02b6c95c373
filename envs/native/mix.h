// SPDX-License-Identifier: BSD-3-Clause
// Random bits from a counter.
#pragma once

#include <cstdint>

namespace ncc
{

// splitmix64 (Steele, Lea & Flood, OOPSLA 2014): for x = seed, seed + kMixStep, ... its values are a random sequence.
constexpr uint64_t kMixStep = 0x9e3779b97f4a7c15ULL;

constexpr uint64_t Mix(uint64_t x)
{
    x += kMixStep;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

} // namespace ncc
