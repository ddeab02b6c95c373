# SPDX-License-Identifier: BSD-3-Clause
"""Limits by what hosts tell each other: worked arithmetic, agreement with the oracle, lost and false messages."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.topologies import LeafSpine, Rack
from ncc.core.workload import Permutation
from ncc.harness.controller import LocalLimit, ShortestFirstLimit
from ncc.harness.local import TURN_PERIODS, Local
from ncc.run.controllers import load_controller
from tests.envs.cases import measured

G, INF = 1e9, np.inf
PERIOD_BYTES = 125_000
"""Bytes that a host's link carries in a period of 1 ms."""
TIES: dict[str, Any] = {"headroom_frac": 0, "alike": 1, "slack_periods": 0, "floor_frac": 0.01, "tie_frac": 1}


def racks(topology: Any = None, **settings: Any) -> Scenario:
    """Four hosts of 1 Gbit/s behind 1 Gbit/s, decided on every 1 ms."""
    return Scenario(
        name="local",
        topology=topology or Rack(hosts=4, host_rate_bps=G, uplink_rate_bps=G, remotes=1),
        workload=(("all", Permutation(hosts="hosts", size_bytes=1000)),),
        duration_s=0.1,
        **settings,
    )


def epoch(scenario: Scenario, queued: list[float], number: int = 0, **columns: Any) -> Measurement:
    """An epoch in which hosts have one flow with so many bytes, and sent what their link carries."""
    left = np.array(queued)
    now = {"throughput_bps": G, "queued_bytes": left, "queued_flows": left > 0, "next_bytes": left}
    return measured(scenario, number, **{**now, **columns})


def decided(scenario: Scenario, *epochs: Measurement, seed: int = 0, **constants: Any) -> FloatArray:
    """The last limits, over several epochs."""
    limiter = LocalLimit(**constants).build()
    limiter.reset(scenario, seed)
    limits = [np.asarray(limiter.decide(each)) for each in epochs]
    assert all((each > 0).all() for each in limits), "datapaths take nothing else"
    return limits[-1]


LEFT = st.lists(st.sampled_from([0.0, 1e3, 5e4, 1e5, 1.4e5, 1e6, 1e7]), min_size=4, max_size=4)
SENT = st.lists(st.floats(0, G), min_size=4, max_size=4)


@given(LEFT, SENT, st.sampled_from([0.4 * G, G, 2.5 * G]))
def test_when_nothing_changes_it_is_shortest_first_with_perfect_knowledge(
    left: list[float], sent: list[float], uplink_bps: float
) -> None:
    scenario = racks(Rack(hosts=4, host_rate_bps=G, uplink_rate_bps=uplink_bps, remotes=1))
    now = epoch(scenario, left, throughput_bps=sent)
    oracle = ShortestFirstLimit().build()
    oracle.reset(scenario, 0)
    assert decided(scenario, now, now) == pytest.approx(oracle.decide(now))


@pytest.mark.parametrize(
    ("left", "uplink_bps", "constants", "limits"),
    [
        # Two links fill the port; the third and the fourth keep 0.1 of their fair share of a quarter.
        ([1e3, 1e4, 1e5, 1e6], 2 * G, {}, [INF, INF, 0.05 * G, 0.05 * G]),
        ([1e3, 1e4, 1e5, 0], 1.5 * G, {}, [INF, 0.5 * G, 0.05 * G, INF]),
        # All within a factor of four; then the second is a little above 4 times the first, and within 4 of the third.
        ([1e5, 1e5, 2e5, 3.9e5], 2 * G, {"floor_frac": 0.05}, [G / 2] * 4),
        ([1e5, 4.1e5, 1.6e6, 0], 2 * G, {"floor_frac": 0.05}, [INF, G / 2, G / 2, INF]),
        # In two periods of 1 ms a link of 1 Gbit/s carries 250 KB.
        ([1e3, 500e3, 0, 0], G, {"alike": 2, "slack_periods": 2}, [G / 2, G / 2, INF, INF]),
        ([1e3, 510e3, 0, 0], G, {"alike": 2, "slack_periods": 2}, [INF, 0.05 * G, INF, INF]),
    ],
)
def test_the_shortest_go_first_equals_share_and_the_last_has_its_floor(
    left: list[float], uplink_bps: float, constants: dict[str, float], limits: list[float]
) -> None:
    scenario = racks(Rack(hosts=4, host_rate_bps=G, uplink_rate_bps=uplink_bps, remotes=1))
    now = epoch(scenario, left)
    given: dict[str, Any] = {"headroom_frac": 0, "alike": 4, "slack_periods": 0, "floor_frac": 0.1, **constants}
    assert decided(scenario, now, now, **given) == pytest.approx(limits)


def test_each_area_is_decided_by_itself() -> None:
    scenario = racks(LeafSpine(leaves=2, spines=1, hosts_per_leaf=2, host_rate_bps=G, spine_rate_bps=G))
    now = epoch(scenario, [1e7, 1e7, 1e7, 0])
    assert decided(scenario, now, now, headroom_frac=0).tolist() == [0.5 * G, 0.5 * G, INF, INF]


def test_a_host_knows_itself_now_and_others_as_they_were() -> None:
    scenario = racks()
    before, now = epoch(scenario, [1e7, 0, 0, 0]), epoch(scenario, [1e7, 1e7, 0, 0])
    assert decided(scenario, before, now, headroom_frac=0).tolist() == [INF, 0.5 * G, INF, INF]
    late = racks(sharing_delay_periods=2)
    assert decided(late, before, now, now, headroom_frac=0).tolist() == [INF, 0.5 * G, INF, INF]
    assert decided(late, before, now, now, now, headroom_frac=0).tolist() == [0.5 * G, 0.5 * G, INF, INF]


@given(st.sampled_from([1e3, 1e5, 1e7]), st.integers(0, 3))
def test_alone_after_the_hold_a_host_has_its_link(left: float, host: int) -> None:
    scenario = racks()
    now = epoch(scenario, [left if each == host else 0 for each in range(4)])
    held: dict[str, Any] = {**TIES, "hold_periods": 1, "hold_frac": 0.1, "ahead_periods": 1}
    assert decided(scenario, now, **held)[host] == pytest.approx(0.1 * G)
    assert decided(scenario, now, now, **held)[host] in (G, INF)


def test_equals_go_one_after_the_other_by_an_index_that_moves_on() -> None:
    scenario = racks()
    equal = [1e6, 1e6, 1e6, 0]
    floor = 0.01 * G / 3
    first = epoch(scenario, equal)
    assert decided(scenario, first, first, **TIES) == pytest.approx([INF, floor, floor, INF])
    second = epoch(scenario, equal, TURN_PERIODS)
    assert decided(scenario, second, second, **TIES) == pytest.approx([floor, INF, floor, INF])
    shared = decided(scenario, first, first, **{**TIES, "tie_frac": 0})
    assert shared == pytest.approx([G / 3, G / 3, G / 3, INF])
    half = decided(scenario, first, first, **{**TIES, "tie_frac": 0.5})
    assert half[0] == pytest.approx(G / 2), "half of each of two equals is a peer"
    assert half[1] == pytest.approx(G / 2 / 2), "half of the first is before it"


def test_the_next_is_let_in_while_little_is_ahead() -> None:
    scenario = racks()
    now = epoch(scenario, [1.5 * PERIOD_BYTES] * 3 + [0])
    floor = 0.01 * G / 3
    assert decided(scenario, now, now, **TIES, ahead_periods=2) == pytest.approx([INF, INF, floor, INF])
    assert decided(scenario, now, now, **TIES, ahead_periods=1) == pytest.approx([INF, floor, floor, INF])


def test_a_queue_beyond_what_is_wanted_withdraws_capacity() -> None:
    scenario = racks()
    equal = epoch(scenario, [1e6, 1e6, 0, 0], uplink_queue_bytes=1.2 * PERIOD_BYTES)
    for gain, capacity in ((0.0, 1.0), (0.5, 0.5), (4.0, 0.3), (-0.25, 1.25), (-1.0, 1.5)):
        limits = decided(scenario, equal, equal, headroom_frac=0, queue_gain=gain, queue_periods=0.2)
        assert limits[0] == pytest.approx(capacity * G / 2)


def test_idle_hosts_may_be_limited_before_they_begin() -> None:
    scenario = racks()
    assert decided(scenario, epoch(scenario, [0] * 4), idle_frac=0.25).tolist() == [0.25 * G] * 4


def test_what_was_sent_counts_by_its_weight() -> None:
    """A host that has sent for three periods goes behind one that has as much written and has sent nothing."""
    scenario = racks()
    early = epoch(scenario, [1e6, 0, 0, 0])
    both = epoch(scenario, [1e6, 1e6, 0, 0], throughput_bps=[G, 0, 0, 0])
    before = [early, early, both, both]
    exact: dict[str, Any] = {"headroom_frac": 0, "alike": 1, "slack_periods": 0}
    assert decided(scenario, *before, **exact)[1] == pytest.approx(G / 2)
    limits = decided(scenario, *before, **exact, attained_frac=1)
    assert (limits[0], limits[1]) == (pytest.approx(0.9 * G), INF)


def test_the_silent_and_the_lying_are_taken_for_idle() -> None:
    for fault in ({"sharing_silent": ("h0",)}, {"sharing_lying": ("h0",)}):
        scenario = racks(**fault)
        now = epoch(scenario, [1e7, 1e7, 0, 0])
        assert decided(scenario, now, now, headroom_frac=0).tolist() == [0.5 * G, INF, INF, INF]


def test_of_lost_messages_the_last_that_came_stays() -> None:
    scenario = racks(sharing_loss_frac=0.5)
    busy, over = epoch(scenario, [1e7, 1e7, 1e7, 1e7]), epoch(scenario, [1e7, 0, 0, 0])
    known = [busy] * 30
    assert decided(scenario, *known, headroom_frac=0) == pytest.approx(0.25 * G)
    assert decided(scenario, *known, over, over, headroom_frac=0)[0] < INF, "some of it is not heard yet"
    assert decided(scenario, *known, *[over] * 30, headroom_frac=0)[0] == INF
    few = [decided(scenario, busy, busy, seed=seed, headroom_frac=0).tolist() for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]


def test_racks_with_constants_of_their_own_decide_as_if_alone() -> None:
    scenario = racks()
    rng = np.random.default_rng(0)
    rows = [{**TIES, "hold_periods": 1}, {"idle_frac": 0.5, "queue_gain": 1.0, "attained_frac": 1.0}]
    full = [LocalLimit(**row).to_dict() for row in rows]
    names = [name for name in full[0] if name != "kind"]
    together = Local(**{name: np.array([row[name] for row in full]) for name in names})
    together.reset(scenario, 0)
    alone = [LocalLimit(**row).build() for row in rows]
    for each in alone:
        each.reset(scenario, 0)
    for number in range(20):
        lefts = rng.choice([0.0, 1e4, 3e5, 1e6], (2, 4))
        epochs = [epoch(scenario, left.tolist(), number, uplink_queue_bytes=1e5) for left in lefts]
        limits = together.decide(Measurements.of(epochs))
        assert limits.tolist() == [np.asarray(a.decide(m)).tolist() for a, m in zip(alone, epochs, strict=True)]


@pytest.mark.parametrize("name", ["local", "local_hold", "local_blind", "local_hold_blind", "local_tuned_blind"])
def test_the_contenders_are_of_one_class(name: str) -> None:
    limit = load_controller(name).limit
    assert isinstance(limit, LocalLimit)
    assert (limit.hold_periods > 0) == ("hold" in name or "tuned" in name)
    assert (limit.attained_frac > 0) == name.endswith("_blind")
