# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the maps that the kernel and user space share, as numpy types: the structs of `bpf/intf.h`."""

from ipaddress import IPv4Address, ip_address

import numpy as np

FLOWS_MAX = 4096
"""Number of slots: connections that can be reported at the same time."""
HOSTS_MAX = 256
NO_HOST = 0xFFFFFFFF
FREE, LIVE, FINISHED = range(3)
"""Values of `REPORT['state']`."""

Field = tuple[str, str] | tuple[str, str, tuple[int]]


def _u4(names: str) -> list[Field]:
    return [(name, "<u4") for name in names.split()]


def _u8(names: str) -> list[Field]:
    return [(name, "<u8") for name in names.split()]


ADDRESS = np.dtype("S16")
"""`struct ncc_address`: an address of IPv6, or a mapped one of IPv4; see `address_bytes`."""
MAPPED = bytes(10) + b"\xff\xff"
"""Beginning of the mapped addresses of IPv4 (RFC 4291 section 2.5.5.2)."""


def address_bytes(address: str) -> bytes:
    """Return an address of IPv4 or IPv6 as rows of `ADDRESS` have it: 16 bytes in network order."""
    parsed = ip_address(address)
    return MAPPED + parsed.packed if isinstance(parsed, IPv4Address) else parsed.packed


SOURCE = np.dtype([*_u8("cookie"), ("address", ADDRESS)])
"""`struct ncc_source`: where a host's connections begin."""

PARAMS = np.dtype([("values", "<u8", (16,)), *_u8("proportional user_slots")])
"""`struct ncc_params`: the controller's parameters, written before its program is loaded."""

REPORT = np.dtype(
    [
        *_u4("seq state generation flow host"),
        ("mss_bytes", "<u2"),
        ("window", "<u2"),
        *_u8("began_ns updated_ns rtt_sum_ns rtt_samples delivered_bytes marked_bytes"),
        *_u8("sent_bytes retrans_bytes sent_packets unsent_bytes cwnd_bytes"),
        ("reserved", "<u8", (4,)),
        ("unused", "<u4", (2,)),
        *_u4("header_bytes acks held una rcv_nxt"),
        ("port", "<u2"),
        ("peer_port", "<u2"),
        ("peer", ADDRESS),
    ]
)
"""`struct ncc_report`: one flow (a connection, or its part with one SO_MARK), written by the kernel; `seq` is odd while
the kernel writes."""

DECISION = np.dtype(
    [
        *_u4("generation unused"),
        *_u8("start_ns most_bytes rate_bytes_per_s"),
        ("reserved", "<u8", (4,)),
    ]
)
"""`struct ncc_decision`: a receiver's grant for a flow, written by user space."""

HOST = np.dtype(
    [
        *_u8("window_bytes patience_ns named_only"),
        ("reserved_user", "<u8", (5,)),
        ("flows", "<i8"),
        ("reserved_kernel", "<u8", (7,)),
    ]
)
"""`struct ncc_host`: the first half is written by user space, the second by the kernel."""

COUNTERS = ("started", "finished", "unreported", "fallbacks", "late_inits", "clamped", "acks", "over_quota")
"""Counters of `AGENT`, which the kernel writes."""

AGENT = np.dtype(
    [
        *_u8("beat_ns timeout_ns"),
        ("reserved_user", "<u8", (6,)),
        *_u8(" ".join(COUNTERS)),
    ]
)
"""`struct ncc_agent`: the first half is written by user space, the second by the kernel."""

STRUCTS = {
    "ncc_source": SOURCE,
    "ncc_params": PARAMS,
    "ncc_report": REPORT,
    "ncc_decision": DECISION,
    "ncc_host": HOST,
    "ncc_agent": AGENT,
}
"""Row types by the names of their structs in C."""
