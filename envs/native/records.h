// SPDX-License-Identifier: BSD-3-Clause
// What a run leaves behind, and the columns of an epoch: ncc/core/flows.py and ncc/core/measurement.py say what each
// means.
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
    int64_t delay_ns = 0; // summed over transmitted packets
};

// One epoch, arrays of the caller.
struct HostColumns {
    double *rate_limit_bps, *throughput_bps, *goodput_bps, *rtt_s, *wait_s, *queued_bytes, *next_bytes,
        *active_per_byte, *active_left;
    int64_t *rtt_samples, *queued_flows, *active_flows;
};
struct UpperColumns {
    double *throughput_bps, *queue_bytes, *queue_mean_bytes, *queue_delay_s;
    int64_t *marked_pkts, *dropped_pkts;
};

} // namespace ncc
