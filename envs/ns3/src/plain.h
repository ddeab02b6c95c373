// SPDX-License-Identifier: GPL-2.0-only
// A scenario as an ordinary ns-3 program, with which our own host and switch models are compared.
#pragma once

#include "spec.h"

#include <cstdint>
#include <vector>

namespace ncc
{

struct PlainResult {
    std::vector<int64_t> finish_ns;                 // by flow; -1: not finished
    std::vector<int64_t> dropped_pkts, marked_pkts; // by directed port; 0 at host ends
    double cpu_s = 0;                               // CPU time of the run without building
};

// Runs point-to-point devices, RED queue discs as step marking, static routes, stock sockets and bulk senders, without
// rate limits and epochs, until every flow has finished or `stop_ns`. `spec.transport` must be one of ns-3's own. Frame
// overhead is PPP's 2 bytes, whatever the spec says. Throws as Network does.
PlainResult RunPlain(const Spec &spec, int64_t stop_ns);

} // namespace ncc
