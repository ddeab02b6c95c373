// SPDX-License-Identifier: BSD-3-Clause
// Signals computed from the counts of hosts, flows and ports; ncc/core/signals.py defines each signal.
#pragma once

#include "order.h"
#include "records.h"
#include "signals.h"

#include <cstddef>
#include <cstdint>

namespace ncc
{

// Counts of a host since the last epoch.
struct HostEpoch {
    int64_t goodput_bytes = 0, rtt_samples = 0, limited_bytes_before = 0;
    double rtt_sum_ns = 0;
    double rtt_mean_ns = 0; // of the last epoch with a sample

    void AddRtt(int64_t ns)
    {
        rtt_sum_ns += static_cast<double>(ns);
        ++rtt_samples;
    }
};

// Writes row i of the host columns, and begins a new epoch. `live` are the flows that have arrived and not been
// delivered; for an entry x of it, `view_of(x)` is its FlowView, and `held(x)` is true if its receiver holds it
// (gates.h). `limited_bytes` counts what the NIC has sent under its limit.
template <typename Live, typename ViewOf, typename Held>
void MeasureHost(const HostColumns &out, size_t i, HostEpoch &host, double limit_bps, int64_t limited_bytes,
                 const Live &live, const ViewOf &view_of, const Held &held, int64_t now_ns, int64_t period_ns)
{
    const double period_s = static_cast<double>(period_ns) * 1e-9;
    out.rate_limit_bps[i] = limit_bps;
    out.throughput_bps[i] = static_cast<double>(limited_bytes - host.limited_bytes_before) * 8 / period_s;
    out.goodput_bps[i] = static_cast<double>(host.goodput_bytes) * 8 / period_s;
    if (host.rtt_samples > 0) {
        host.rtt_mean_ns = host.rtt_sum_ns / static_cast<double>(host.rtt_samples);
    }
    out.rtt_s[i] = host.rtt_mean_ns * 1e-9;
    out.rtt_samples[i] = host.rtt_samples;
    int64_t wait_ns = 0, queued_flows = 0, held_flows = 0;
    uint64_t queued_bytes = 0, next_bytes = UINT64_MAX;
    double per_byte = 0, left = 0;
    for (const uint32_t entry : live) {
        const FlowView &view = view_of(entry);
        const double size = static_cast<double>(view.size_bytes);
        per_byte += 1 / size;
        left += static_cast<double>(view.size_bytes - view.delivered_bytes) / size;
        if (view.limited && view.left_bytes < view.known_bytes) {
            wait_ns += now_ns - view.last_left_ns;
            const uint64_t left_over = view.estimated_bytes() - view.left_bytes;
            queued_bytes += left_over;
            next_bytes = left_over < next_bytes ? left_over : next_bytes;
            ++queued_flows;
            held_flows += held(entry);
        }
    }
    out.wait_s[i] = static_cast<double>(wait_ns) * 1e-9;
    out.queued_bytes[i] = static_cast<double>(queued_bytes);
    out.next_bytes[i] = queued_flows > 0 ? static_cast<double>(next_bytes) : 0;
    out.active_per_byte[i] = per_byte;
    out.active_left[i] = left;
    out.queued_flows[i] = queued_flows;
    out.held_flows[i] = held_flows;
    out.active_flows[i] = static_cast<int64_t>(live.size());
    host.limited_bytes_before = limited_bytes;
    host.goodput_bytes = host.rtt_samples = 0;
    host.rtt_sum_ns = 0;
}

// Writes row i of the uplink columns from the growth of the totals; `before` becomes `now`.
inline void MeasureUplink(const UplinkColumns &out, size_t i, const PortTotals &now, PortTotals &before,
                          int64_t queue_bytes, double queue_integral_byte_ns, int64_t period_ns)
{
    const int64_t sent = now.tx_pkts - before.tx_pkts;
    out.throughput_bps[i] =
        static_cast<double>(now.tx_bytes - before.tx_bytes) * 8 / (static_cast<double>(period_ns) * 1e-9);
    out.queue_bytes[i] = static_cast<double>(queue_bytes);
    out.queue_mean_bytes[i] = queue_integral_byte_ns / static_cast<double>(period_ns);
    out.queue_delay_s[i] =
        sent > 0 ? static_cast<double>(now.delay_ns - before.delay_ns) * 1e-9 / static_cast<double>(sent) : 0;
    out.marked_pkts[i] = now.marked_pkts - before.marked_pkts;
    out.dropped_pkts[i] = now.dropped_pkts - before.dropped_pkts;
    before = now;
}

inline FlowRow MeasureFlow(const FlowRecord &record)
{
    FlowRow row;
    static_cast<FlowCounts &>(row) = record;
    if (record.start_ns >= 0) {
        row.start_s = static_cast<double>(record.start_ns) / 1e9;
    }
    if (record.finish_ns >= 0) {
        row.finish_s = static_cast<double>(record.finish_ns) / 1e9;
    }
    if (record.rtt_samples > 0) {
        row.rtt_mean_s = record.rtt_sum_ns / static_cast<double>(record.rtt_samples) / 1e9;
        row.rtt_min_s = static_cast<double>(record.rtt_min_ns) / 1e9;
    }
    return row;
}

inline PortRow MeasurePort(const PortTotals &totals)
{
    PortRow row;
    static_cast<PortCounts &>(row) = totals;
    row.queue_delay_sum_s = static_cast<double>(totals.delay_ns) / 1e9;
    row.paused_s = static_cast<double>(totals.paused_ns) / 1e9;
    return row;
}

} // namespace ncc
