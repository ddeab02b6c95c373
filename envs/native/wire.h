// SPDX-License-Identifier: BSD-3-Clause
// The transmitter at one end of a link.
#pragma once

#include <cstdint>

namespace ncc
{

constexpr int64_t kPsPerNs = 1000;

// Serialisation times to the picosecond: a whole number of nanoseconds would be 0.03 % off at 10 Gbps.
struct Wire {
    Wire() = default;
    Wire(double rate_bps, int64_t delay_ns, uint32_t overhead_bytes, uint32_t to)
        : ps_per_byte(8e12 / rate_bps), delay_ns(delay_ns), overhead_bytes(overhead_bytes), to(to)
    {
    }

    int64_t SerialisationPs(uint32_t ip_bytes) const
    {
        return static_cast<int64_t>((ip_bytes + overhead_bytes) * ps_per_byte + 0.5);
    }

    uint64_t BytesPerS() const { return static_cast<uint64_t>(1e12 / ps_per_byte + 0.5); }

    // Arrival at the far end of a packet whose last bit leaves at `end_ps`. Events fall on whole nanoseconds.
    int64_t ArrivalNs(int64_t end_ps) const { return (end_ps + kPsPerNs - 1) / kPsPerNs + delay_ns; }

    // Start of a packet that is due at `now_ns`, where the one before it ends at `free_ps`. Events fall on whole
    // nanoseconds; between packets back to back, the fraction is carried over.
    static int64_t StartPs(int64_t free_ps, int64_t now_ns)
    {
        const int64_t now_ps = now_ns * kPsPerNs;
        return now_ps - free_ps < kPsPerNs ? free_ps : now_ps;
    }

    double ps_per_byte = 0;
    int64_t delay_ns = 0;
    uint32_t overhead_bytes = 0;
    uint32_t to = 0; // node at the far end
};

} // namespace ncc
