# SPDX-License-Identifier: BSD-3-Clause
"""Bootstrap intervals over seeds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.core.flows import FloatArray
from ncc.core.seeding import generator

LEVEL = 0.95
"""Confidence of an interval."""
N_RESAMPLES = 9999
BATCH = 1000
"""Resamples held in memory at once."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval."""

    estimate: float
    low: float
    high: float
    n: int
    """Number of values used."""
    n_missing: int
    """Number of values left out because they were NaN (the metric was undefined there)."""

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def interval(values: npt.ArrayLike) -> Interval:
    """Percentile bootstrap interval of the mean of independent values [n], one per seed (Efron 1979).

    It uses percentiles rather than BCa, whose corrections rely on the same few values. With 5 to 10 seeds either is
    somewhat too narrow; use more seeds.

    Special cases: NaNs are left out and counted; without values everything is NaN; with one value the bounds are NaN;
    equal values give an interval of width 0.
    """
    x = np.asarray(values, dtype=np.float64)
    return _bootstrap((x[~np.isnan(x)],), np.mean, len(x))


def paired_ratio(values: npt.ArrayLike, reference: npt.ArrayLike) -> Interval:
    """Interval of mean(values) / mean(reference) where value i of both comes from the same flows.

    Seeds are resampled in pairs, so their common variation cancels. Pairs with a NaN are left out and counted. If any
    of `reference` is 0, estimate and bounds are NaN: there is nothing to compare with. Otherwise see `interval`.
    """
    a, b = np.asarray(values, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    both = ~(np.isnan(a) | np.isnan(b))
    n = int(both.sum())
    if (b[both] == 0).any():
        return Interval(np.nan, np.nan, np.nan, n, len(a) - n)

    def ratio(x: npt.NDArray[Any], y: npt.NDArray[Any], axis: int = -1) -> Any:
        return x.mean(axis=axis) / y.mean(axis=axis)

    return _bootstrap((a[both], b[both]), ratio, len(a))


def gap_closed(ours: npt.ArrayLike, start: npt.ArrayLike, goal: npt.ArrayLike) -> Interval:
    """Interval of (mean(start) - mean(ours)) / (mean(start) - mean(goal)), where value i of all is from the same flows.

    0 means as good as `start`, 1 as good as `goal`, below 0 worse than `start`. Seeds are resampled together. A seed
    with a NaN is left out and counted. If `goal` is not below `start` in every seed, there is no gap, and estimate and
    bounds are NaN.
    """
    columns = np.array([ours, start, goal], dtype=np.float64)
    known = np.asarray(~np.isnan(columns).any(axis=0))
    a, b, c = columns[:, known]
    if (c >= b).any():
        return Interval(np.nan, np.nan, np.nan, len(a), len(known) - len(a))

    def share(x: npt.NDArray[Any], y: npt.NDArray[Any], z: npt.NDArray[Any], axis: int = -1) -> Any:
        from_start = y.mean(axis=axis)
        return (from_start - x.mean(axis=axis)) / (from_start - z.mean(axis=axis))

    return _bootstrap((a, b, c), share, len(known))


def _bootstrap(columns: tuple[FloatArray, ...], of: Callable[..., Any], n_all: int) -> Interval:
    n = len(columns[0])
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0, n_all)
    estimate = float(of(*columns, axis=-1))
    if n == 1:
        return Interval(estimate, np.nan, np.nan, 1, n_all - 1)
    if all(np.ptp(column) == 0 for column in columns):
        return Interval(estimate, estimate, estimate, n, n_all - n)
    rng, found = generator(0, "bootstrap"), []
    for first in range(0, N_RESAMPLES, BATCH):
        drawn = rng.integers(0, n, (min(BATCH, N_RESAMPLES - first), n))
        found.append(of(*(column[drawn] for column in columns), axis=-1))
    low, high = np.quantile(np.concatenate(found), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(estimate, float(low), float(high), n, n_all - n)
