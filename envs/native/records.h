// SPDX-License-Identifier: BSD-3-Clause
// Counters of flows and ports over a run, from which signals (ncc/core/signals.py) are computed.
#pragma once

#include <cstdint>

namespace ncc
{

struct FlowRecord {
    int64_t finish_ns = -1;
    int64_t sent_pkts = 0, retransmitted_pkts = 0, timeouts = 0, ce_pkts = 0;
    double rtt_sum_ns = 0;
    int64_t rtt_samples = 0, rtt_min_ns = 0;

    void AddRtt(int64_t ns)
    {
        rtt_min_ns = rtt_samples == 0 || ns < rtt_min_ns ? ns : rtt_min_ns;
        rtt_sum_ns += static_cast<double>(ns);
        ++rtt_samples;
    }
};

struct PortTotals {
    int64_t tx_pkts = 0, tx_bytes = 0, marked_pkts = 0, queue_max_bytes = 0;
    int64_t dropped_pkts = 0, dropped_data_pkts = 0; // all, and those with payload
    int64_t delay_ns = 0;                            // summed over transmitted packets
};

} // namespace ncc
