// SPDX-License-Identifier: GPL-2.0-only
// The same scenario as an ordinary ns-3 program: what our own host and switch models are measured against.
#pragma once

#include "spec.h"

#include <cstdint>
#include <vector>

namespace ncc
{

struct PlainResult {
    std::vector<int64_t> finish_ns;                 // by flow; -1: not finished
    std::vector<int64_t> dropped_pkts, marked_pkts; // by directed port; 0 at host ends
    std::vector<double> queue_mean_bytes; // by directed port, over the run; 0 unless asked for (it takes time)
    double cpu_s = 0;                     // of the run without building
};

// Point-to-point devices, RED queue discs as step marking, static routes, stock sockets and bulk senders; no rate
// limit, no epochs. `spec.transport` must be one of ns-3's own. Frame overhead is PPP's 2 bytes, whatever the spec
// says. Runs until every flow has finished or `stop_ns`. Throws as Network does.
PlainResult RunPlain(const Spec &spec, int64_t stop_ns, bool measure_queues);

} // namespace ncc
