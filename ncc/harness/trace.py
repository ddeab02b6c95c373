# SPDX-License-Identifier: BSD-3-Clause
"""Congestion windows over time. Results do not contain them, so a run is repeated to record them.

With equal seeds a simulator repeats a run bit for bit, so ordinary runs need not store their windows.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from ncc.core.errors import ConfigError, ResultError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.harness.datapath import Datapath
from ncc.harness.limiter import RateLimiter
from ncc.harness.run import Run, run_once


@dataclass(frozen=True)
class WindowTrace:
    """Windows of some flows of a run, at the end of every period."""

    controller: str
    datapath: str
    """Name of the datapath that ran it."""
    time_s: FloatArray
    """[n_epochs] ends of the periods, in seconds of simulated time."""
    flows: IntArray
    """[n] index of each recorded flow among the flows of the run."""
    cwnd_bytes: FloatArray
    """[n_epochs, n] windows in bytes of payload; NaN while the flow has no connection."""
    mss_bytes: int
    """Payload of a full packet."""


def trace_windows(
    run: Run, datapath: Datapath, limiter: RateLimiter, *, flows: Sequence[int] | IntArray | None = None
) -> WindowTrace:
    """Repeat a run and record its windows.

    Args:
        run: run to repeat.
        datapath: datapath of the run's kind; closed at the end.
        limiter: limiter of the run's controller.
        flows: indices of the flows to record; None: all.

    Raises:
        ConfigError: the datapath shows no windows or is another than the run's, or `flows` is empty or has an index
            that is not in the run.
        ResultError: the repeated run differs: the first used another version or another policy.
    """
    windows_of = getattr(datapath, "windows", None)
    if windows_of is None:
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
    carried = np.flatnonzero(run.scenario.flows(run.flow_seed).size_bytes > 0)  # the datapath numbers waits too
    which, time_s, seen = carried[chosen].tolist(), [], []

    def watch(measurement: Measurement, limits_bps: FloatArray | None) -> None:
        if limits_bps is not None:
            time_s.append(measurement.time_s)
            seen.append(windows_of(which))

    with closing(datapath):
        again = run_once(
            datapath, run.scenario, run.controller, limiter, run.seed, flow_seed=run.flow_seed, watch=watch
        )
    if not np.array_equal(again.records.flows.finish_s, run.records.flows.finish_s, equal_nan=True):
        raise ResultError(
            f"the run of {run.label} comes out differently now, so its windows cannot be shown: another version of ncc "
            "or another policy made it; run it again"
        )
    windows = np.array(seen, dtype=np.float64)
    windows[windows == 0] = np.nan
    mss = run.scenario.transport.mss_bytes
    return WindowTrace(run.controller.name, run.datapath, np.array(time_s), chosen, windows, mss)
