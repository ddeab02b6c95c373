# SPDX-License-Identifier: BSD-3-Clause
"""Limits that are multiples of a formula's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.core.scenario import Nic, Scenario
from ncc.envs.action import ActionSpec, RateScale, rate_map
from ncc.envs.observation import ObservationSpec, SharedObserver
from ncc.envs.observation.spec import tuned_constants
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.rack import RackBatch
from ncc.envs.ranges import TrustedRanges
from ncc.envs.reward import Backlog
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.controller import LocalLimit
from ncc.harness.datapath import HostStack
from ncc.harness.local import Local
from ncc.run.controllers import load_controller
from tests.envs.cases import listed, measured, poisson, rack

ORDERED = ObservationSpec(neighbours="ordered")
FOUR = rack()
VIEW = EnvView(
    observation=ORDERED,
    action=ActionSpec(kind="residual", formula="local_hold", min_rate_frac=0.002),
    reward=Backlog(flows_scale=1.0),
)
BUSY: dict[str, Any] = {"throughput_bps": 1e9, "queued_flows": [1, 2, 1, 0], "next_bytes": [100e3, 300e3, 3e6, 0]}
BURST: list[dict[str, Any]] = [BUSY, {}, {}]
"""After it hosts are known to begin together."""


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
    first = observed(*BURST, BUSY)
    np.testing.assert_array_equal(residual(formula="local").rates_bps(np.zeros(4), first), np.inf)
    held = 0.1 * 0.97 * 2e9
    np.testing.assert_allclose(residual().rates_bps(np.zeros(4), first), [held, held, held, np.inf], rtol=1e-6)


def test_a_number_multiplies_the_formula() -> None:
    obs, rates = observed(BUSY, BUSY), residual(scale=3.0)
    formula = 0.97 * 0.1 * 2e9 / 3
    np.testing.assert_allclose(
        rates.rates_bps(np.array([1.0, -0.5, 0.5, -0.25]), obs),
        [np.inf, np.exp(-1.5) * 1e9, np.exp(1.5) * formula, np.exp(-0.75) * 1e9],  # no limit counts as the link
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
    together = rates.rates_bps(given_, obs)
    np.testing.assert_array_equal(together, [rates.rates_bps(*each) for each in zip(given_, obs, strict=True)])
    with pytest.raises(ConfigError, match=r"rack 6: action of host h1 is nan; allowed: numbers$"):
        rates.rates_bps(np.array([[0.0] * 4, [0, np.nan, 0, 0]]), obs, 5)


def test_stale_messages_leave_the_formula_alone() -> None:
    scenario = FOUR.replace(sharing_silent=("h3",))
    seen = ORDERED.replace(ages=True)
    rates = residual(scenario, seen)
    for missed in range(2, 6):
        obs = observed(*[BUSY] * missed, scenario=scenario, seen=seen)
        trusted = rates.rates_bps(np.full(4, -1.0), obs)[1] < 1e9
        assert trusted == (missed < 3)


def test_what_formula_and_guard_read_cannot_be_left_out() -> None:
    with pytest.raises(ConfigError, match="leave_out of hosts before, which they read"):
        residual(seen=ORDERED.replace(leave_out=("hosts before",)))


def test_where_messages_get_lost_their_ages_must_be_seen() -> None:
    with pytest.raises(ConfigError, match=r"messages may get lost in scenario 'small'.*set observation.ages to true"):
        residual(FOUR.replace(sharing_loss_frac=0.1))


WITHIN = TrustedRanges(hosts=(2, 8), uplink_frac=(1, 4), rtt_periods=(0.01, 10), buffer_periods=(0.01, 100))
SLOW = FOUR.replace(topology=FOUR.topology.replace(uplink_rate_bps=5e8))
ALONE: dict[str, Any] = {"throughput_bps": [5e8, 0, 0, 0], "queued_flows": [1, 0, 0, 0], "next_bytes": [1e7, 0, 0, 0]}
LEAST = np.full(4, -1.0)


def test_alone_a_host_has_its_port_whatever_the_policy_says() -> None:
    # Behind an uplink of half its link's rate it has the uplink's, of which the formula gives 0.97.
    behind = observed(ALONE, ALONE, scenario=SLOW)
    np.testing.assert_allclose(residual(SLOW).rates_bps(LEAST, behind)[0], 5e8)
    np.testing.assert_allclose(residual(SLOW).rates_bps(np.zeros(4), behind)[0], 5e8)
    # Behind a faster one it has no limit. The others, who heard of it, may be held.
    before = observed(*BURST, ALONE, ALONE)
    limits = residual().rates_bps(LEAST, before)
    assert np.isinf(limits[0])
    np.testing.assert_allclose(limits[1:], np.exp(-3) * 1e9)
    # One that has just begun may be held for a period, and one with nothing to send so that it may begin slowly.
    np.testing.assert_allclose(residual().rates_bps(LEAST, observed(*BURST)), np.exp(-3) * 1e9)
    assert residual().rates_bps(LEAST, observed(*BURST, ALONE))[0] < 1e8


def test_the_first_in_order_has_its_port_whatever_the_policy_says() -> None:
    for scenario, port in ((FOUR, np.inf), (SLOW, 5e8)):
        limits = residual(scenario).rates_bps(LEAST, observed(BUSY, BUSY, scenario=scenario))
        np.testing.assert_allclose(limits[0], port)
        assert (limits[1:] < 1e8).all()


def test_where_hosts_begin_alone_none_is_held() -> None:
    idle: dict[str, Any] = {}
    once = [ALONE, idle, idle]
    # They do until they were seen to begin together.
    rates = residual()
    np.testing.assert_array_equal(rates.rates_bps(LEAST, observed()), np.inf)
    assert np.isinf(rates.rates_bps(LEAST, observed(ALONE))[0])
    np.testing.assert_array_equal(rates.rates_bps(LEAST, observed(*once)), np.inf)  # idle
    assert np.isinf(rates.rates_bps(LEAST, observed(*once, ALONE))[0])
    np.testing.assert_allclose(rates.rates_bps(LEAST, observed(*once, BUSY, idle, idle)), np.exp(-3) * 1e9)
    # Three began with two others and ten alone: 0.46 in the mean, and with nine 0.5.
    for alone, held in ((9, True), (10, False)):
        history = [BUSY, idle, idle, *once * alone]
        assert np.isfinite(rates.rates_bps(LEAST, observed(*history, ALONE))[0]) == held
    # Beside others a host may be held all the same.
    assert residual().rates_bps(LEAST, observed(*once, BUSY, BUSY))[2] < 1e8


def test_outside_of_what_it_knows_the_formula_decides() -> None:
    for scenario in (SLOW, FOUR.replace(period_s=1e-5), FOUR.replace(nic=Nic(knows="backlog"))):
        obs = observed(BUSY, BUSY, scenario=scenario)
        alone = residual(scenario, formula="local").rates_bps(np.zeros(4), obs)
        for given_ in (LEAST, np.zeros(4), -LEAST):
            limits = residual(scenario, within=WITHIN).rates_bps(given_, obs)
            np.testing.assert_array_equal(limits[1:], alone[1:])  # the first in order is guarded
            assert limits[0] in (limits[1], alone[0])
    obs = observed(BUSY, BUSY)
    np.testing.assert_array_equal(residual(within=WITHIN).rates_bps(LEAST, obs), residual().rates_bps(LEAST, obs))


def test_a_rack_in_which_all_hold_back_does_not_stay_one() -> None:
    half = {**BUSY, "throughput_bps": 1e6, "uplink_throughput_bps": 0.9e9}
    full = {**half, "uplink_throughput_bps": 1.1e9}  # more than half of 2 Gbit/s
    local = residual(formula="local").rates_bps(np.zeros(4), observed(*[half] * 4))
    # The first of these periods is not seen as one of waiting, nor is the second, as all was idle when neighbours told.
    for more, freed in ((3, False), (4, False), (5, True), (20, True)):
        limits = residual().rates_bps(LEAST, observed(*[half] * (more - 1)))
        np.testing.assert_array_equal(limits[1:3] >= local[1:3], freed)  # the first is guarded
        assert limits[3] < local[3], "it has nothing that waits"
        assert (residual().rates_bps(LEAST, observed(*[full] * (more - 1)))[1:3] < local[1:3]).all()
    # Once that is over it is held back again after a while: 20 periods from the most, 30 - 20 = 10.
    for after, freed in ((19, True), (20, False)):
        limits = residual().rates_bps(LEAST, observed(*[half] * 20, *[full] * (after + 1)))
        np.testing.assert_array_equal(limits[1] >= local[1], freed)


def test_the_worst_policy_carries_every_flow() -> None:
    """All hosts always say -1, by which alone they would have a 20th of their links: the guard keeps it busy."""
    took = {}
    for number in (-1.0, 0.0):
        scenario = rack(poisson(0.7), periods=100)
        env = RackBatch(EnvSpec(scenario=scenario, view=VIEW, drain_epochs=100), PacketsimDatapath, 1)
        env.reset()
        took[number] = -sum(env.step(np.full((1, 4), number)).reward.sum() for _ in range(200))
        env.close()
    assert took[-1.0] < 2.1 * took[0.0], took  # 5 times without the last of its rules


def against_local(scenario: Scenario, own: Local, formula: str) -> tuple[np.ndarray, np.ndarray]:
    """Limits [n, n_agents] of a formula's observer, and of `Local`, at most the link's rate, along a run of `Local`.

    Only periods in which several hosts have flows queued count: one alone is guarded.
    """
    observer, rates, datapath = SharedObserver(ORDERED), residual(formula=formula), PacketsimDatapath()
    own.reset(scenario, 0)
    observer.reset(scenario)
    measurement, limits = datapath.start(scenario, scenario.flows(3), HostStack(transport="dctcp"), 1), []
    for _ in range(60):
        decided = own.decide(measurement)
        observed = rates.rates_bps(np.zeros(4), observer.observe(measurement))
        if np.count_nonzero(measurement.queued_flows) > 1:
            limits.append((observed, decided.copy()))
        measurement = datapath.step(decided)
    datapath.close()
    of_observer, of_local = np.array(limits).swapaxes(0, 1)
    return of_observer, np.minimum(of_local, 1e9)


def test_the_tuned_formula_is_that_of_the_controller() -> None:
    """Along a run of many equal answers, the observer's limit is `Local`'s with the constants of the search."""
    tuned = load_controller("local_tuned").limit
    assert isinstance(tuned, LocalLimit)
    constants = tuned.constants()
    assert tuned_constants() == constants
    assert constants["attained_frac"] == 0, "observers do not count what a host has sent"
    equal = [(at, f"h{host}", 1_500_000) for at in (0.001, 0.0305) for host in range(4)]
    scenario = rack(listed(*equal, (0.002, "h1", 20_000_000)), periods=60, sharing_delay_periods=1)
    observed, decided = against_local(scenario, Local(**constants), "local_tuned")
    differ = ~np.isclose(np.minimum(observed, 1e9), decided, rtol=1e-4)
    assert len(differ) > 10
    assert np.isinf(observed[0]).all()  # nobody was seen to begin together
    assert differ[1:].sum(axis=1).max() <= 1  # the first in order is guarded
    assert np.isinf(observed[differ]).all()


def test_the_formula_is_that_of_the_controller() -> None:
    """Along a run, 0 means the limits of `Local` with the same constants, from the same messages."""
    scenario = rack(poisson(0.8), periods=60, sharing_delay_periods=1)
    observed, decided = against_local(scenario, Local(**LocalLimit().constants()), "local")
    assert len(observed) > 20
    # The headroom is a share of the rest after those before, not of the uplink: 3 % of it more or less.
    assert np.mean(np.abs(np.log(np.minimum(observed, 1e9) / decided)).max(axis=1) < 0.07) > 0.9


def test_ranges_of_trust_can_be_narrowed_and_not_widened() -> None:
    narrower = WITHIN.narrowed({"uplink_frac": [1, 2], "delay_periods": [1, 2]})
    assert (narrower.uplink_frac, narrower.delay_periods, narrower.hosts) == ((1, 2), (1, 2), (2, 8))
    assert narrower.outside(FOUR.replace(sharing_delay_periods=3)) == (
        "the age of messages is 3 periods, and its policy is trusted with 1 to 2 periods",
    )
    with pytest.raises(ConfigError, match=r"within\.hosts must be inside 2 to 8, got 2 to 9"):
        WITHIN.narrowed({"hosts": [2, 9]})
    with pytest.raises(ConfigError, match="within has no field 'host'"):
        WITHIN.narrowed({"host": [2, 9]})
