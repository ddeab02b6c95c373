# SPDX-License-Identifier: BSD-3-Clause
"""Limits that are multiples of a formula's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.envs.action import ActionSpec, RateScale, rate_map
from ncc.envs.observation import ObservationSpec, SharedObserver
from tests.envs.cases import measured, rack

ORDERED = ObservationSpec(neighbours="ordered")
FOUR = rack()
BUSY: dict[str, Any] = {"throughput_bps": 1e9, "queued_flows": [1, 2, 1, 0], "next_bytes": [100e3, 300e3, 3e6, 0]}


def residual(scenario: Scenario = FOUR, seen: ObservationSpec = ORDERED, **settings: object) -> RateScale:
    spec = ActionSpec(kind="residual", **{"formula": "local_hold", "min_rate_frac": 0.002, **settings})  # type: ignore[arg-type]
    made = rate_map(spec, seen)
    assert isinstance(made, RateScale)
    made.reset(scenario)
    return made


def observed(*epochs: dict[str, Any], scenario: Scenario = FOUR, seen: ObservationSpec = ORDERED) -> np.ndarray:
    """The observation after these epochs and an idle one before."""
    observer = SharedObserver(seen)
    observer.reset(scenario)
    obs = observer.observe(measured(scenario))
    for epoch in epochs:
        obs = observer.observe(measured(scenario, **epoch))
    return obs


def test_zero_is_the_formula() -> None:
    # Two Gbit/s for hosts of one. The host with 3 MB comes after two that take a link each, and has a tenth of a third
    # of the uplink; the two first have a link's worth of room each, and the last has nothing to send.
    later = residual().rates_bps(np.zeros(4), observed(BUSY, BUSY))
    np.testing.assert_allclose(later, [np.inf, np.inf, 0.97 * 0.1 * 2e9 / 3, np.inf], rtol=1e-6)
    # In the first period nobody knows of the others: `local` sees a free link, `local_hold` waits.
    first = observed(BUSY)
    np.testing.assert_array_equal(residual(formula="local").rates_bps(np.zeros(4), first), np.inf)
    held = 0.1 * 0.97 * 2e9
    np.testing.assert_allclose(residual().rates_bps(np.zeros(4), first), [held, held, held, np.inf], rtol=1e-6)


def test_a_number_multiplies_the_formula() -> None:
    obs, rates = observed(BUSY, BUSY), residual(scale=3.0)
    formula = 0.97 * 0.1 * 2e9 / 3
    np.testing.assert_allclose(
        rates.rates_bps(np.array([-0.5, 1.0, 0.5, -0.25]), obs),
        [np.exp(-1.5) * 1e9, np.inf, np.exp(1.5) * formula, np.exp(-0.75) * 1e9],  # no limit counts as the link
        rtol=1e-6,
    )
    # Not below the least rate, of which the formula itself may have less.
    np.testing.assert_allclose(rates.rates_bps(np.full(4, -1.0), obs)[2], np.exp(-3) * formula, rtol=1e-6)
    np.testing.assert_allclose(residual(min_rate_frac=0.05).rates_bps(np.full(4, -1.0), obs)[2], 5e7, rtol=1e-6)
    np.testing.assert_allclose(residual(min_rate_frac=0.5).rates_bps(np.full(4, -1.0), obs)[2], formula, rtol=1e-6)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_more_is_never_less(a: float, b: float) -> None:
    obs, rates = observed(BUSY, BUSY), residual()
    low, high = (rates.rates_bps(np.full(4, x), obs) for x in sorted((a, b)))
    assert (low <= high).all()
    assert (low > 0).all()


def test_racks_together_are_as_each_alone() -> None:
    obs = np.stack([observed(BUSY), observed(BUSY, BUSY)])
    given_ = np.linspace(-1, 1, 8).reshape(2, 4)
    rates = residual()
    together = rates.rack_rates_bps(given_, obs, 0)
    np.testing.assert_array_equal(together, [rates.rates_bps(*each) for each in zip(given_, obs, strict=True)])
    with pytest.raises(ConfigError, match=r"rack 6: action of host h1 is 2.0; allowed: numbers in \[-1, 1\]"):
        rates.rack_rates_bps(np.array([[0.0] * 4, [0, 2, 0, 0]]), obs, 5)


def test_stale_messages_leave_the_formula_alone() -> None:
    scenario = FOUR.replace(sharing_silent=("h3",))
    seen = ORDERED.replace(ages=True)
    rates = residual(scenario, seen)
    for missed in range(1, 6):
        obs = observed(*[BUSY] * missed, scenario=scenario, seen=seen)
        trusted = rates.rates_bps(np.full(4, -1.0), obs)[0] < 1e9
        assert trusted == (missed < 3)


def test_where_messages_get_lost_their_ages_must_be_seen() -> None:
    with pytest.raises(ConfigError, match=r"messages may get lost in scenario 'small'.*set observation.ages to true"):
        residual(FOUR.replace(sharing_loss_frac=0.1))
