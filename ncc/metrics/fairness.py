# SPDX-License-Identifier: BSD-3-Clause
"""Fairness among hosts that all have something to send."""

import numpy as np
import numpy.typing as npt

from ncc.core.measurement import Epochs
from ncc.core.scenario import Scenario
from ncc.core.units import MS

WINDOW_S = 20 * MS
"""Window in seconds: long enough that the controllers and not a few packets determine the shares, short against a
run."""


def jain_index(shares: npt.ArrayLike) -> float:
    """(sum x)^2 / (n sum x^2) of non-negative shares, in [1/n, 1] (Jain, Chiu, Hawe, DEC-TR-301, 1984).

    The index is NaN without shares, or if all are 0.
    """
    x = np.asarray(shares, dtype=np.float64).ravel()
    largest = x.max(initial=0.0)
    if largest == 0:
        return float("nan")
    x = x / largest  # avoids that squares of tiny shares underflow
    return float(x.sum() ** 2 / (x.size * (x**2).sum()))


def windowed_jain(scenario: Scenario, epochs: Epochs) -> float:
    """Mean Jain index of goodput among neighbours that compete.

    The run is cut into windows of `WINDOW_S` (whole periods, at least one; a remainder at the end is left out). A host
    counts in a window if it was backlogged (`queued_bytes` > 0) at the end of each period of the window. Its goodput
    includes bytes to neighbours, although these never make it backlogged. An index is computed for each window and
    neighbourhood with at least two such hosts and some goodput, from the hosts' mean goodputs. The result is the mean
    of these indices, NaN if there are none.
    """
    network = scenario.network()
    per_window = max(1, round(WINDOW_S / scenario.period_s))
    stepped = epochs.time_s > 0
    goodput = epochs.columns["goodput_bps"][stepped]
    queued = epochs.columns["queued_bytes"][stepped]
    n_windows = len(goodput) // per_window
    if not n_windows:
        return float("nan")
    shape = (n_windows, per_window, goodput.shape[1])
    backlogged = (queued[: n_windows * per_window].reshape(shape) > 0).all(axis=1)
    share = np.where(backlogged, goodput[: n_windows * per_window].reshape(shape).mean(axis=1), 0.0)
    member = np.eye(len(network.neighbourhoods))[list(network.agent_area)]  # [n_agents, n_neighbourhoods]
    hosts, total, squares = backlogged @ member, share @ member, share**2 @ member
    counted = (hosts >= 2) & (total > 0)
    if not counted.any():
        return float("nan")
    return float(np.mean(total[counted] ** 2 / (hosts[counted] * squares[counted])))
