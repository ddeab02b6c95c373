// SPDX-License-Identifier: BSD-3-Clause
// A prediction of a flow's size from earlier flows of its service (`services` of Nic.knows in ncc/core).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ncc
{

// Sizes of flows that a host has sent completely, of one service, in classes of a quarter of an octave.
class Predictor
{
  public:
    void Add(uint64_t size_bytes);
    // Rank of a flow that is longer than `known_bytes` >= 1, as a number of bytes beyond these: the inverse of the
    // Gittins index of its size S at age k (Gittins, Glazebrook and Weber 2011, chapter 3),
    //
    //   min over d of  E[min(S - k, d)] / P(S <= k + d),
    //
    // S being one of the n sizes above k, or, with the weight of one flow, anything: P(S > x) = k / x. Without sizes
    // above k it is k, as if what has been sent were half of the flow.
    uint64_t BeyondBytes(uint64_t known_bytes) const;

  private:
    static constexpr size_t kClasses = 128; // up to 4 TB
    struct Class {
        double flows = 0, bytes = 0; // and the sum of their sizes
    };
    static size_t ClassOf(double size_bytes);

    std::array<Class, kClasses> classes_;
};

} // namespace ncc
