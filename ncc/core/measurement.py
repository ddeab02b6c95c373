# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of periods: everything that a controller, an observation or a result sees of a datapath.

Their columns are listed in `ncc.core.signals`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncc.core.flows import FloatArray, IntArray
from ncc.core.receivers import NO_EDGES, NO_QUEUES, Edges, Queues
from ncc.core.signals import SIGNALS, Measured, Progress, names

COLUMNS = (*names("host"), *names("uplink"))
"""Names of the columns with an entry per host, then of those with an entry per neighbourhood."""
PROGRESS = names("network")
"""Names of the scalars of a network: time, number of the epoch, and counts of flows."""


@dataclass(frozen=True)
class Delivered:
    """Flows that were delivered in a period, in that order; columns have shape [n]."""

    size_bytes: IntArray
    """Payload."""
    took_s: FloatArray
    """Completion time."""

    def __len__(self) -> int:
        return len(self.size_bytes)


NONE_DELIVERED = Delivered(np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, kw_only=True)
class Measurement(Progress, Measured):
    """The measurement of one network over one period, (time_s - period_s, time_s]."""

    edges: Edges = NO_EDGES
    """Flows as their receivers know them; empty unless `Scenario.has_receivers`. Results do not store them."""
    delivered: Delivered = NONE_DELIVERED
    """Delivered flows, as a central controller learns of them; empty if hosts have no tags (`HostStack.tags`).
    Results do not store them."""
    queues: Queues = NO_QUEUES
    """Queues before neighbourhoods at the end of the period; as `edges`."""


@dataclass(frozen=True, kw_only=True)
class Measurements(Measured):
    """The measurements of several networks over one period each, without `edges` and `delivered`.

    The networks may be in different epochs, so `time_s` and `epoch` may differ between them.
    """

    time_s: FloatArray
    """[n_networks], as are the three below."""
    epoch: IntArray
    flows_started: IntArray
    flows_finished: IntArray

    def __getitem__(self, row: int) -> Measurement:
        """The measurement of one network; its columns are views."""
        columns: dict[str, Any] = {name: getattr(self, name)[row] for name in COLUMNS}
        return Measurement(**columns, **{name: getattr(self, name)[row].item() for name in PROGRESS})

    @classmethod
    def of(cls, measurements: Sequence[Measurement]) -> "Measurements":
        """Stack the measurements of several networks, which must have equally many hosts and neighbourhoods."""
        columns = {name: np.array([getattr(m, name) for m in measurements]) for name in (*COLUMNS, *PROGRESS)}
        return cls(**columns)


def idle(n_agents: int, n_neighbourhoods: int) -> Measurement:
    """Make the measurement at the start of a run, before anything is measured: zeros, and no host has a limit."""
    columns: dict[str, Any] = {
        name: np.zeros(
            n_agents if SIGNALS[name].scope == "host" else n_neighbourhoods,
            np.int64 if SIGNALS[name].count else np.float64,
        )
        for name in COLUMNS
    }
    columns["rate_limit_bps"].fill(np.inf)
    return Measurement(time_s=0.0, epoch=0, flows_started=0, flows_finished=0, **columns)


@dataclass(frozen=True)
class Epochs:
    """All measurements of a run: `Measurement`'s columns with a leading axis [n_epochs]."""

    time_s: FloatArray
    columns: dict[str, FloatArray | IntArray]
    """Columns by field of `Measurement`: [n_epochs, n_agents], [n_epochs, n_neighbourhoods], or [n_epochs] for scalars.

    `time_s` is left out.
    """


def stack(measurements: Sequence[Measurement]) -> Epochs:
    """Stack measurements of one run, in order."""
    columns = {name: np.array([getattr(m, name) for m in measurements]) for name in (*COLUMNS, *PROGRESS)}
    return Epochs(time_s=columns.pop("time_s"), columns=columns)
