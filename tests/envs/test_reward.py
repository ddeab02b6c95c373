# SPDX-License-Identifier: BSD-3-Clause
import pickle
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.topologies import LeafSpine
from ncc.core.value import from_dict
from ncc.core.workload import Permutation
from ncc.envs.observation.observer import extension
from ncc.envs.racks import Racks
from ncc.envs.reward import AnyReward, Backlog, ProfitPenalty, Reward, Utility
from ncc.envs.scales import scales_of
from ncc.envs.spec import EnvView
from ncc.run.compose import composed
from tests.envs.cases import FLOWS, listed, measured, rack, spec
from tests.support.mm1 import Mm1Datapath

FOUR = rack()
BASE_S = float(scales_of(FOUR).base_rtt_s[0])
C_BPS, N = 2e9, 4


def pay(reward: AnyReward, m: Measurement | Measurements, scenario: Scenario = FOUR) -> np.ndarray:
    made = Reward(reward)
    made.reset(scenario)
    got = made.reward(m)
    assert got.dtype == np.float32
    return got


def busy(**columns: Any) -> Measurement:
    return measured(FOUR, **{"active_flows": 1, "goodput_bps": 5e8, "rtt_s": BASE_S, **columns})


def test_a_function_that_has_paid_nothing_yet_can_be_pickled() -> None:
    """SuperSuit copies environments so."""
    made = Reward(Utility(rho=0.5))
    made.reset(FOUR)
    m = busy(goodput_bps=[5e8, 1e9, 0, 1e8])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).reward(m), pay(Utility(rho=0.5), m))


class TestUtility:
    def test_own_part_by_hand(self) -> None:
        m = busy(goodput_bps=[5e8, 1e9, 0, 1e8], rtt_s=[2 * BASE_S, BASE_S, BASE_S, BASE_S / 2])
        got = pay(Utility(rho=0.5, team_frac=0, floor_frac=0.01), m)
        np.testing.assert_allclose(got, [log(0.5) - 0.5 * log(2), 0, log(0.01), log(0.1)], rtol=1e-6)

    def test_an_idle_host_is_not_blamed(self) -> None:
        m = busy(active_flows=[0, 1, 0, 1], goodput_bps=[0, 0, 1e8, 1e8], rtt_s=9 * BASE_S)
        got = pay(Utility(rho=1, team_frac=0, floor_frac=0.01), m)
        np.testing.assert_allclose(got, [0, log(0.01 / 9), log(0.1 / 9), log(0.1 / 9)], rtol=1e-6)

    def test_team_part_is_the_neighbourhoods_mean(self) -> None:
        m = busy(goodput_bps=[1e9, 1e8, 1e9, 1e9])
        np.testing.assert_allclose(pay(Utility(team_frac=1), m), log(0.1) / 4, rtol=1e-6)
        mixed = pay(Utility(team_frac=0.2), m)
        np.testing.assert_allclose(mixed, 0.8 * np.array([0, log(0.1), 0, 0]) + 0.2 * log(0.1) / 4, rtol=1e-6)

    def test_teams_do_not_mix(self) -> None:
        scenario = Scenario(
            name="two",
            topology=LeafSpine(leaves=2, spines=1, hosts_per_leaf=2),
            workload=(("p", Permutation(hosts="hosts", size_bytes=1)),),
            duration_s=0.01,
        )
        m = measured(scenario, active_flows=1, goodput_bps=[1e9, 1e10, 1e10, 1e10])
        got = pay(Utility(team_frac=1, rho=0), m, scenario)
        np.testing.assert_allclose(got, [log(0.1) / 2, log(0.1) / 2, 0, 0], rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("rho", [0.25, 1.0, 3.0])
    def test_best_common_rate_is_the_closed_form(self, rho: float) -> None:
        """Team utility in the M/M/1 model is best at x = C / (N (1 + rho)); selfish play ends at C / (N + rho)."""
        made, network = Reward(Utility(rho=rho, team_frac=1)), Mm1Datapath()
        made.reset(FOUR)
        network.start(FOUR, FOUR.flows(1), spec().stack, 1)
        grid = np.arange(0.005, 0.5, 0.0005) * 1e9
        team = [made.reward(network.step(np.full(N, x)))[0] for x in grid]
        assert abs(grid[int(np.argmax(team))] - C_BPS / (N * (1 + rho))) <= 0.5e6

        selfish = Reward(Utility(rho=rho, team_frac=0))
        selfish.reset(FOUR)
        nash = C_BPS / (N + rho)
        own = [selfish.reward(network.step(np.array([x, nash, nash, nash])))[0] for x in grid]
        assert abs(grid[int(np.argmax(own))] - nash) <= 0.5e6


class TestProfitPenalty:
    def test_profit_by_hand(self) -> None:
        m = busy(rate_limit_bps=[5e8, np.inf, 5e8, 5e8], goodput_bps=[2.5e8, 1e9, 0, 5e8], rtt_s=2 * BASE_S)
        got = pay(ProfitPenalty(rho=0.5, sigma1=0, sigma2=0, ratio_max=10), m)
        own = np.array([2 * log(0.5), 0, 10 * log(0.5), log(0.5)]) - 0.5 * log(2)
        np.testing.assert_allclose(got, own.mean(), rtol=1e-6)

    def test_crowding_by_hand(self) -> None:
        m = busy(rate_limit_bps=[1e9, 5e8, 1e9, 1e9], goodput_bps=[4e8, 5e8, 3e8, 2e8])
        got = pay(ProfitPenalty(rho=0, sigma1=2, sigma2=0), m)
        profit = 0.25 * log(0.5)  # only h1 is limited, and it delivers its limit
        b = np.array([0.5, 0.25, 0.5, 0.5])
        others = np.array([10, 9, 11, 12]) * 1e8 / C_BPS
        np.testing.assert_allclose(got, profit - 2 * others / (1 - b) * b, rtol=1e-6)

    def test_lateness_by_hand(self) -> None:
        m = busy(goodput_bps=1e9, rtt_s=[3e-3, 1e-3, 2e-3, 9e-3], active_flows=1)
        got = pay(ProfitPenalty(rho=0, sigma1=0, sigma2=0.5, sla_delay_s=2e-3), m)
        worst = np.array([9, 9, 9, 3]) / 2
        np.testing.assert_allclose(got, -0.5 * (worst - 1) * np.array([3, 1, 2, 9]) / 2, rtol=1e-6)

    def test_delays_within_the_sla_and_of_idle_hosts_cost_nothing(self) -> None:
        m = busy(goodput_bps=[1e9, 1e9, 1e9, 0], active_flows=[1, 1, 1, 0], rtt_s=[1e-3, 1e-3, 1e-3, 9e-3])
        np.testing.assert_array_equal(pay(ProfitPenalty(rho=0, sigma1=0, sla_delay_s=2e-3), m), 0)

    def test_an_idle_host_shares_profit_and_pays_no_penalty(self) -> None:
        m = busy(rate_limit_bps=5e8, goodput_bps=[5e8, 5e8, 5e8, 0], active_flows=[1, 1, 1, 0], rtt_s=5e-3)
        got = pay(ProfitPenalty(rho=0), m)
        np.testing.assert_allclose(got[3], 0.75 * log(0.5), rtol=1e-6)
        assert (got[:3] < got[3]).all()

    def test_a_link_as_fast_as_the_uplink_is_no_singularity(self) -> None:
        scenario = Scenario(
            name="equal",
            topology=LeafSpine(leaves=2, spines=1, hosts_per_leaf=2),
            workload=(("p", Permutation(hosts="hosts", size_bytes=1)),),
            duration_s=0.01,
        )
        m = measured(scenario, active_flows=1, goodput_bps=5e9, rtt_s=1e-5)
        got = pay(ProfitPenalty(rho=0, sigma1=1, sigma2=0, slack_min_frac=0.05), m, scenario)
        np.testing.assert_allclose(got, -0.5 / 0.05, rtol=1e-6)


class TestBacklog:
    def test_by_hand(self) -> None:
        m = measured(FOUR, active_flows=[0, 5, 10, 5])
        np.testing.assert_allclose(pay(Backlog(flows_scale=10, team_frac=0), m), [0, -0.5, -1, -0.5])
        np.testing.assert_allclose(pay(Backlog(flows_scale=10, team_frac=1), m), -0.5)

    def test_the_unfinished_flows_of_a_rack(self) -> None:
        chosen = composed("train", ["env/reward=unfinished"])["env"]["reward"]
        m = measured(FOUR, active_flows=[0, 5, 10, 5], active_left=[0, 1, 7.5, 5])
        np.testing.assert_allclose(pay(from_dict(Backlog, chosen, "reward"), m).sum(), -20)

    def test_long_flows_may_count_by_what_is_left_of_them_and_short_ones_more(self) -> None:
        m = measured(
            FOUR, active_flows=[0, 5, 10, 5], active_left=[0, 1, 7.5, 5], active_per_byte=[0, 1e-4, 2e-4, 3e-3]
        )
        alone = Backlog(flows_scale=10, team_frac=0)
        np.testing.assert_allclose(pay(alone.replace(left_frac=1.0), m), [0, -0.1, -0.75, -0.5])
        np.testing.assert_allclose(pay(alone.replace(left_frac=0.5), m), [0, -0.3, -0.875, -0.5])
        np.testing.assert_allclose(pay(alone.replace(weigh_bytes=1e4), m), [0, -0.1, -0.2, -3], rtol=1e-6)
        with pytest.raises(ConfigError, match="must not both be above 0"):
            Backlog(weigh_bytes=1e4, left_frac=1.0)

    def test_an_episode_sums_to_minus_the_flow_completion_times(self) -> None:
        """Little's law, on flows that all end within the episode."""
        scenario = rack(listed((0.0, "h0", 200_000), (1e-3, "h1", 400_000), (3e-3, "h0", 50_000)), periods=20)
        view = EnvView(reward=Backlog(flows_scale=1, team_frac=0))
        network = FLOWS()
        env = Racks(spec(scenario, view=view), lambda: network)
        env.begin(0, 1)
        total, over = 0.0, False
        while not over:
            epoch = env.advance(np.full((1, 4), 2e8))
            total += epoch.reward.sum()
            over = bool(epoch.ended)
        fct = network.finish().flows.finish_s - scenario.flows(0).start_s
        # A flow is counted at the ends of epochs, so once less than the periods it was there.
        assert -total == pytest.approx(np.round(fct / 1e-3 - 1).sum())


FABRIC = Scenario(
    name="three",
    topology=LeafSpine(leaves=3, spines=1, hosts_per_leaf=9),
    workload=(("p", Permutation(hosts="hosts", size_bytes=1)),),
    duration_s=0.01,
)
ln = np.vectorize(log, otypes=[float])


def by_formula(spec: AnyReward, m: Measurements, scenario: Scenario) -> np.ndarray:
    """Rewards [n_racks, n_agents] as the docstrings of the specs define them, in numpy."""
    scales = scales_of(scenario)
    n, link, base = scales.neighbours.shape[1] + 1, scales.link_rate_bps, scales.base_rtt_s
    goodput, rtt = m.goodput_bps, m.rtt_s
    is_busy = m.active_flows + goodput > 0

    def total(own: np.ndarray) -> np.ndarray:
        return np.repeat(own.reshape(*own.shape[:-1], -1, n).sum(axis=-1), n, axis=-1)

    if isinstance(spec, Backlog):
        flows = m.active_per_byte * spec.weigh_bytes if spec.weigh_bytes else m.active_flows
        own = (flows + spec.left_frac * (m.active_left - flows)) / -spec.flows_scale
    elif isinstance(spec, Utility):
        x = np.clip(goodput * (1 / link), spec.floor_frac, 1)
        own = np.where(is_busy, ln(x) - spec.rho * ln(np.maximum(rtt * (1 / base), 1)), 0)
    else:
        b = np.minimum(m.rate_limit_bps, link)
        ratio = np.minimum(b / np.maximum(goodput, b / spec.ratio_max), spec.ratio_max)
        profit = np.where(is_busy, ratio * ln(b / link) - spec.rho * ln(np.maximum(rtt / base, 1)), 0)
        uplink = scales.uplink_capacity_bps[scales.area]
        others = (total(goodput) / n * n - goodput) / uplink
        worst_s = np.where(is_busy, rtt, 0)[..., scales.neighbours].max(axis=-1)
        late = np.maximum(worst_s / spec.sla_delay_s - 1, 0) * rtt / spec.sla_delay_s
        crowding = others / np.maximum(1 - b / uplink, spec.slack_min_frac) * (b / uplink)
        penalty = np.where(is_busy, spec.sigma1 * crowding + spec.sigma2 * late, 0)
        return np.asarray(total(profit) / n - penalty, np.float32)
    return np.asarray((1 - spec.team_frac) * own + spec.team_frac / n * total(own), np.float32)


@pytest.mark.parametrize("scenario", [FOUR, FABRIC], ids=lambda scenario: scenario.name)
@pytest.mark.parametrize(
    "spec",
    [
        Utility(),
        Utility(rho=2, team_frac=0, floor_frac=0.02),
        ProfitPenalty(rho=1, sigma1=0.3, sigma2=2, sla_delay_s=2e-4, ratio_max=4, slack_min_frac=0.1),
        Backlog(),
        Backlog(flows_scale=3, team_frac=0.3, left_frac=0.5),
        Backlog(team_frac=0, weigh_bytes=1e4),
    ],
    ids=str,
)
def test_rewards_of_several_racks_are_the_formulas_to_the_bit(spec: AnyReward, scenario: Scenario) -> None:
    rng, n, racks = np.random.default_rng(1), scenario.n_agents, []
    for _ in range(40):
        busy = rng.random(n) < 0.7
        racks.append(
            measured(
                scenario,
                goodput_bps=np.where(busy, 10 ** rng.uniform(5, 10.5, n), 0.0),
                rtt_s=10 ** rng.uniform(-6, -2, n),
                rate_limit_bps=np.where(rng.random(n) < 0.2, np.inf, 10 ** rng.uniform(7, 10.5, n)),
                active_flows=np.where(busy, rng.integers(0, 40, n), 0),
                active_left=rng.uniform(0, 40, n),
                active_per_byte=rng.uniform(0, 1e-2, n),
            )
        )
    together = Measurements.of(racks)
    expected = by_formula(spec, together, scenario)
    np.testing.assert_array_equal(pay(spec, together, scenario), expected)
    np.testing.assert_array_equal([pay(spec, one, scenario) for one in racks], expected)


def test_a_number_that_was_not_measured_gives_no_reward() -> None:
    for m in (busy(goodput_bps=[np.nan, 5e8, 5e8, 5e8], active_flows=0), busy(rtt_s=[1e-3, np.nan, 1e-3, 1e-3])):
        assert np.isnan(pay(Utility(), m)).all()


def test_a_reward_that_is_not_written_in_c_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rewards\.h has no reward bliss: write it, and run make build"):
        extension().Rewards(
            {"kind": "bliss", "size": 1, **dict.fromkeys(("link_bps", "base_s", "uplink_bps"), np.ones(1))}
        )


numbers = st.floats(0, 1e13)


@given(
    st.sampled_from([Utility(), Utility(team_frac=0), ProfitPenalty(), Backlog()]),
    arrays(np.float64, (3, 4), elements=numbers),
    arrays(np.int64, 4, elements=st.integers(0, 10**6)),
)
def test_every_reward_is_finite(reward: AnyReward, m: np.ndarray, active: np.ndarray) -> None:
    columns = {
        "rate_limit_bps": np.maximum(m[0], 1.0),
        "goodput_bps": m[1],
        "rtt_s": m[2] / 1e9,
        "active_flows": active,
    }
    assert np.isfinite(pay(reward, measured(FOUR, **columns))).all()


@given(arrays(np.float64, (2, 4), elements=numbers), arrays(np.int64, 4, elements=st.integers(0, 9)))
def test_utility_of_a_busy_host_is_at_most_zero(m: np.ndarray, active: np.ndarray) -> None:
    got = pay(Utility(team_frac=0), measured(FOUR, goodput_bps=m[0], rtt_s=m[1], active_flows=active))
    assert (got <= 0).all()
    assert (got[(active == 0) & (m[0] == 0)] == 0).all()


def test_unknown_rewards_and_fields_are_refused_with_what_exists() -> None:
    with pytest.raises(ConfigError, match=r"allowed: backlog, .*utility"):
        from_dict(EnvView, {"reward": {"kind": "bliss"}}, "env")
    with pytest.raises(ConfigError, match="rho"):
        Utility(rho=-1)
    with pytest.raises(ConfigError, match="team_frac"):
        from_dict(EnvView, {"reward": {"kind": "utility", "team_frac": 2}}, "env")
