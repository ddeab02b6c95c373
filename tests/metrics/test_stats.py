# SPDX-License-Identifier: BSD-3-Clause
"""Bootstrap intervals: coverage, pairing, and the cases with nothing to resample."""

import math
from typing import Any

import numpy as np
import pytest

from ncc.core.seeding import generator
from ncc.metrics.stats import BATCH, N_RESAMPLES, Interval, gap_closed, interval, paired_ratio

NAN = math.nan


@pytest.mark.parametrize("n", [2, 7, 40])
def test_intervals_are_those_of_scipy(n: int) -> None:
    from scipy import stats

    ours, theirs = (np.random.default_rng(seed).exponential(size=n) for seed in (1, 2))
    same: dict[str, Any] = {"n_resamples": N_RESAMPLES, "batch": BATCH, "vectorized": True, "method": "percentile"}
    alone = stats.bootstrap((ours,), np.mean, random_state=generator(0, "bootstrap"), **same).confidence_interval
    got = interval(ours)
    assert got.estimate == ours.mean()
    assert (got.low, got.high) == pytest.approx((alone.low, alone.high), rel=1e-12)
    ratio = lambda x, y, axis: x.mean(axis=axis) / y.mean(axis=axis)  # noqa: E731
    pair = stats.bootstrap((ours, theirs), ratio, paired=True, random_state=generator(0, "bootstrap"), **same)
    got = paired_ratio(ours, theirs)
    assert (got.low, got.high) == pytest.approx(tuple(pair.confidence_interval), rel=1e-12)


def test_nothing_to_resample() -> None:
    none = interval([math.nan, math.nan])
    assert (none.n, none.n_missing) == (0, 2)
    assert math.isnan(none.estimate)
    assert math.isnan(none.low)
    one = interval([3.0, math.nan])
    assert (one.estimate, one.n, one.n_missing) == (3.0, 1, 1)
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert interval([2.0] * 5) == Interval(2.0, 2.0, 2.0, 5, 0)


def test_paired_special_cases() -> None:
    assert paired_ratio([2.0, 2.0], [1.0, 1.0]) == Interval(2.0, 2.0, 2.0, 2, 0)
    zero = paired_ratio([1.0, 1.0], [0.0, 1.0])
    assert math.isnan(zero.estimate)
    missing = paired_ratio([1.0, math.nan, 3.0], [1.0, 2.0, math.nan])
    assert (missing.estimate, missing.n, missing.n_missing) == (1.0, 1, 2)
    assert math.isnan(missing.high)


def test_a_gap_closed_by_hand() -> None:
    # From 4 on average to 1: 3 is a third of the way; seeds differ more than controllers, and cancel.
    start, goal = [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]
    found = gap_closed([1.0, 3.0, 5.0], start, goal)
    assert found.estimate == pytest.approx(1 / 3)
    assert found.low < 1 / 3 < found.high
    assert gap_closed(goal, start, goal).estimate == 1.0
    worse = gap_closed([5.0, 7.0, 9.0], start, goal)
    assert worse.estimate == pytest.approx(-1.0), "worse than the start is below 0"
    missing = gap_closed([1.0, NAN, 5.0], start, goal)
    assert (missing.n, missing.n_missing) == (2, 1)
    assert missing.estimate == pytest.approx(1 / 3)


def test_without_a_gap_nothing_is_closed() -> None:
    for goal in ([1.0, 2.0], [1.0, 3.0]):
        found = gap_closed([1.0, 1.0], [2.0, 2.0], goal)
        assert math.isnan(found.estimate)
        assert math.isnan(found.low)
    assert math.isnan(gap_closed([], [], []).estimate)
    one = gap_closed([1.0], [2.0], [0.0])
    assert (one.estimate, one.n) == (0.5, 1)
    assert math.isnan(one.low), "one seed has no interval"
