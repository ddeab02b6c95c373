# SPDX-License-Identifier: BSD-3-Clause
"""The part of a run with the most arrivals at once, for a closer look."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import IntArray
from ncc.harness.run import Run

LEAST_EPOCHS = 30
"""Smallest length of the shown time, in periods."""
BEFORE_FRAC = 0.02
"""Time that is shown before the first arrival, as a share of the rest of the shown time."""


@dataclass(frozen=True)
class Stretch:
    """A part of several runs of the same flows: some flows, and the time to show."""

    flows: IntArray
    """[n] indices of the flows that arrive in quick succession, in their order."""
    arrivals_s: tuple[float, float]
    """Time of the first arrival, and a time just after the last one."""
    window_s: tuple[float, float]
    """Time to show (start_s, end_s). It begins shortly before the first arrival, and ends when every run has delivered
    all of the flows, but within the limits of `busiest`."""


def busiest(runs: Sequence[Run], flows: int = 32, *, longest_s: float = 0.03) -> Stretch:
    """Find the shortest time in which so many flows arrive; if there are several such times, the first.

    Args:
        runs: runs of the same flows.
        flows: number of flows; if the runs have fewer, all of them are taken.
        longest_s: longest time to show, in seconds; it is exceeded if 30 periods or the arrivals take longer.

    Raises:
        ConfigError: there is no run, the runs have different flows or none, `flows` is below 1, or `longest_s` is not
            positive.
    """
    if not runs or any(not np.array_equal(run.flows.start_s, runs[0].flows.start_s) for run in runs):
        raise ConfigError("a stretch is of runs of the same flows; name controllers of one evaluation and seed")
    start_s = runs[0].flows.start_s
    if flows < 1 or longest_s <= 0 or len(start_s) == 0:
        raise ConfigError(
            f"a stretch needs at least one flow and longest_s above 0, got flows={flows} of {len(start_s)} and "
            f"longest_s={longest_s:g}"
        )
    n = min(flows, len(start_s))
    first = int(np.argmin(start_s[n - 1 :] - start_s[: len(start_s) - n + 1]))
    chosen = np.arange(first, first + n)
    begin_s, last_s = float(start_s[chosen[0]]), float(start_s[chosen[-1]])
    ends = [float(np.nan_to_num(run.records.flows.finish_s[chosen], nan=run.epochs.time_s[-1]).max()) for run in runs]
    least_s = LEAST_EPOCHS * max(run.scenario.period_s for run in runs)
    long_s = max(least_s, last_s - begin_s, min(longest_s, max(ends) - begin_s))
    return Stretch(
        flows=chosen,
        arrivals_s=(begin_s, float(np.nextafter(last_s, np.inf))),
        window_s=(begin_s - BEFORE_FRAC * long_s, begin_s + long_s),
    )
