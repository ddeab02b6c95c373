# SPDX-License-Identifier: BSD-3-Clause
"""Progress reports: many updates per second are gathered into a few reports for people and logs."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ncc.harness.batch import Transition
from ncc.harness.learner import Progress, Report

REPORT_EVERY_S = 0.5


class Meter:
    """A collector of updates that reports at most every `REPORT_EVERY_S` seconds.

    A report has all returns and, for every scalar, its mean over the updates that contain it.
    """

    def __init__(self, report: Report, epochs: int, total_epochs: int) -> None:
        self._report, self._total = report, total_epochs
        self.epochs = epochs
        """Periods counted so far."""
        # Report the starting point: in a resumed run, this makes earlier reports of later epochs obsolete.
        report(Progress(epochs, total_epochs))
        self._begin()

    def add(self, epochs: int, returns: Sequence[float], scalars: Mapping[str, float]) -> None:
        """Count one update over `epochs` more periods."""
        self.epochs += epochs
        self._updates += 1
        self._returns.extend(returns)
        for name, value in scalars.items():
            self._values[name].append(value)
        if time.perf_counter() - self._since_s >= REPORT_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Report now, if there is anything to report."""
        if not self._updates:
            return
        scalars = {name: sum(values) / len(values) for name, values in self._values.items()}
        elapsed_s = max(time.perf_counter() - self._since_s, 1e-9)
        scalars["speed/epochs_per_s"] = (self.epochs - self._since_epochs) / elapsed_s
        self._report(Progress(self.epochs, self._total, tuple(self._returns), scalars))
        self._begin()

    def _begin(self) -> None:
        self._returns: list[float] = []
        self._values: defaultdict[str, list[float]] = defaultdict(list)
        self._updates, self._since_s, self._since_epochs = 0, time.perf_counter(), self.epochs


class Returns:
    """Mean reward per host and period of each episode.

    If a reward is a difference between copies of a network (`ncc.envs.pairs`), the host's own reward counts instead.
    """

    def __init__(self, n_racks: int) -> None:
        self._sums = np.zeros(n_racks)
        self.lengths = np.zeros(n_racks, np.int64)
        """Periods [n_racks] that the running episodes have had so far."""

    def add(self, step: Transition) -> list[float]:
        """Add a period of every rack; return the mean rewards of the episodes that ended in it."""
        self._sums += (step.reward if step.earned is None else step.earned).mean(axis=-1)
        self.lengths += 1
        ended = step.terminated | step.truncated
        means: list[float] = (self._sums[ended] / self.lengths[ended]).tolist()
        self._sums[ended] = self.lengths[ended] = 0
        return means
