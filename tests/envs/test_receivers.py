# SPDX-License-Identifier: BSD-3-Clause
"""Receivers as agents: what they see, what they may choose, and that the top choice is the rule itself."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import DatapathError
from ncc.core.measurement import Measurement, Measurements
from ncc.core.receivers import Edges, Grants
from ncc.core.scenario import Nic, Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Incast
from ncc.envs.action import ActionSpec, RuleSetting, SettingTable
from ncc.envs.observation import HIGH, LOW, ObservationSpec, ReceiverObserver, names_of, obs_dim, rule_of
from ncc.envs.packetsim import PacketsimDatapath
from ncc.envs.reward import Backlog
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.datapath import HostStack
from ncc.harness.run import run_once
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.harness.test_receivers import HOSTS, at, scenario

SENDERS, PAIRS = ObservationSpec(neighbours="senders", senders=2), ObservationSpec(neighbours="pairs", senders=2)
SETTINGS = ActionSpec(kind="settings")
TOP = SETTINGS.n_actions - 1
HOLD = HostStack(params=(("alpha_init", 0),), hold=True)
BACKLOG = Backlog(team_frac=0)
STAR = Scenario(
    name="star",
    topology=ManyToOne(senders=8, rate_bps=1e9, delay_s=5e-6, buffer_bytes=100_000, mark_threshold_bytes=30_000),
    workload=(
        (
            "burst",
            Incast(
                events_per_s=200,
                fan_in=8,
                bytes_per_server=32_000,
                sources="senders",
                destinations="receiver",
                jitter_s=5e-5,
            ),
        ),
    ),
    duration_s=0.02,
    period_s=1e-4,
    neighbourhoods="receivers",
)
"""Bursts to one receiver."""
GYM: dict[str, Any] = {
    "scenario": STAR,
    "stack": {"transport": "dctcp", "hold": True},
    "observation": {"neighbours": "pairs", "senders": 3},
    "action": "settings",
    "reward": "backlog",
}

ROW = tuple[int, int, int, float, float, float, float]
FOUR: tuple[ROW, ...] = (
    (1, 0, 1, 146_000.0, 146_000.0, 0.0, 1e-5),
    (2, 0, 2, 20_000.0, 5_000.0, 0.0, 1e-5),
    (3, 0, 1, 1e6, 1e6, 50_000.0, 1e-3),
    (1, 3, 1, 10_000.0, 10_000.0, 0.0, 1e-4),
)
"""Three senders of one receiver and one of another: source, destination, flows, waiting, next, received, age."""


def spec(seen: ObservationSpec = SENDERS, where: Scenario = STAR, action: ActionSpec = SETTINGS) -> EnvSpec:
    return EnvSpec(scenario=where, stack=HOLD, view=EnvView(observation=seen, action=action, reward=BACKLOG))


def observed(seen: ObservationSpec, measurement: Measurement) -> np.ndarray:
    observer = ReceiverObserver(seen)
    observer.reset(scenario())
    return observer.observe(measurement)


def told(seen: ObservationSpec, chosen: list[int], measurement: Measurement, action: ActionSpec = SETTINGS) -> Grants:
    table = SettingTable(action, seen)
    table.reset(scenario())
    return table.decide(np.array(chosen, float), measurement).grants


def rows_of(grants: Grants) -> dict[tuple[int, int], tuple[float, float, int]]:
    """Start, rate and window by source and destination."""
    columns = (grants.src, grants.dst, grants.start_s, grants.rate_bps, grants.window_pkts)
    return {
        (src, dst): (start_s, rate_bps, window)
        for src, dst, start_s, rate_bps, window in zip(*(column.tolist() for column in columns), strict=True)
    }


def test_a_receiver_sees_its_first_senders_and_the_sum_of_the_others() -> None:
    """A port of 1 Gbit/s carries 12,500 bytes in a period; 100 of those are 1."""
    names, obs = names_of(SENDERS, 0), observed(SENDERS, at(1.0, *FOUR))
    assert obs.shape == (8, len(names)) == (8, obs_dim(SENDERS, scenario()))
    seen = dict(zip(names, obs[0].tolist(), strict=True))

    def scaled(number: float, scale: float = 100.0) -> Any:
        return pytest.approx(np.log1p(number) / np.log1p(scale), rel=1e-5)

    assert seen["known senders"] == scaled(3, 30)
    assert seen["known flows"] == scaled(4, 30)
    assert seen["known waiting"] == scaled(1_166_000 / 12_500)
    assert seen["known next"] == scaled(5_000 / 12_500)
    assert seen["known received"] == scaled(50_000 / 12_500)
    assert seen["port buffer"] == scaled(100_000 / 12_500)
    assert (seen["other senders"], seen["other waiting"]) == (scaled(1, 30), scaled(80))
    assert (seen["neighbour 1 next"], seen["neighbour 2 next"]) == (scaled(0.4), scaled(146_000 / 12_500))
    assert seen["neighbour 1 ahead"] == 0
    assert seen["neighbour 2 ahead"] > scaled(20_000 / 12_500).expected, "both flows of the first, and their headers"
    assert (seen["neighbour 1 age"], seen["neighbour 1 flows"]) == (scaled(0.1), scaled(2, 30))
    alone = dict(zip(names, obs[3].tolist(), strict=True))
    assert (alone["neighbour 1 here"], alone["neighbour 2 here"], alone["other senders"]) == (1, 0, 0)
    assert {value for name, value in alone.items() if name.startswith("neighbour 2")} == {0}
    assert np.delete(obs[1], names.index("port buffer")).tolist() == [0] * (len(names) - 1), "nobody sends to it"


def test_a_row_of_a_pair_is_the_receiver_and_one_sender() -> None:
    names, obs = names_of(PAIRS, 0), observed(PAIRS, at(1.0, *FOUR))
    whole = observed(SENDERS, at(1.0, *FOUR))
    assert obs.shape == (16, len(names)) == (16, obs_dim(PAIRS, scenario()))
    np.testing.assert_array_equal(obs[:, :6].reshape(8, 2, 6)[:, 0], whole[:, :6])
    np.testing.assert_array_equal(obs[:, 6:].reshape(8, -1), whole[:, 9:])


@pytest.mark.parametrize("seen", [SENDERS, PAIRS])
def test_any_number_of_senders_fits(seen: ObservationSpec) -> None:
    for n in (0, 1, 2, 7):
        rows = [(source, 0, 1, 1e5 * source, 1e5 * source, 0.0, 1e-5) for source in range(1, n + 1)]
        obs = observed(seen, at(1.0, *rows))
        assert obs.shape == (8 * seen.rows_per_receiver, obs_dim(seen, scenario()))
        here = [i for i, name in enumerate(names_of(seen, 0)) if name.endswith("here")]
        assert obs[:, here].sum() == min(n, 2)


EDGE = st.tuples(
    st.integers(1, 7),
    st.integers(1, 5),
    st.floats(0, 1e12),
    st.floats(0, 1e12),
    st.sampled_from([0.0, 1e5, 1e12]),
    st.floats(0, 10),
)


@given(st.lists(EDGE, max_size=7, unique_by=lambda edge: edge[0]), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_edges_changes_nothing_and_all_is_finite(drawn: list[Any], random: Any, pairs: bool) -> None:
    rows = [(s, 0, flows, max(a, b), min(a, b), got, age) for s, flows, a, b, got, age in drawn]
    shuffled = random.sample(rows, len(rows))
    seen = PAIRS if pairs else SENDERS
    obs = observed(seen, at(1.0, *rows))
    assert np.isfinite(obs).all()
    assert obs.min() >= LOW
    assert obs.max() <= HIGH
    np.testing.assert_array_equal(obs, observed(seen, at(1.0, *shuffled)))
    chosen = [random.randrange(SETTINGS.n_actions) for _ in obs]
    one, other = (rows_of(told(seen, chosen, at(1.0, *each))) for each in (rows, shuffled))
    assert one == pytest.approx(other) if not one else one.keys() == other.keys()
    for pair, said in one.items():
        assert said == pytest.approx(other[pair])


def test_a_number_that_is_not_finite_is_named() -> None:
    bad = at(1.0, (1, 0, 1, np.nan, 1.0, 0.0, 1e-5))
    with pytest.raises(DatapathError, match="epoch 0: the datapath measured a number that is not finite"):
        observed(SENDERS, bad)


@pytest.mark.parametrize("seen", [SENDERS, PAIRS])
def test_the_top_choice_is_the_rule_on_recorded_measurements(seen: ObservationSpec) -> None:
    where = scenario()
    controller, recorded = load_controller("receiver_rule"), list[Measurement]()
    limiter = LimiterFactory(None)(controller, where)
    run_once(
        PacketsimDatapath(), where, controller, limiter, 1, flow_seed=2, watch=lambda m, _: recorded.append(m)
    ).require_valid()
    rule, table = rule_of(where).build(), SettingTable(SETTINGS, seen)
    rule.reset(where, 0)
    table.reset(where)
    chosen, messages = np.full(8 * seen.rows_per_receiver, float(TOP)), 0
    for measurement in recorded:
        expected, found = rule.decide(measurement).grants, table.decide(chosen, measurement).grants
        messages += len(found)
        for name in ("src", "dst", "start_s", "rate_bps", "window_pkts"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert messages > 100


def test_a_choice_is_for_the_senders_of_its_row() -> None:
    """Only the second in the order of the first receiver, the sender with 146 KB, is to wait for four periods."""
    wait = 8
    assert SETTINGS.settings[wait] == RuleSetting(wait_periods=4.0)
    rule = rows_of(told(SENDERS, [TOP] * 8, at(1.0, *FOUR)))
    chosen = [TOP] * 16
    chosen[1] = wait
    found = rows_of(told(PAIRS, chosen, at(1.0, *FOUR)))
    changed = {pair for pair in rule if found[pair] != rule[pair]}
    assert changed == {(HOSTS[1], HOSTS[0])}
    assert found[HOSTS[1], HOSTS[0]][0] == pytest.approx(1.0 - 1e-5 + 4e-4)
    everybody = rows_of(told(SENDERS, [wait] + [TOP] * 7, at(1.0, *FOUR)))
    assert everybody[HOSTS[2], HOSTS[0]][0] == pytest.approx(1.0 - 1e-5 + 4e-4)
    assert everybody[HOSTS[1], HOSTS[3]] == rule[HOSTS[1], HOSTS[3]]


def test_each_parameter_does_what_it_says() -> None:
    equal = [(source, 0, 1, 146_000.0, 146_000.0, 0.0, 1e-5) for source in (1, 2, 3)]
    rule = told(SENDERS, [TOP] * 8, at(1.0, *equal))
    earlier, later = (
        told(SENDERS, [0] * 8, at(1.0, *equal), SETTINGS.replace(settings=(setting,)))
        for setting in (RuleSetting(ahead_frac=0.75, window_frac=0.25), RuleSetting(ahead_frac=0.0))
    )
    buffer_s = 100_000 * 8 / 0.97e9
    assert rule.start_s[1:] - earlier.start_s[1:] == pytest.approx(0.15 * buffer_s)
    assert later.start_s[1:] - rule.start_s[1:] == pytest.approx(0.6 * buffer_s)
    assert (rule.window_pkts[0], earlier.window_pkts[0]) == (22, 16)


def test_senders_without_a_row_follow_the_rule() -> None:
    rows = [(source, 0, 1, 1e5 * source, 1e5 * source, 0.0, 1e-5) for source in range(1, 6)]
    rule, found = (rows_of(told(PAIRS, [each] * 16, at(1.0, *rows))) for each in (TOP, 0))
    assert {pair for pair in rule if rule[pair] != found[pair]} == {(HOSTS[2], HOSTS[0])}, "the first starts at once"


def test_a_changed_window_is_told_and_an_unchanged_one_is_not() -> None:
    table = SettingTable(SETTINGS, SENDERS)
    table.reset(scenario())
    begun = [(source, 0, 1, 1e5, 1e5, 0.0, 1e-5 + 1e-4) for source in (1, 2)]
    first = [(*row[:6], 1e-5) for row in begun]
    assert len(table.decide(np.full(8, float(TOP)), at(1.0, *first)).grants) == 2
    same = table.decide(np.full(8, float(TOP)), at(1.0001, *begun)).grants
    assert len(same) == 2, "nothing of the first has come, so it is told again and the start of the other moves"
    assert same.window_pkts.tolist() == [22, 22]
    small = SETTINGS.settings.index(RuleSetting(window_frac=0.25))
    later = [(*row[:6], 2.1e-4) for row in begun]
    said = table.decide(np.full(8, float(small)), at(1.0002, *later)).grants
    assert said.window_pkts.tolist() == [16, 16]


def test_hosts_that_do_not_know_sizes_are_ordered_by_arrival() -> None:
    assert rule_of(STAR).order == "remaining"
    assert rule_of(STAR.replace(nic=Nic(knows="backlog"))).order == "arrival"


def test_several_networks_keep_what_their_receivers_know() -> None:
    one, other = at(1.0, *FOUR), at(1.0)
    both = Measurements.of([one, other])
    assert [len(both[row].edges) for row in range(2)] == [4, 0]
    assert Measurements.of([other, other]).edges == ()
    assert isinstance(replace(both[0]).edges, Edges)
