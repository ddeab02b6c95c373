# SPDX-License-Identifier: BSD-3-Clause
"""Ratios of pooled flows: by hand, pairing and coverage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.flows import FloatArray
from ncc.metrics.pooled import pooled_ratio


def columns(*runs: list[float]) -> list[FloatArray]:
    return [np.array(run, dtype=np.float64) for run in runs]


def test_the_mean_is_over_all_flows_not_over_runs() -> None:
    ours, theirs = columns([2, 2, 2], [6]), columns([1, 1, 1], [1])
    assert pooled_ratio(ours, theirs).estimate == pytest.approx(3.0)  # (2 + 2 + 2 + 6) / 4; over runs it would be 4


def test_percentiles_by_hand() -> None:
    ours, theirs = columns(list(range(1, 51)), list(range(51, 101))), columns([1.0] * 50, [1.0] * 50)
    assert pooled_ratio(ours, theirs, 99).estimate == 99
    assert pooled_ratio(ours, theirs, 100).estimate == 100
    assert pooled_ratio(ours, theirs, 0).estimate == 1


@pytest.mark.parametrize("percentile", [None, 50.0, 99.0])
@given(data=st.lists(st.lists(st.floats(0.1, 1e3), min_size=1, max_size=20), min_size=2, max_size=6))
def test_a_common_factor_is_found_exactly(percentile: float | None, data: list[list[float]]) -> None:
    runs = columns(*data)
    got = pooled_ratio([3 * run for run in runs], runs, percentile)
    assert (got.estimate, got.low, got.high) == pytest.approx((3, 3, 3))


def test_resampled_percentiles_are_those_of_repeated_runs() -> None:
    # Two runs: a resample is (a, a), (a, b) or (b, b), so the interval ends at the ratio of one run alone.
    got = pooled_ratio(columns([1, 2, 3], [7, 8, 9]), columns([1, 1, 1], [1, 1, 1]), 50)
    assert (got.low, got.estimate, got.high) == (2, 3, 8)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(60):
        level = rng.normal(10, 1, 12)  # runs differ, and the two sides of a run share that
        ours = [rng.normal(1.1 * at, 1, 40) for at in level]
        theirs = [rng.normal(at, 1, 40) for at in level]
        hits += 1.1 in pooled_ratio(ours, theirs)
    assert 50 <= hits <= 60


def test_what_has_no_ratio_is_nan() -> None:
    assert np.isnan(pooled_ratio(columns([], []), columns([], [])).estimate)
    assert np.isnan(pooled_ratio(columns([1], [1]), columns([0], [0])).estimate)
    one = pooled_ratio(columns([2, 2]), columns([1, 1]))
    assert one.estimate == 2
    assert np.isnan([one.low, one.high]).all()
    some = pooled_ratio(columns([], [4, 4], [2]), columns([], [2, 2], [1]))
    assert (some.estimate, some.low, some.high) == (2, 2, 2)
