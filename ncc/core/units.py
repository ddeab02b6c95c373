# SPDX-License-Identifier: BSD-3-Clause
"""Units: SI in every name (`_s`, `_bps` = bits per second, `_bytes`); conversions happen here only."""

BITS_PER_BYTE = 8
NS_PER_S = 1_000_000_000

KBPS = 1e3
MBPS = 1e6
GBPS = 1e9
US = 1e-6
MS = 1e-3

IP_HEADER_BYTES = 20
TCP_HEADER_BYTES = 20
"""TCP header without options: the scenarios run without timestamps (1 ms granularity in ns-3)."""
HEADER_BYTES = IP_HEADER_BYTES + TCP_HEADER_BYTES


def transmission_s(size_bytes: float, rate_bps: float) -> float:
    """Seconds to put `size_bytes` on a link of `rate_bps`."""
    return size_bytes * BITS_PER_BYTE / rate_bps


def bdp_bytes(rate_bps: float, rtt_s: float) -> float:
    """Bandwidth-delay product in bytes."""
    return rate_bps * rtt_s / BITS_PER_BYTE


def to_ns(seconds: float) -> int:
    """Whole nanoseconds nearest to `seconds`."""
    return round(seconds * NS_PER_S)
