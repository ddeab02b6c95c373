# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: RUF009 - a signal is a dataclasses.field
"""The table of signals: everything that a datapath measures, listed once.

Each field of the classes below is a signal. These are made from the fields: the C++ structs (`signals.h`, written when
ncc is built), the numpy columns, the Parquet columns with their descriptions, the messages between hosts, and the page
docs/signals.md. To add a signal, write a field here and measure it in one place (CONTRIBUTING.md). A datapath that does
not measure it reports NaN, or -1 for a count.

This file imports nothing outside the standard library: the build reads it, and has no numpy then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

Scope = Literal["host", "uplink", "network", "flow", "port"]


@dataclass(frozen=True)
class Signal:
    """One signal, a line of the table."""

    name: str
    count: bool
    """True for a whole number of 64 bits, false for a real number."""
    scope: Scope
    unit: str
    """Unit of the number; empty if it has none."""
    meaning: str
    how: str
    """Formula of the signal; empty if its meaning defines it."""
    shared_as: int
    """Place of the signal, from 1, in the messages to neighbours; 0: it is not sent."""
    on_hosts: bool
    """True if an agent on a real host measures it too (`ncc.envs.linux.live`)."""

    @property
    def description(self) -> str:
        """Meaning of the signal, and its formula if it has one."""
        return f"{self.meaning}; {self.how}" if self.how else self.meaning


def signal(scope: Scope, unit: str, meaning: str, how: str = "", *, shared_as: int = 0, on_hosts: bool = False) -> Any:
    """Make a field of one of the classes below; the arguments are the fields of `Signal`."""
    return field(metadata={"signal": (scope, unit, meaning, how, shared_as, on_hosts)})


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Signals of hosts and uplinks in an epoch.

    Host columns have shape [n_agents], in the order of `Topology.agent_hosts`; uplink columns have shape
    [n_neighbourhoods]. In `Measurements`, which has several networks, each column has a leading axis [n_networks].
    Letters in brackets are the symbols of wang2021 section 5.3.1.2. Packets and flows "beyond" go to nodes outside the
    neighbourhood.
    """

    rate_limit_bps: FloatArray = signal(
        "host", "bit/s", "[b] limit at the end of the epoch on IP packets beyond", "inf without one", shared_as=6
    )
    throughput_bps: FloatArray = signal(
        "host",
        "bit/s",
        "IP packets beyond that left the NIC",
        "data and ACKs over the period",
        shared_as=1,
        on_hosts=True,
    )
    goodput_bps: FloatArray = signal(
        "host",
        "bit/s",
        "[g] payload newly acknowledged",
        "also selectively, each byte once, over the period",
        on_hosts=True,
    )
    rtt_s: FloatArray = signal(
        "host",
        "s",
        "[d_b] mean of the transport's RTT samples in the epoch",
        "without a sample the last known mean; before the first, the path's base RTT",
        on_hosts=True,
    )
    rtt_samples: IntArray = signal("host", "samples", "RTT samples in the epoch")
    wait_s: FloatArray = signal(
        "host",
        "s",
        "[d_q] sum over queued flows of the time since a byte of the flow last left the host",
        "since arrival if none has left",
        shared_as=2,
        on_hosts=True,
    )
    queued_bytes: FloatArray = signal(
        "host", "bytes", "[s_q] payload of flows beyond that has not left the host once", shared_as=3, on_hosts=True
    )
    next_bytes: FloatArray = signal(
        "host",
        "bytes",
        "payload that has not left the host once, of the queued flow that has least of it",
        "0 without one",
        shared_as=5,
        on_hosts=True,
    )
    queued_flows: IntArray = signal(
        "host", "flows", "[f_q] flows beyond with payload that has not left the host once", shared_as=4, on_hosts=True
    )
    held_flows: IntArray = signal(
        "host", "flows", "queued flows that their receivers have not let begin", "simulators; 0 without receivers"
    )
    active_flows: IntArray = signal(
        "host", "flows", "flows that arrived, to any node, and are not completely delivered"
    )
    active_per_byte: FloatArray = signal("host", "1/bytes", "sum of 1/size over active flows", "small ones count most")
    active_left: FloatArray = signal("host", "", "sum over active flows of the share of their payload not acknowledged")

    uplink_throughput_bps: FloatArray = signal(
        "uplink", "bit/s", "IP packets that left the uplink", "over the period", shared_as=1
    )
    uplink_queue_bytes: FloatArray = signal(
        "uplink", "bytes", "bytes waiting in the uplink at the end of the epoch", shared_as=2
    )
    uplink_queue_mean_bytes: FloatArray = signal(
        "uplink", "bytes", "bytes waiting in the uplink", "time average over the epoch"
    )
    uplink_queue_delay_s: FloatArray = signal(
        "uplink", "s", "mean wait in the uplink's queue of packets sent in the epoch", "0 if none was sent"
    )
    uplink_marked_pkts: IntArray = signal("uplink", "packets", "packets marked at the uplink in the epoch")
    uplink_dropped_pkts: IntArray = signal("uplink", "packets", "packets dropped at the uplink in the epoch")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Signals of a whole network at the end of an epoch."""

    time_s: float = signal("network", "s", "end of the epoch, simulated time")
    epoch: int = signal("network", "", "number of the epoch")
    flows_started: int = signal("network", "flows", "flows that have arrived since the start, all hosts")
    flows_finished: int = signal("network", "flows", "flows completely delivered since the start, all hosts")


@dataclass(frozen=True, kw_only=True)
class FlowRecords:
    """Signals of each flow of a `FlowTable`, row by row, after a run; columns have shape [n_flows]."""

    start_s: FloatArray = signal(
        "flow",
        "s",
        "arrival at the sending host, simulated time",
        "of requests, when the flow was asked for",
    )
    finish_s: FloatArray = signal(
        "flow", "s", "when the receiver had every byte, simulated time", "NaN if it never did"
    )
    sent_pkts: IntArray = signal("flow", "packets", "data packets that left the host", "with retransmissions")
    retransmitted_pkts: IntArray = signal("flow", "packets", "data packets sent again")
    timeouts: IntArray = signal("flow", "", "retransmission timeouts (RFC 6298)", "connection set-up included")
    ce_pkts: IntArray = signal("flow", "packets", "data packets that arrived with Congestion Experienced")
    credits: IntArray = signal(
        "flow", "packets", "credits, grants and pulls that reached the sender", "simulators; 0 with TCP"
    )
    wasted_credits: IntArray = signal(
        "flow", "packets", "credits, grants and pulls that let no packet go", "simulators; 0 with TCP"
    )
    reordered_pkts: IntArray = signal(
        "flow",
        "packets",
        "data packets that arrived, not sent again, after one sent later",
        "simulators, message transports; 0 with TCP",
    )
    control_bytes: IntArray = signal(
        "flow",
        "bytes",
        "control packets of both ends of a message transport, IP packets",
        "simulators; 0 with TCP",
    )
    rtt_mean_s: FloatArray = signal("flow", "s", "mean of the sender's RTT samples", "NaN without one")
    rtt_min_s: FloatArray = signal("flow", "s", "smallest of the sender's RTT samples", "NaN without one")


@dataclass(frozen=True, kw_only=True)
class PortRecords:
    """Signals of every directed port over a whole run; columns have shape [2 * n_links]."""

    tx_pkts: IntArray = signal("port", "packets", "packets that left the port")
    tx_bytes: IntArray = signal("port", "bytes", "bytes of IP packets that left the port")
    dropped_pkts: IntArray = signal("port", "packets", "packets dropped at the port")
    dropped_data_pkts: IntArray = signal("port", "packets", "dropped packets with payload")
    marked_pkts: IntArray = signal("port", "packets", "packets marked at the port")
    trimmed_pkts: IntArray = signal(
        "port", "packets", "packets whose payload was cut off at the port", "simulators; 0 without trim"
    )
    shaped_dropped_pkts: IntArray = signal(
        "port", "packets", "dropped packets of the shaped queue", "simulators; 0 without one"
    )
    queue_delay_sum_s: FloatArray = signal(
        "port", "s", "sum over transmitted packets of their wait", "from joining the queue to the start of transmission"
    )
    queue_max_bytes: IntArray = signal("port", "bytes", "largest number of bytes waiting in the port's queue")
    paused_s: FloatArray = signal(
        "port", "s", "time for which it kept the other end of its link from sending", "simulators; 0 without PFC"
    )


_FIELDS = [f for kind in (Measured, Progress, FlowRecords, PortRecords) for f in fields(kind)]
SIGNALS: dict[str, Signal] = {
    f.name: Signal(f.name, f.type in {"IntArray", "int"}, *f.metadata["signal"]) for f in _FIELDS
}
"""All signals by name, in the order of their columns."""


def names(scope: Scope, *, count: bool | None = None) -> tuple[str, ...]:
    """Names of a scope's signals, in the order of the table; `count` True: only counts, False: only real numbers."""
    return tuple(s.name for s in SIGNALS.values() if s.scope == scope and count in {None, s.count})


def shared(scope: Scope) -> tuple[Signal, ...]:
    """Signals of a scope that are sent to neighbours, in the order of the message."""
    return tuple(sorted((s for s in SIGNALS.values() if s.scope == scope and s.shared_as), key=lambda s: s.shared_as))
