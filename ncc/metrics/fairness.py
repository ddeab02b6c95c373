# SPDX-License-Identifier: BSD-3-Clause
"""Fairness among hosts that all have something to send."""

import numpy as np
import numpy.typing as npt

from ncc.core.measurement import Epochs
from ncc.core.scenario import Scenario
from ncc.core.units import MS

WINDOW_S = 20 * MS
"""Long enough for a share to be decided by the controllers rather than by a few packets; short against a run."""


def jain_index(shares: npt.ArrayLike) -> float:
    """(sum x)^2 / (n sum x^2) of non-negative shares, in [1/n, 1] (Jain, Chiu, Hawe, DEC-TR-301, 1984).

    NaN for no shares, or when all are 0: nothing was shared.

    Raises:
        ValueError: a negative or non-finite share.
    """
    x = np.asarray(shares, dtype=np.float64).ravel()
    if not np.isfinite(x).all() or (x < 0).any():
        raise ValueError("jain_index needs finite shares >= 0")
    largest = x.max(initial=0.0)
    if largest == 0:
        return float("nan")
    x = x / largest  # squares of tiny shares would vanish
    return float(x.sum() ** 2 / (x.size * (x**2).sum()))


def windowed_jain(scenario: Scenario, epochs: Epochs, window_s: float = WINDOW_S) -> float:
    """Mean Jain index of goodput among neighbours that compete.

    The run is cut into windows of `window_s` (whole epochs, at least one; a rest at the end is left out). A host counts
    in a window when it was backlogged (`queued_bytes` > 0) at the end of every epoch of it: what it did not get, it
    wanted. What it sends to neighbours is in its goodput too, though it never makes it backlogged. In each window and
    neighbourhood with at least two such hosts, the index is taken of their mean goodput; the result is the mean over
    these. NaN if there is none.
    """
    network = scenario.network()
    per_window = max(1, round(window_s / scenario.period_s))
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
