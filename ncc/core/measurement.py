# SPDX-License-Identifier: BSD-3-Clause
"""What a datapath reports each epoch. Everything a controller, an observation or a result sees of it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ncc.core.flows import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is measured of hosts and upper ports in an epoch.

    Host columns have shape [n_agents], in the order of `Topology.agent_hosts`; upper columns have shape
    [n_neighbourhoods]. Names in brackets are the symbols of wang2021 section 5.3.1.2. Of several networks
    (`Measurements`) each column has a leading axis [n_networks].
    """

    rate_limit_bps: FloatArray
    """[b] Limit in force at the end of the epoch on bits of IP packets that leave the NIC for nodes beyond the
    neighbourhood (`Topology.limited_to`); inf means no limit."""
    throughput_bps: FloatArray
    """Bits of such packets that left the NIC in the epoch (data, retransmissions, ACKs), over the period."""
    goodput_bps: FloatArray
    """[g] Payload newly acknowledged (cumulatively or selectively, each byte once), over the period."""
    rtt_s: FloatArray
    """[d_b] Mean of the transport's RTT samples in the epoch; the last known mean if there was none; before the
    first, the path's base RTT."""
    rtt_samples: IntArray
    wait_s: FloatArray
    """[d_q] Sum over queued flows of the time since a byte of the flow last left the host (since arrival if none)."""
    queued_bytes: FloatArray
    """[s_q] Payload of arrived flows to nodes beyond that has not yet left the host for the first time."""
    next_bytes: FloatArray
    """Such payload of the queued flow that has least of it; 0 if no flow is queued."""
    queued_flows: IntArray
    """[f_q] Flows with such payload."""
    active_flows: IntArray
    """Flows that arrived, wherever they go, and are not yet completely delivered."""
    active_per_byte: FloatArray
    """Sum of 1/size over those flows, in 1/bytes: the small ones count most."""
    active_left: FloatArray
    """Sum over those flows of the share of their payload that is not acknowledged yet."""

    upper_throughput_bps: FloatArray
    """Bits of IP packets that left the upper port in the epoch, over the period."""
    upper_queue_bytes: FloatArray
    """Bytes waiting in the upper port at the end of the epoch."""
    upper_queue_mean_bytes: FloatArray
    """Time average over the epoch."""
    upper_queue_delay_s: FloatArray
    """Mean wait in the upper port's queue of packets sent in the epoch; 0 if none was."""
    upper_marked_pkts: IntArray
    upper_dropped_pkts: IntArray


@dataclass(frozen=True, kw_only=True)
class Measurement(Measured):
    """One epoch of one network, (time_s - period_s, time_s]."""

    time_s: float
    epoch: int
    flows_started: int
    """Flows that have arrived since the start, all hosts."""
    flows_finished: int
    """Flows completely delivered since the start, all hosts."""


@dataclass(frozen=True, kw_only=True)
class Measurements(Measured):
    """One epoch of each of several networks; they need not be in the same one."""

    time_s: FloatArray
    """[n_networks], as are the three below."""
    epoch: IntArray
    flows_started: IntArray
    flows_finished: IntArray

    def __getitem__(self, row: int) -> Measurement:
        """The measurement of one network; its columns are views."""
        columns: dict[str, Any] = {name: getattr(self, name)[row] for name in COLUMNS}
        return Measurement(
            time_s=float(self.time_s[row]),
            epoch=int(self.epoch[row]),
            flows_started=int(self.flows_started[row]),
            flows_finished=int(self.flows_finished[row]),
            **columns,
        )

    @classmethod
    def of(cls, measurements: Sequence[Measurement]) -> "Measurements":
        """Those of networks with equally many hosts and neighbourhoods."""
        columns: dict[str, Any] = {name: np.array([getattr(m, name) for m in measurements]) for name in COLUMNS}
        return cls(
            time_s=np.array([m.time_s for m in measurements]),
            epoch=np.array([m.epoch for m in measurements]),
            flows_started=np.array([m.flows_started for m in measurements]),
            flows_finished=np.array([m.flows_finished for m in measurements]),
            **columns,
        )


COLUMNS = tuple(field.name for field in fields(Measured))
"""Names of the columns by host or neighbourhood."""


@dataclass(frozen=True)
class Epochs:
    """All measurements of a run: `Measurement`'s columns with a leading axis [n_epochs]."""

    time_s: FloatArray
    columns: dict[str, FloatArray | IntArray]
    """By `Measurement` field: [n_epochs, n_agents], [n_epochs, n_neighbourhoods], or [n_epochs] for the scalars."""


def stack(measurements: Sequence[Measurement]) -> Epochs:
    """Stack measurements of one run, in order."""
    names = [f.name for f in fields(Measurement) if f.name != "time_s"]
    return Epochs(
        time_s=np.array([m.time_s for m in measurements]),
        columns={name: np.array([getattr(m, name) for m in measurements]) for name in names},
    )
