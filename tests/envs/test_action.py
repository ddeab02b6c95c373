# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.core.topologies import LeafSpine
from ncc.core.workload import Permutation
from ncc.envs.action import ActionSpec, RateScale, RateTable
from ncc.envs.observation import ObservationSpec, SharedObserver, fair_share_at, guard_at
from ncc.envs.spec import EnvView
from tests.envs.cases import measured, rack

FOUR = rack()
UNSEEN = np.zeros((4, 20), np.float32)
"""Levels of a link do not depend on what is observed."""


def table(**settings: object) -> RateTable:
    made = RateTable(ActionSpec(**settings), ObservationSpec())  # type: ignore[arg-type]
    made.reset(FOUR)
    return made


def scale(kind: str, **settings: object) -> RateScale:
    made = RateScale(ActionSpec(kind=kind, **settings), ObservationSpec())  # type: ignore[arg-type]
    made.reset(FOUR)
    return made


def test_ten_levels_and_no_limit_on_top() -> None:
    rates = table()
    got = [rates.rates_bps(np.full(4, k), UNSEEN)[0] for k in range(11)]
    np.testing.assert_allclose(got, [1e7, 1e8, 2e8, 3e8, 4e8, 5e8, 6e8, 7e8, 8e8, 9e8, np.inf])


def test_a_host_that_had_flows_is_guarded() -> None:
    spec = ObservationSpec(neighbours="ranked")
    rates = RateTable(ActionSpec(kind="shares"), spec)
    rates.reset(FOUR)
    obs = np.zeros((4, 25), np.float32)
    obs[:, fair_share_at(spec)] = 0.5
    share, others, before = guard_at(spec)  # type: ignore[misc]
    obs[:, share], obs[:, others], obs[:, before] = (1, 1, 0.4, 0), (0, 0, 0.25, 0.5), (0.2, 0, 0.2, 0.2)
    # Alone; nothing queued before, as at the start of a burst; one of two alike; behind others.
    np.testing.assert_allclose(rates.rates_bps(np.zeros(4, np.int64), obs), [1e9, 5e7, 3.6e8, 5e7])
    np.testing.assert_allclose(rates.rates_bps(np.array([8, 8, 8, 13]), obs), [1e9, 8e8, 8e8, np.inf])


def test_an_observer_tells_who_is_guarded() -> None:
    scenario, spec = rack(), ObservationSpec(neighbours="ranked", ceiling=1.0)
    observer, rates = SharedObserver(spec), RateTable(ActionSpec(kind="shares"), spec)
    observer.reset(scenario)
    rates.reset(scenario)
    one = measured(scenario, 0, queued_flows=np.array([1, 0, 0, 0]), next_bytes=np.array([5e4, 0, 0, 0]))
    two = measured(scenario, 1, queued_flows=np.array([1, 1, 0, 0]), next_bytes=np.array([4e6, 5e6, 0, 0]))
    observer.observe(measured(scenario, 0))
    limits = [rates.rates_bps(np.zeros(4, np.int64), observer.observe(each)) for each in (one, one, two, two)]
    # Of 2 Gbit/s and links of 1: others are seen a period late, so a fresh burst is not guarded, nor known to be alone.
    np.testing.assert_allclose([each[0] for each in limits], [1e8, 1e9, 1e9, 9e8], rtol=1e-6)
    np.testing.assert_allclose([each[1] for each in limits], [1e8, 1e8, 1e8, 9e8], rtol=1e-6)


@pytest.mark.parametrize("neighbours", ["pooled", "none"])
def test_nobody_is_guarded_where_hosts_are_not_ranked(neighbours: str) -> None:
    assert guard_at(ObservationSpec(neighbours=neighbours)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.array([0, 11, 0, 0]), r"host h1 is 11; allowed: whole numbers 0 to 10"),
        (np.array([0, 0, -1, 0]), r"host h2 is -1; allowed"),
        (np.array([0.0, 0.0, 0.0, np.nan]), r"host h3 is nan; allowed"),
        (np.array([0.5, 1.0, 1.0, 1.0]), r"host h0 is 0.5; allowed"),
        (np.array([1.0, 1.0, 1.0, 1.0]), r"integers, got float64"),
        (np.array([True] * 4), r"integers, got bool"),
        (np.zeros(3, dtype=np.int64), r"shape \(4,\), one per host h0..h3, got \(3,\)"),
        (np.zeros((4, 1), dtype=np.int64), r"got \(4, 1\)"),
    ],
)
def test_bad_actions_are_refused_by_name(actions: np.ndarray, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        table().rates_bps(actions, UNSEEN)


def test_linear_and_log_scales_reach_their_ends() -> None:
    u = np.array([-1.0, -0.05, 0.8999998, 0.9])
    np.testing.assert_allclose(scale("linear").rates_bps(u, UNSEEN), [1e7, 5.05e8, 1e9, np.inf], rtol=1e-6)
    np.testing.assert_allclose(scale("log").rates_bps(u, UNSEEN), [1e7, 1e8, 1e9, np.inf], rtol=1e-5)


@given(st.floats(-1, 1), st.floats(-1, 1), st.sampled_from(["linear", "log"]))
def test_more_action_is_never_less_rate(a: float, b: float, kind: str) -> None:
    low, high = sorted([a, b])
    rates = scale(kind).rates_bps(np.array([low, high, -1.0, 1.0]), UNSEEN)
    assert 1e7 * (1 - 1e-12) <= rates[2] <= rates[0] <= rates[1] <= rates[3] == np.inf


@pytest.mark.parametrize("kind", ["linear", "log"])
def test_numbers_beyond_the_range_count_as_its_ends(kind: str) -> None:
    far, ends = np.array([-1.01, -np.inf, 1.01, np.inf]), np.array([-1.0, -1.0, 1.0, 1.0])
    np.testing.assert_array_equal(scale(kind).rates_bps(far, UNSEEN), scale(kind).rates_bps(ends, UNSEEN))


def test_bad_continuous_actions_are_refused_by_name() -> None:
    given = np.array([0.1, 0.2, np.nan, 0.3])
    with pytest.raises(ConfigError, match=r"^action of host h2 is .*; allowed: numbers$"):
        scale("log").rates_bps(given, UNSEEN)
    with pytest.raises(ConfigError, match=r"^rack 6: action of host h2 is .*; allowed: numbers$"):
        scale("log").rates_bps(np.stack([np.zeros(4), given]), np.stack([UNSEEN, UNSEEN]), 5)


def shares(neighbours: str, hosts: int = 4) -> RateTable:
    made = RateTable(ActionSpec(kind="shares", shares=(0.5, 1.0, 2.0)), ObservationSpec(neighbours=neighbours))  # type: ignore[arg-type]
    made.reset(rack(hosts=hosts))
    return made


def seen(share: list[float]) -> np.ndarray:
    obs = np.zeros((len(share), 25), np.float32)
    obs[:, fair_share_at(ObservationSpec(neighbours="ranked"))] = share
    return obs


def test_shares_are_of_what_each_host_sees_as_fair() -> None:
    rates = shares("ranked").rates_bps(np.array([0, 1, 2, 3]), seen([0.5, 0.25, 0.25, 0.1]))
    np.testing.assert_allclose(rates, [2.5e8, 2.5e8, 5e8, np.inf])
    least = shares("pooled").rates_bps(np.array([0, 0, 0, 0]), seen([0.5, 0.01, 0.0, 1.0]))
    np.testing.assert_allclose(least, [2.5e8, 1e7, 1e7, 5e8])  # min_rate_frac


def test_without_neighbours_a_share_is_of_all_hosts() -> None:
    # An uplink of 2 Gbit/s over 8 hosts of 1 Gbit/s.
    rates = shares("none", hosts=8).rates_bps(np.arange(8) % 4, np.zeros((8, 8), np.float32))
    np.testing.assert_allclose(rates[:4], [1.25e8, 2.5e8, 5e8, np.inf])


@pytest.mark.parametrize("neighbours", ["ranked", "none"])
def test_nearest_gives_back_what_an_index_means(neighbours: str) -> None:
    rates, obs = shares(neighbours), seen([0.5, 0.25, 0.2, 0.1])
    for actions in (np.array([0, 1, 2, 3]), np.array([3, 2, 1, 0])):
        np.testing.assert_array_equal(rates.nearest(rates.rates_bps(actions, obs), obs), actions)
    np.testing.assert_array_equal(table().nearest(np.array([1.4e8, 1.42e8, np.inf, 1e6]), UNSEEN), [1, 2, 10, 0])


def test_a_host_without_neighbours_has_a_share_too() -> None:
    scenario = rack().replace(
        topology=LeafSpine(leaves=2, spines=2, hosts_per_leaf=1, host_rate_bps=1e9, spine_rate_bps=2.5e8),
        workload=(("p", Permutation(hosts="hosts", size_bytes=1)),),
    )
    observation = ObservationSpec(neighbours="ranked")
    seen_by = SharedObserver(observation)
    seen_by.reset(scenario)
    rates = RateTable(ActionSpec(kind="shares", shares=(0.5, 1.0)), observation)
    rates.reset(scenario)
    # Two ways up of 250 Mbit/s each.
    limits = rates.rates_bps(np.array([1, 2]), seen_by.observe(measured(scenario)))
    assert limits.tolist() == [5e8, np.inf]


LOW = ObservationSpec(neighbours="ranked", ceiling=0.5)
ORDERED_LOW = ObservationSpec(neighbours="ordered", ceiling=0.5)
RESIDUAL = ActionSpec(kind="residual", formula="local_hold")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ActionSpec(min_rate_frac=0.2), "must be below the first level, 1/levels = 0.1, got 0.2"),
        (lambda: ActionSpec(levels=0), "ActionSpec.levels"),
        (lambda: ActionSpec(kind="shares", shares=(1.0, 0.5)), "must rise"),
        (lambda: RateTable(ActionSpec(kind="log"), ObservationSpec()), "kind is 'log'; action indices need 'levels'"),
        (lambda: EnvView(action=ActionSpec(kind="shares"), observation=LOW), "ceiling must be at least 1 with"),
        (lambda: EnvView(action=ActionSpec(kind="shares")), "'ranked', 'ordered' or 'none', got 'each'"),
        (lambda: ActionSpec(kind="residual"), "or the formula to null; got 'residual' and None"),
        (
            lambda: ActionSpec(formula="local"),
            "set both action.kind to residual and action.formula to .*got 'levels' and 'local'",
        ),
        (lambda: EnvView(action=RESIDUAL), "needs observation.neighbours 'ordered'.*got 'each'"),
        (
            lambda: EnvView(action=RESIDUAL, observation=ORDERED_LOW),
            "ceiling must be at least 1 with action.kind 'residual'",
        ),
    ],
)
def test_specs_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
