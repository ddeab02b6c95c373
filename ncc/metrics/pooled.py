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
) -> Interval:
    """95 % interval of statistic(all of `ours`) / statistic(all of `theirs`) over runs that share their flows.

    Values of all runs are pooled before the statistic is taken, because a percentile of few flows is meaningless and a
    mean of percentiles over runs is another quantity. Runs are resampled (the cluster bootstrap, Davison and Hinkley
    1997, section 3.8), the same ones on both sides. With 5 to 10 runs the interval is somewhat too narrow.

    Special cases: no values, or a statistic of 0 in the denominator, gives NaN; one run gives NaN bounds.

    Args:
        ours: values of each run, >= 0 and finite; run i of both has the same flows.
        theirs: values to compare them with.
        percentile: statistic, in [0, 100]: the smallest value with at least that percentage of all values at or below
            it; None: the mean.
    """
    a, b, runs = list(ours), list(theirs), len(ours)
    once = np.ones((1, runs), dtype=np.int32)
    estimate = float(_ratios(a, b, once, percentile)[0])
    if runs < 2 or np.isnan(estimate):
        return Interval(estimate, np.nan, np.nan, runs, 0)
    picks = generator(0, "pooled").integers(runs, size=(N_RESAMPLES, runs))
    times = np.apply_along_axis(np.bincount, 1, picks, minlength=runs).astype(np.int32)
    ratios = np.concatenate([_ratios(a, b, times[i : i + _BATCH], percentile) for i in range(0, N_RESAMPLES, _BATCH)])
    ratios = ratios[np.isfinite(ratios)]  # a resample of runs without any values has no ratio
    if not len(ratios):
        return Interval(estimate, np.nan, np.nan, runs, 0)
    low, high = np.quantile(ratios, [0.025, 0.975])
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
