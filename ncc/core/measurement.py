# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of periods: everything that a controller, an observation or a result sees of a datapath.

Their columns are listed in `ncc.core.signals`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncc.core.flows import FloatArray, IntArray
from ncc.core.receivers import NO_EDGES, Edges
from ncc.core.signals import SIGNALS, Measured, Progress, names

COLUMNS = (*names("host"), *names("uplink"))
"""Names of the columns by host or neighbourhood."""
PROGRESS = names("network")


@dataclass(frozen=True, kw_only=True)
class Measurement(Progress, Measured):
    """One period of one network, (time_s - period_s, time_s]."""

    edges: Edges = NO_EDGES
    """Knowledge of receivers; none without receivers' neighbourhoods. Not a column of results."""


@dataclass(frozen=True, kw_only=True)
class Measurements(Measured):
    """One period of each of several networks, whose numbers of the period may differ; without `edges`."""

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
        """Those of networks with equally many hosts and neighbourhoods."""
        columns = {name: np.array([getattr(m, name) for m in measurements]) for name in (*COLUMNS, *PROGRESS)}
        return cls(**columns)


def idle(n_agents: int, n_neighbourhoods: int) -> Measurement:
    """The start of a network of which nothing is known: zeros, and no limits."""
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
    """By `Measurement` field: [n_epochs, n_agents], [n_epochs, n_neighbourhoods], or [n_epochs] for the scalars."""


def stack(measurements: Sequence[Measurement]) -> Epochs:
    """Stack measurements of one run, in order."""
    columns = {name: np.array([getattr(m, name) for m in measurements]) for name in (*COLUMNS, *PROGRESS)}
    return Epochs(time_s=columns.pop("time_s"), columns=columns)
