# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the maps that the kernel and user space share, as numpy types: the structs of `bpf/intf.h`."""

import numpy as np

FLOWS_MAX = 4096
"""Number of slots: connections that can be reported at the same time."""
HOSTS_MAX = 256
NO_HOST = 0xFFFFFFFF
WEIGHT_MAX = 65535
CLAIM_ONE = 64
"""Units of `HOST['weight_sum']` that a weight of 1 takes."""
FREE, LIVE, FINISHED = range(3)
"""Values of `REPORT['state']`."""

Field = tuple[str, str] | tuple[str, str, tuple[int]]


def _u4(names: str) -> list[Field]:
    return [(name, "<u4") for name in names.split()]


def _u8(names: str) -> list[Field]:
    return [(name, "<u8") for name in names.split()]


PARAMS = np.dtype([("values", "<u8", (16,)), ("controller", "S16")])
"""`struct ncc_params`: the controller and parameters that a program is made for."""

REPORT = np.dtype(
    [
        *_u4("seq state generation flow host src dst ports"),
        *_u8("began_ns updated_ns rtt_ns srtt_ns min_rtt_ns rtt_sum_ns rtt_samples delivered_bytes acked_bytes"),
        *_u8("marked_bytes lost_bytes sent_bytes retrans_bytes sent_packets inflight_bytes unsent_bytes cwnd_bytes"),
        *_u8("ssthresh_bytes pacing_bytes_per_s delivery_bytes_per_s decision decided_ns share_bytes_per_s reserved"),
        *_u4("mss_bytes header_bytes acks recoveries timeouts fallbacks ca_state app_limited"),
    ]
)
"""`struct ncc_report`: one connection, written by the kernel; `seq` is odd while it writes."""

DECISION = np.dtype([*_u4("generation weight"), *_u8("cwnd_bytes pacing_bytes_per_s reserved")])
"""`struct ncc_decision`: one connection, written by user space."""

HOST = np.dtype(
    [
        *_u8("rate_bytes_per_s decision"),
        ("reserved_user", "<u8", (6,)),
        ("weight_sum", "<i8"),
        ("flows", "<i8"),
        ("reserved_kernel", "<u8", (6,)),
    ]
)
"""`struct ncc_host`: the first half is written by user space, the second by the kernel."""

COUNTERS = ("started", "finished", "unreported", "fallbacks", "late_inits", "clamped", "acks")
"""Counters of `AGENT`, which the kernel writes."""

AGENT = np.dtype(
    [
        *_u8("beat_ns timeout_ns"),
        ("reserved_user", "<u8", (6,)),
        *_u8(" ".join(COUNTERS)),
        *_u8("reserved_kernel"),
    ]
)
"""`struct ncc_agent`: the first half is written by user space, the second by the kernel."""

CALLBACKS = np.dtype([*_u8("acks run right skipped garbled last_wrong"), ("reserved", "<u8", (2,))])
"""`struct ncc_callbacks`: counts of a test of the machine."""

STRUCTS = {
    "ncc_params": PARAMS,
    "ncc_report": REPORT,
    "ncc_decision": DECISION,
    "ncc_host": HOST,
    "ncc_agent": AGENT,
    "ncc_callbacks": CALLBACKS,
}
"""Row types by the names of their structs in C."""
