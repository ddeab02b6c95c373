# SPDX-License-Identifier: BSD-3-Clause
"""Progress reports: many updates per second are gathered into a few reports for people and logs."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ncc.harness.learner import Progress, Report

REPORT_EVERY_S = 0.5


class Meter:
    """A collector of updates that reports at most every `REPORT_EVERY_S` seconds.

    A report has all returns and, for every scalar, its mean over the updates that contain it.
    """

    def __init__(self, report: Report, epochs: int, total_epochs: int) -> None:
        self._report, self._epochs, self._total = report, epochs, total_epochs
        self._returns: list[float] = []
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._updates = 0
        self._since_s, self._since_epochs = time.perf_counter(), epochs
        # Report the starting point: in a resumed run, this makes earlier reports of later epochs obsolete.
        report(Progress(epochs, total_epochs))

    @property
    def epochs(self) -> int:
        """Periods counted so far."""
        return self._epochs

    def add(self, epochs: int, returns: Sequence[float], scalars: Mapping[str, float]) -> None:
        """Count one update over `epochs` more periods."""
        self._epochs += epochs
        self._updates += 1
        self._returns.extend(returns)
        for name, value in scalars.items():
            self._sums[name] += value
            self._counts[name] += 1
        if time.perf_counter() - self._since_s >= REPORT_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Report now, if there is anything to report."""
        if not self._updates:
            return
        now_s = time.perf_counter()
        scalars = {name: total / self._counts[name] for name, total in self._sums.items()}
        scalars["speed/epochs_per_s"] = (self._epochs - self._since_epochs) / max(now_s - self._since_s, 1e-9)
        returns = tuple(self._returns)
        self._returns, self._sums, self._counts, self._updates = [], defaultdict(float), defaultdict(int), 0
        self._since_s, self._since_epochs = now_s, self._epochs
        self._report(Progress(self._epochs, self._total, returns, scalars))
