# SPDX-License-Identifier: BSD-3-Clause
"""Ratios of statistics of pooled flows, with intervals that account for dependence between flows of one run."""

from collections.abc import Sequence

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.seeding import generator
from ncc.metrics.stats import Interval

N_RESAMPLES = 999
_BATCH = 100


def pooled_ratio(
    ours: Sequence[FloatArray],
    theirs: Sequence[FloatArray],
    percentile: float | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Interval of statistic(all of `ours`) / statistic(all of `theirs`) over runs that share their flows.

    Values of all runs are pooled before the statistic is taken, because a percentile of few flows is meaningless and a
    mean over runs of percentiles is another quantity. Runs are resampled (the cluster bootstrap, Davison and Hinkley
    1997, section 3.8), the same ones on both sides. With 5 to 10 runs the interval is somewhat too narrow.

    Special cases: no values, or a statistic of 0 in the denominator, gives NaN; one run gives NaN bounds.

    Args:
        ours: values of each run, >= 0 and finite; row i of both comes from the same flows.
        percentile: in [0, 100], the smallest value with at least that share of values at or below it; None: the mean.

    Raises:
        ValueError: different numbers of runs or of values in them, values that are negative or not finite, a percentile
            or level out of range.
    """
    a, b = ([np.asarray(run, dtype=np.float64) for run in side] for side in (ours, theirs))
    if [run.shape for run in a] != [run.shape for run in b] or any(run.ndim != 1 for run in a):
        raise ValueError("pooled_ratio needs the same runs on both sides, each with one value per flow")
    if any(not np.isfinite(run).all() or (run < 0).any() for run in (*a, *b)):
        raise ValueError("pooled_ratio needs finite values >= 0")
    if percentile is not None and not 0 <= percentile <= 100:
        raise ValueError(f"percentile must be in [0, 100], got {percentile}")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    runs = len(a)
    once = np.ones((1, runs), dtype=np.int32)
    estimate = float(_ratios(a, b, once, percentile)[0])
    if runs < 2 or np.isnan(estimate):
        return Interval(estimate, np.nan, np.nan, runs, 0)
    picks = generator(seed, "pooled").integers(runs, size=(N_RESAMPLES, runs))
    times = np.apply_along_axis(np.bincount, 1, picks, minlength=runs).astype(np.int32)
    ratios = np.concatenate([_ratios(a, b, times[i : i + _BATCH], percentile) for i in range(0, N_RESAMPLES, _BATCH)])
    ratios = ratios[np.isfinite(ratios)]  # a resample of runs without any values has no ratio
    if not len(ratios):
        return Interval(estimate, np.nan, np.nan, runs, 0)
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), runs, 0)


def _ratios(a: list[FloatArray], b: list[FloatArray], times: np.ndarray, percentile: float | None) -> FloatArray:
    """Ratio for every row of `times` [n_resamples, n_runs], the number of times that each run is drawn."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = _statistic(a, times, percentile) / _statistic(b, times, percentile)
    return np.where(np.isfinite(ratio), ratio, np.nan)


def _statistic(side: list[FloatArray], times: np.ndarray, percentile: float | None) -> FloatArray:
    sizes = np.array([len(run) for run in side])
    total = times @ sizes
    if not sizes.sum():
        return np.full(len(times), np.nan)
    if percentile is None:
        return np.asarray((times @ np.array([run.sum() for run in side])) / np.where(total, total, np.nan))
    values = np.concatenate(side)
    order = np.argsort(values, kind="stable")
    run_of = np.repeat(np.arange(len(side)), sizes)[order]
    upto = np.cumsum(times[:, run_of], axis=1)  # [n_resamples, n_values] number of values at or below, repeats counted
    wanted = np.maximum(np.ceil(percentile / 100 * total), 1)
    first = np.argmax(upto >= wanted[:, None], axis=1)
    return np.where(total > 0, values[order][first], np.nan)
