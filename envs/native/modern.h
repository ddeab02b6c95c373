// SPDX-License-Identifier: BSD-3-Clause
// Rules of Linux' TCP that both simulators follow with modern recovery (Transport.recovery of ncc/core/scenario.py).
#pragma once

#include <algorithm>
#include <cstdint>

namespace ncc
{

// Returns the retransmission timeout. The minimum is that of the deviation, which is four times the mean deviation.
inline int64_t ModernRtoNs(int64_t srtt_ns, int64_t deviation_ns, int64_t min_rto_ns)
{
    return srtt_ns + std::max(deviation_ns, min_rto_ns);
}

// Use of the window in a round trip: it grows only if it is used.
struct WindowUse {
    bool stopped = false;   // sending stopped at the window
    uint32_t most_pkts = 0; // most packets outstanding
    uint64_t round_end = 0; // end of what was sent when this was last noted

    // Notes how much is outstanding (tcp_cwnd_validate). `sent`: something new was; `full`: sending stops at the
    // window; `una` and `nxt`: ends of what is acknowledged and of what was sent.
    void Note(bool sent, bool full, uint32_t out_pkts, uint64_t una, uint64_t nxt)
    {
        if (full || (sent && (una >= round_end || (!stopped && out_pkts > most_pkts)))) {
            stopped = full;
            most_pkts = out_pkts;
            round_end = nxt;
        }
    }

    // Returns true if the window was used, in slow start by half (tcp_is_cwnd_limited).
    bool Enough(uint32_t cwnd_bytes, uint32_t ssthresh_bytes, uint32_t mss_bytes) const
    {
        return stopped || (cwnd_bytes < ssthresh_bytes && cwnd_bytes < 2ULL * most_pkts * mss_bytes);
    }
};

// Returns true if the window counts as used when an ACK comes, in the classic recovery: it was full; or, in slow start,
// at least half of it was in flight and the host's own queue or pacing, not the application, kept back the rest (RFC
// 7661: pipeACK).
inline bool WindowUsed(uint64_t in_flight_bytes, uint64_t cwnd_bytes, uint64_t ssthresh_bytes, uint32_t mss_bytes,
                       bool kept_back)
{
    return in_flight_bytes + mss_bytes > cwnd_bytes ||
           (kept_back && cwnd_bytes < ssthresh_bytes && cwnd_bytes <= 2 * in_flight_bytes);
}

} // namespace ncc
