# SPDX-License-Identifier: BSD-3-Clause
"""Congestion windows over time. No result holds them: a run is done again, and must come out as it did before.

A simulator's equal seeds give bit-equal runs, so that nothing need be kept of flows while anything runs at full speed.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ncc.core.errors import ConfigError, ResultError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.harness.datapath import Datapath
from ncc.harness.limiter import RateLimiter
from ncc.harness.run import Run, RunProgress, run_once


@runtime_checkable
class ShowsWindows(Protocol):
    """A datapath that can say what its senders' windows are."""

    def windows(self, flows: Sequence[int]) -> IntArray:
        """[n] cwnd of these flows now, in bytes of payload; 0 for one without a connection."""
        ...


@dataclass(frozen=True)
class WindowTrace:
    """Windows of some flows of a run, at the end of every epoch."""

    controller: str
    time_s: FloatArray
    """[n_epochs] simulated time."""
    flows: IntArray
    """[n] index of each flow in the run."""
    cwnd_bytes: FloatArray
    """[n_epochs, n] bytes of payload; NaN while the flow has no connection."""
    mss_bytes: int
    """Payload of a full packet."""


def trace_windows(
    run: Run,
    datapath: Datapath,
    limiter: RateLimiter,
    *,
    flows: Sequence[int] | None = None,
    progress: Callable[[RunProgress], None] | None = None,
) -> WindowTrace:
    """Do a run again and watch its windows.

    Args:
        run: what to do again.
        datapath: of the kind that did it; closed at the end.
        limiter: of the run's controller.
        flows: indices of those to watch; None: all.
        progress: called after every epoch.

    Raises:
        ConfigError: a datapath that shows no windows or is not the run's, or a flow that the run does not have.
        ResultError: the run came out differently: another version made it, or with another policy.
    """
    if not isinstance(datapath, ShowsWindows):
        raise ConfigError(
            f"datapath {datapath.name} does not show windows; trace a run of packetsim or ns3 in place of it"
        )
    if datapath.name != run.datapath:
        raise ConfigError(f"the run of {run.label} was made on {run.datapath}, not on {datapath.name}; trace it there")
    chosen = np.arange(len(run.flows)) if flows is None else np.asarray(flows)
    whole = chosen.ndim == 1 and chosen.dtype.kind in "iu"
    if not whole or len(chosen) == 0 or chosen.min() < 0 or chosen.max() >= len(run.flows):
        raise ConfigError(
            f"flows must be indices in [0, {len(run.flows)}), whole numbers and at least one, got "
            f"{chosen.ravel()[:8].tolist()}"
        )
    chosen = chosen.astype(np.int64)
    which, time_s, seen = chosen.tolist(), [], []

    def watch(measurement: Measurement, limits_bps: FloatArray | None) -> None:
        if limits_bps is not None:
            time_s.append(measurement.time_s)
            seen.append(datapath.windows(which))

    with closing(datapath):
        again = run_once(
            datapath,
            run.scenario,
            run.controller,
            limiter,
            run.seed,
            flow_seed=run.flow_seed,
            progress=progress,
            watch=watch,
        )
    if not np.array_equal(again.records.flows.finish_s, run.records.flows.finish_s, equal_nan=True):
        raise ResultError(
            f"the run of {run.label} comes out differently now, so its windows cannot be shown: another version of ncc "
            "or another policy made it; run it again"
        )
    windows = np.array(seen, dtype=np.float64)
    windows[windows == 0] = np.nan
    mss = run.scenario.transport.mss_bytes
    return WindowTrace(run.controller.name, np.array(time_s), chosen, windows, mss)
