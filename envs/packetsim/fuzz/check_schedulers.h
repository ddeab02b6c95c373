// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace ncc::packetsim
{

// Compares both schedulers with a sorted map under random pushes and pops. Throws std::logic_error if they differ.
void CheckSchedulers(uint64_t seed);

} // namespace ncc::packetsim
