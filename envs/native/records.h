// SPDX-License-Identifier: BSD-3-Clause
// Counters of flows and ports over a run, from which signals (ncc/core/signals.py) are computed.
#pragma once

#include "signals.h"

#include <cstdint>

namespace ncc
{

struct FlowRecord : FlowCounts {
    int64_t start_ns = -1, finish_ns = -1;
    double rtt_sum_ns = 0;
    int64_t rtt_samples = 0, rtt_min_ns = 0;

    FlowRecord() : FlowCounts{}
    {
        sent_pkts = retransmitted_pkts = timeouts = ce_pkts = credits = wasted_credits = reordered_pkts = 0;
        control_bytes = 0;
    }

    void AddRtt(int64_t ns)
    {
        rtt_min_ns = rtt_samples == 0 || ns < rtt_min_ns ? ns : rtt_min_ns;
        rtt_sum_ns += static_cast<double>(ns);
        ++rtt_samples;
    }
};

struct PortTotals : PortCounts {
    int64_t delay_ns = 0;  // summed over transmitted packets
    int64_t paused_ns = 0; // sum of its ended pauses of the far end (PFC)

    PortTotals() : PortCounts{}
    {
        tx_pkts = tx_bytes = marked_pkts = queue_max_bytes = dropped_pkts = dropped_data_pkts = trimmed_pkts = 0;
        shaped_dropped_pkts = 0;
    }
};

} // namespace ncc
