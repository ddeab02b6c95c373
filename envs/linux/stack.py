# SPDX-License-Identifier: BSD-3-Clause
"""A scenario's transport and stack in the kernel: settings of namespaces and routes, and how the kernel differs."""

import math
import time
from collections.abc import Mapping
from pathlib import Path

from ncc.baselines.registry import check_named, controller, controllers, message_transports, with_defaults
from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.scenario import BUFFER_BYTES, Nic, Transport
from ncc.core.units import BITS_PER_BYTE
from ncc.envs.linux.order_program import CLASSES, Mode
from ncc.envs.linux.queue import BURST_PKTS, BURST_S, HELD_BYTES, PROMPT_S, SETTLED_S
from ncc.harness.datapath import HostStack

KERNEL = "linux::"
"""Prefix of the names of the kernel's own congestion controls."""
KNOWN = ("known", "sjf", "srpt")
"""Orders by size, which hosts' queues keep as far as they know sizes."""
DEPTH = "kappa"
"""Parameter of orders: the number of flows that are ordered. Hosts' queues support only 0."""
MS_PER_S = 1000
KERNEL_INITIAL_RTO_S = 1.0
"""Initial retransmission timeout of the kernel, TCP_TIMEOUT_INIT."""
KERNEL_SEND_BUFFER_BYTES = 16_384
"""Send buffer of a new socket in bytes of memory, the kernel's default of tcp_wmem. By measurement it takes
`Nic.first_write_pkts` at the first write, because it has grown by then."""
WHOLE_SIZES = 2**31 - 1
"""Value of `TrafficOptions.announced_bytes` for which senders announce whole sizes of flows."""
KERNEL_TIMER_SLACK_S = 2e-3
"""Addition to the kernel's timers of loss probes and of reordering, TCP_TIMEOUT_MIN_US."""
ROUNDING = 1e-6
_MONOTONIC_COARSE = 6
"""Clock CLOCK_MONOTONIC_COARSE of linux/time.h, which advances with the jiffies."""
HELD_RTO_S = 0.4
"""Least retransmission timeout of hosts with a queue of ours: shorter ones would expire while packets wait there."""
HEADER_BYTES = 40
"""IP and TCP headers of a data packet, without timestamps."""
SKB_OVERHEAD = 2
"""Largest ratio of a packet's charged memory to its payload, for packets of 1500 bytes."""


def transports() -> tuple[str, ...]:
    """List the controllers of `baselines/`, and the kernel's own as ``linux::cubic`` and so on."""
    ours = (name for name, info in controllers().items() if not info.needs.simulated)
    return (*ours, *(KERNEL + name for name in kernel_controls()))


def kernel_controls() -> tuple[str, ...]:
    """List the kernel's own congestion controls, without those that a shim registered."""
    try:
        names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    except OSError:  # not Linux, or a kernel without networking
        return ()
    return tuple(sorted(name for name in names if not name.startswith("ncc_")))


def mode_of(order: str) -> Mode:
    """Return the mode of hosts' queues for an order among flows."""
    return "fifo" if order == "fifo" else "known"


def check_stack(stack: HostStack) -> None:
    """Raise `UnknownNameError` or `ConfigError`, as `Datapath.start`, for a stack that cannot run on linux."""
    if stack.transport in message_transports():
        raise ConfigError(
            f"Transport {stack.transport} replaces TCP at both ends, which the kernel does not: use a simulator"
        )
    if stack.transport in controllers() and controller(stack.transport).needs.simulated:
        raise ConfigError(
            f"Controller {stack.transport} needs a timer, telemetry or ECT(1), which the kernel does not give: use a "
            "simulator"
        )
    if stack.transport not in (known := transports()):
        raise UnknownNameError("transport", stack.transport, known)
    check_named("flow order", stack.order, stack.order_params)
    if stack.order not in ("fifo", *KNOWN) or dict(stack.order_params).get(DEPTH):
        raise ConfigError(
            f"Hosts on linux keep the orders {', '.join(KNOWN)}, each with {DEPTH} 0, and not {stack.order} with "
            f"{dict(stack.order_params)}: set stack.order to one of them or to fifo, or use a simulator"
        )
    if stack.components:
        raise ConfigError(
            "The Linux datapath gives all traffic one stack, and the controller has stack.components: leave them out, "
            "or use a simulator"
        )
    check_named("tags", stack.tags, stack.tag_params)
    check_named("front end", *stack.front_end)
    if stack.transport.startswith(KERNEL):
        if stack.params:
            raise ConfigError(
                f"Transport {stack.transport} is the kernel's own and takes no parameters, got {stack.params[0][0]}"
            )
        return
    with_defaults(stack.transport, controller(stack.transport).params, stack.params)


def of_every_node() -> dict[str, str]:
    """Return settings of hosts and switches that keep the links free of packets other than the run's."""
    settings = {f"net/ipv4/conf/{name}/rp_filter": "0" for name in ("all", "default")}
    settings |= {f"net/ipv4/conf/{name}/send_redirects": "0" for name in ("all", "default")}
    if Path("/proc/sys/net/ipv6").exists():
        settings |= {"net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1"}
    return settings


def of_switch() -> dict[str, str]:
    """Return settings of a switch's namespace."""
    return {"net/ipv4/ip_forward": "1"}


def of_host(transport: Transport, nic: Nic, mode: Mode | None = None) -> dict[str, str]:
    """Return settings of a host's namespace; `mode` is that of its queue, None without one (queue.py).

    `tcp_tso_rtt_log` 0 lets paced flows send packet by packet. With classic recovery, `tcp_early_retrans` 0 leaves lost
    tails to the timeout as in simulators; with probes, Linux would have only a third as many timeouts when bursts
    overflow a short buffer. Buffer sizes are in bytes of memory. A packet takes about twice its payload, so the largest
    sizes are doubled to let the window reach the scenario's size; the kernel itself doubles the sizes that the traffic
    program gives its sockets. Where hosts know the backlog only, a send buffer begins at Linux's default, or at twice
    the scenario's first write, and grows with the window. A host's queue delays packets. TCP must not wait for these
    before it sends more, neither to fill up a packet (`tcp_autocorking`) nor to stay within `tcp_limit_output_bytes`.
    """
    queued = max(nic.small_queue_bytes, HELD_BYTES) if mode is not None else nic.small_queue_bytes
    send, receive = transport.send_buffer_bytes or BUFFER_BYTES, transport.receive_buffer_bytes or BUFFER_BYTES
    first = _first_buffer_bytes(transport, nic) if nic.knows != "sizes" else send
    return {
        "net/ipv4/tcp_ecn": "1",
        "net/ipv4/tcp_no_metrics_save": "1",
        "net/ipv4/tcp_tso_rtt_log": "0",
        "net/ipv4/tcp_timestamps": "0",
        "net/ipv4/tcp_slow_start_after_idle": str(int(transport.idle_restart)),
        "net/ipv4/tcp_early_retrans": "3" if transport.recovery == "modern" else "0",
        "net/ipv4/tcp_sack": str(int(transport.sack)),
        "net/ipv4/tcp_reordering": str(transport.dup_ack_pkts),
        "net/ipv4/tcp_wmem": f"4096 {first} {SKB_OVERHEAD * send}",
        "net/ipv4/tcp_rmem": f"4096 {receive} {SKB_OVERHEAD * receive}",
        "net/ipv4/tcp_limit_output_bytes": str(SKB_OVERHEAD * queued),
        "net/ipv4/tcp_autocorking": str(int(mode is None)),
        "net/ipv4/ip_local_port_range": "10000 65535",
    }


def _first_buffer_bytes(transport: Transport, nic: Nic) -> int:
    """Return the send buffer of a new socket, in bytes of memory."""
    if nic.first_write_pkts == Nic().first_write_pkts:
        return KERNEL_SEND_BUFFER_BYTES
    payload_bytes = nic.first_write_pkts * (transport.mtu_bytes - HEADER_BYTES)
    return SKB_OVERHEAD * min(payload_bytes, transport.send_buffer_bytes or BUFFER_BYTES)


def announced_bytes(transport: Transport, nic: Nic) -> int:
    """Return the most bytes of a flow that its sender announces to the host's queue before it writes.

    Where hosts know the backlog only, this is the part of the first write that fits the send buffer. A network card
    with segmentation offload would see it at once; the rack's devices take packets one by one.
    """
    if nic.knows == "sizes":
        return WHOLE_SIZES
    return nic.first_write_pkts * (transport.mtu_bytes - HEADER_BYTES)


def metrics(transport: Transport, mode: Mode | None = None) -> str:
    """Return metrics of a host's route, as `ip` takes them.

    `mode` is that of the host's queue, None without one. With a queue, the receiver's first window has room for
    `HELD_BYTES`, and rto_min is longer.
    """
    values = f"initcwnd {transport.initial_window_pkts} rto_min {_rto_min_ms(transport, mode)}ms"
    if mode is not None:
        values += f" initrwnd {math.ceil(HELD_BYTES / (transport.mtu_bytes - HEADER_BYTES))}"
    return f"{values} quickack 1" if transport.delayed_ack_pkts == 1 else values


def _rto_min_ms(transport: Transport, mode: Mode | None) -> int:
    least_s = max(transport.min_rto_s, HELD_RTO_S) if mode is not None else transport.min_rto_s
    return max(1, round(least_s * MS_PER_S))


def jiffy_s() -> float:
    """Return the length of a jiffy, the unit of the kernel's timers."""
    return time.clock_getres(_MONOTONIC_COARSE)


def min_rto_s(transport: Transport, mode: Mode | None = None) -> float:
    """Return the kernel's least retransmission timeout for the scenario's setting, in whole jiffies."""
    jiffies = math.ceil(_rto_min_ms(transport, mode) / MS_PER_S / jiffy_s() - ROUNDING)
    return jiffies * jiffy_s()


def _of_hosts(transport: Transport, nic: Nic, order: str, mode: Mode | None) -> list[str]:
    """Return sentences on how hosts with a queue differ from the scenario."""
    if mode is None:
        return []
    notes = ["A host's limit is of all packets that it sends, also of those without data."]
    if nic.bucket_bytes != (burst := BURST_PKTS * transport.mtu_bytes):
        notes.append(f"nic.bucket_bytes is {burst} or {BURST_S * 1e6:g} us of the limit, not {nic.bucket_bytes}.")
    low_bps = BITS_PER_BYTE * transport.mtu_bytes / PROMPT_S
    notes.append(f"Limits below {low_bps / 1e6:g} Mbit/s take {SETTLED_S * MS_PER_S:g} ms to come into force.")
    if mode == "known":
        notes.append(f"Order {order} is by what is known of a message's size, in {CLASSES} classes.")
    if nic.small_queue_bytes < HELD_BYTES:
        notes.append(f"nic.small_queue_bytes is {HELD_BYTES}, not {nic.small_queue_bytes}: messages wait there.")
    return notes


def not_honoured(transport: Transport, nic: Nic, order: str = "fifo", mode: Mode | None = None) -> tuple[str, ...]:
    """Return sentences on how the kernel differs from the scenario's TCP, NIC and order of flows.

    `mode` is that of hosts' queues, None if they have none.
    """
    notes = _of_hosts(transport, nic, order, mode)
    if transport.recovery == "classic":
        notes.append(
            "transport.recovery: Linux finds losses by time (RACK), classic recovery by what arrives after them."
        )
    elif abs(transport.timer_slack_s - KERNEL_TIMER_SLACK_S) > ROUNDING:
        notes.append(
            f"transport.timer_slack_s is {KERNEL_TIMER_SLACK_S * MS_PER_S:g} ms in Linux, not "
            f"{transport.timer_slack_s * MS_PER_S:g} ms."
        )
    if transport.recovery == "modern" and abs(transport.timer_tick_s - jiffy_s()) > ROUNDING:
        notes.append(
            f"transport.timer_tick_s is {jiffy_s() * MS_PER_S:g} ms here, a jiffy, not "
            f"{transport.timer_tick_s * MS_PER_S:g} ms."
        )
    if abs((kept_s := min_rto_s(transport, mode)) - transport.min_rto_s) > ROUNDING:
        why = "as packets wait in hosts" if mode is not None else f"in whole jiffies of {jiffy_s() * MS_PER_S:g} ms"
        notes.append(
            f"transport.min_rto_s is {kept_s * MS_PER_S:g} ms here, {why}, not {transport.min_rto_s * MS_PER_S:g} ms."
        )
    if transport.initial_rto_s != KERNEL_INITIAL_RTO_S:
        notes.append(
            f"transport.initial_rto_s is {KERNEL_INITIAL_RTO_S:g} s in Linux, not {transport.initial_rto_s:g} s: a "
            "lost SYN costs that."
        )
    if transport.connections_per_pair:
        notes.append("rtt_min_s of a flow is the least RTT of its connection so far, the handshake included.")
    if not transport.sack and not transport.limited_transmit:
        notes.append("transport.limited_transmit false is not offered: Linux always does it.")
    if transport.delayed_ack_pkts > 2:
        notes.append(f"transport.delayed_ack_pkts is at most 2 in Linux, not {transport.delayed_ack_pkts}.")
    if transport.delayed_ack_pkts > 1:
        notes.append(
            f"transport.delayed_ack_s is 40 ms in Linux, or just below min_rto_s, not {transport.delayed_ack_s:g} s."
        )
    return tuple(notes)


def apply(settings: Mapping[str, str]) -> None:
    """Write settings, by their paths below /proc/sys, in the calling thread's namespace.

    Raises:
        DatapathError: the kernel refuses one.
    """
    for name, value in settings.items():
        try:
            (Path("/proc/sys") / name).write_text(value)
        except OSError as error:
            raise DatapathError(
                f"Cannot set {name.replace('/', '.')} to {value!r} in a namespace: {error.strerror}."
            ) from None
