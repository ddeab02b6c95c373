// SPDX-License-Identifier: BSD-3-Clause
// A check that ends a failed case.
#pragma once

#include <stdexcept>
#include <string>

namespace ncc::packetsim
{

inline void Require(bool holds, const char *what)
{
    if (!holds) {
        throw std::logic_error(what);
    }
}

inline void Require(bool holds, const std::string &what) { Require(holds, what.c_str()); }

} // namespace ncc::packetsim
