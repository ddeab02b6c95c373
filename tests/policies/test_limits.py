# SPDX-License-Identifier: BSD-3-Clause
"""Bounds and slew limits of rate limits."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.envs.action import ActionSpec, RateTable
from ncc.envs.observation import ObservationSpec
from ncc.policies import RateBounds, table_bounds
from tests.support.experiments import small_rack

LINK = np.full(4, 1e9)
NONE = np.full(4, np.inf)


def held(bounds: RateBounds, limits: object, before: FloatArray = NONE) -> list[float]:
    found = bounds.hold(np.array(limits, dtype=np.float64), before, LINK)
    return [float(limit) for limit in found]


def test_bounds_apply_to_limits_and_below_the_link_s_rate_to_their_absence() -> None:
    bounds = RateBounds(min_rate_frac=0.01, max_rate_frac=0.5)
    assert held(bounds, [0, 1e8, 9e8, np.inf]) == [1e7, 1e8, 5e8, 5e8]
    above = bounds.replace(max_rate_frac=1)
    assert held(above, [0, 1e8, 2e9, np.inf]) == [1e7, 1e8, 1e9, np.inf], "no limit is the link's rate"
    assert np.isnan(held(bounds, [np.nan] * 4)).all()


def test_slew_limits_count_from_what_was_held_and_no_limit_as_the_link_s_rate() -> None:
    bounds = RateBounds(min_rate_frac=0.01, max_rate_frac=1, rise_ratio=2, fall_ratio=4)
    assert held(bounds, [1e7, 3e8, 1e9, np.inf]) == [2.5e8, 3e8, 1e9, np.inf], "from no limit"
    before = np.array([1e8, 1e8, 4e8, 5e8])
    assert held(bounds, [np.inf, 1e7, 9e8, np.inf], before) == [2e8, 2.5e7, 8e8, np.inf], "twice 5e8 is the link's rate"
    narrow = RateBounds(min_rate_frac=0.1, max_rate_frac=0.2, fall_ratio=2)
    assert held(narrow, [1e7] * 4) == [2e8] * 4, "bounds come first"


def test_bounds_that_contradict_themselves_are_refused() -> None:
    for changes in ({"min_rate_frac": 0.6}, {"min_rate_frac": 0}, {"rise_ratio": 1.0}, {"fall_ratio": 0.5}):
        with pytest.raises(ConfigError, match="RateBounds"):
            RateBounds(**{"min_rate_frac": 0.01, "max_rate_frac": 0.5, **changes})


@pytest.mark.parametrize("kind", ["shares", "levels"])
def test_the_table_s_own_bounds_change_nothing(kind: Literal["shares", "levels"]) -> None:
    spec, observation = ActionSpec(kind=kind), ObservationSpec(neighbours="ranked")
    table, scenario = RateTable(spec, observation), small_rack()
    table.reset(scenario)
    bounds = table_bounds(spec)
    obs = np.random.default_rng(1).uniform(0, 1, (4, 25)).astype(np.float32)
    obs[0] = 1
    for action in range(spec.n_actions):
        limits = table.rates_bps(np.full(4, action), obs)
        assert np.array_equal(bounds.hold(limits, NONE, LINK), limits)
    with pytest.raises(ConfigError, match="hosts take policies of 'levels', 'shares'"):
        table_bounds(ActionSpec(kind="log"))


RATES = st.lists(st.floats(1e3, 1e11) | st.just(float("inf")), min_size=4, max_size=4).map(np.array)


@given(RATES, RATES, st.tuples(st.floats(1.01, 10), st.floats(1.01, 10), st.floats(1e-4, 1), st.floats(1, 8)))
def test_what_is_held_is_within_bounds_and_not_far_from_the_last(
    limits: FloatArray, first: FloatArray, numbers: tuple[float, float, float, float]
) -> None:
    rise, fall, low, high = numbers
    bounds = RateBounds(min_rate_frac=low, max_rate_frac=high, rise_ratio=rise, fall_ratio=fall)
    before = bounds.hold(first, first, LINK)
    after = bounds.hold(limits, before, LINK)
    finite = np.isfinite(after)
    assert (after >= low * LINK).all()
    assert (after[finite] <= (high * LINK)[finite]).all()
    last = np.minimum(before, LINK)
    assert (after * fall * (1 + 1e-9) >= last).all()
    assert ((np.minimum(after, LINK) <= last * rise * (1 + 1e-9)) | (after <= low * LINK)).all()
