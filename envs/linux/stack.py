# SPDX-License-Identifier: BSD-3-Clause
"""A scenario's transport in terms of the kernel's TCP: settings of a namespace, metrics of a route, differences."""

import math
import time
from collections.abc import Mapping
from pathlib import Path

from ncc.core.errors import DatapathError
from ncc.core.scenario import Nic, Transport

MS_PER_S = 1000
KERNEL_INITIAL_RTO_S = 1.0
"""Initial retransmission timeout of the kernel, TCP_TIMEOUT_INIT."""
KERNEL_TIMER_SLACK_S = 2e-3
"""Addition to the kernel's timers of loss probes and of reordering, TCP_TIMEOUT_MIN_US."""
ROUNDING = 1e-6
_RTAX_RTO_MIN = 13
"""Constant of linux/rtnetlink.h."""
_MONOTONIC_COARSE = 6
"""Clock CLOCK_MONOTONIC_COARSE of linux/time.h, which advances with the jiffies."""
SKB_OVERHEAD = 2
"""Ratio of the memory that a packet is charged for to its payload, at most, for packets of 1500 bytes."""


def of_every_node() -> dict[str, str]:
    """Return settings of hosts and switches that keep all packets but the run's off the links."""
    settings = {"net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/default/rp_filter": "0"}
    if Path("/proc/sys/net/ipv6").exists():
        settings |= {"net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1"}
    return settings


def of_switch() -> dict[str, str]:
    """Return settings of a switch's namespace."""
    return {"net/ipv4/ip_forward": "1"}


def of_host(transport: Transport, nic: Nic) -> dict[str, str]:
    """Return settings of a host's namespace.

    `tcp_tso_rtt_log` 0 lets paced flows send packet by packet. With classic recovery, `tcp_early_retrans` 0 leaves lost
    tails to the timeout as in simulators; with probes, Linux would have a third of the timeouts in bursts over a short
    buffer. Buffer sizes are in memory, of which a packet takes about twice its payload; they are doubled so that the
    window can reach the scenario's size.
    """
    send, receive = transport.send_buffer_bytes, transport.receive_buffer_bytes
    return {
        "net/ipv4/tcp_ecn": "1",
        "net/ipv4/tcp_no_metrics_save": "1",
        "net/ipv4/tcp_tso_rtt_log": "0",
        "net/ipv4/tcp_timestamps": "0",
        "net/ipv4/tcp_slow_start_after_idle": str(int(transport.idle_restart)),
        "net/ipv4/tcp_early_retrans": "3" if transport.recovery == "modern" else "0",
        "net/ipv4/tcp_sack": str(int(transport.sack)),
        "net/ipv4/tcp_reordering": str(transport.dup_ack_pkts),
        "net/ipv4/tcp_wmem": f"4096 {send} {SKB_OVERHEAD * send}",
        "net/ipv4/tcp_rmem": f"4096 {receive} {SKB_OVERHEAD * receive}",
        "net/ipv4/tcp_limit_output_bytes": str(SKB_OVERHEAD * nic.small_queue_bytes),
        "net/ipv4/ip_local_port_range": "10000 65535",
    }


def metrics(transport: Transport) -> dict[str, int]:
    """Return metrics of a host's route by iproute2's names; `rto_min` is in ms, rounded up to jiffies by the kernel."""
    found = {
        "initcwnd": transport.initial_window_pkts,
        "rto_min": max(1, round(transport.min_rto_s * MS_PER_S)),
        "lock": 1 << _RTAX_RTO_MIN,  # otherwise TCP ignores rto_min
    }
    if transport.delayed_ack_pkts == 1:
        found["quickack"] = 1
    return found


def jiffy_s() -> float:
    """Length of a jiffy, the unit of the kernel's timers."""
    return time.clock_getres(_MONOTONIC_COARSE)


def min_rto_s(transport: Transport) -> float:
    """Least retransmission timeout of the kernel for the scenario's setting."""
    jiffies = math.ceil(metrics(transport)["rto_min"] / MS_PER_S / jiffy_s() - ROUNDING)
    return jiffies * jiffy_s()


def not_honoured(transport: Transport, nic: Nic) -> tuple[str, ...]:
    """List in sentences what the kernel does otherwise than the scenario asks of TCP and the NIC."""
    said = [
        f"nic.bucket_bytes ({nic.bucket_bytes}) has no counterpart in Linux, where pacing holds rate limits packet by "
        "packet.",
    ]
    if transport.recovery == "classic":
        said.append(
            "transport.recovery: Linux finds losses by time (RACK), classic recovery by what arrives after them."
        )
    elif abs(transport.timer_slack_s - KERNEL_TIMER_SLACK_S) > ROUNDING:
        said.append(
            f"transport.timer_slack_s is {KERNEL_TIMER_SLACK_S * MS_PER_S:g} ms in Linux, not "
            f"{transport.timer_slack_s * MS_PER_S:g} ms."
        )
    if transport.recovery == "modern" and abs(transport.timer_tick_s - jiffy_s()) > ROUNDING:
        said.append(
            f"transport.timer_tick_s is {jiffy_s() * MS_PER_S:g} ms here, a jiffy, not "
            f"{transport.timer_tick_s * MS_PER_S:g} ms."
        )
    if abs((kept_s := min_rto_s(transport)) - transport.min_rto_s) > ROUNDING:
        said.append(
            f"transport.min_rto_s is {kept_s * MS_PER_S:g} ms here, in whole jiffies of {jiffy_s() * MS_PER_S:g} ms, "
            f"not {transport.min_rto_s * MS_PER_S:g} ms."
        )
    if transport.initial_rto_s != KERNEL_INITIAL_RTO_S:
        said.append(
            f"transport.initial_rto_s is {KERNEL_INITIAL_RTO_S:g} s in Linux, not {transport.initial_rto_s:g} s: a "
            "lost SYN costs that."
        )
    if transport.connections_per_pair:
        said.append("rtt_min_s of a flow is the least RTT of its connection so far, the handshake included.")
    if not transport.sack and not transport.limited_transmit:
        said.append("transport.limited_transmit false is not offered: Linux always does it.")
    if transport.delayed_ack_pkts > 2:
        said.append(f"transport.delayed_ack_pkts is at most 2 in Linux, not {transport.delayed_ack_pkts}.")
    if transport.delayed_ack_pkts > 1:
        said.append(
            f"transport.delayed_ack_s is 40 ms in Linux, or just below min_rto_s, not {transport.delayed_ack_s:g} s."
        )
    return tuple(said)


def apply(settings: Mapping[str, str]) -> None:
    """Write settings to the calling thread's namespace."""
    for name, value in settings.items():
        try:
            (Path("/proc/sys") / name).write_text(value)
        except OSError as error:
            raise DatapathError(
                f"Cannot set {name.replace('/', '.')} to {value!r} in a namespace: {error.strerror}."
            ) from None
