# SPDX-License-Identifier: BSD-3-Clause
"""Limits with perfect knowledge: worked arithmetic, a slow reference, and that nobody is limited without need."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.topologies import LeafSpine, Rack
from ncc.core.workload import Permutation
from ncc.harness.controller import Formula, ShortestFirstLimit
from ncc.harness.limiter import RateLimiter, Unlimited
from ncc.harness.local import ShortestFirst
from ncc.harness.oracles import MaxMin, claims, water_level
from ncc.run.controllers import load_controller
from tests.envs.cases import measured as an_epoch

G = 1e9
INF = np.inf


def racks(topology: Any = None) -> Scenario:
    """Four hosts of 1 Gbit/s behind 2 Gbit/s."""
    return Scenario(
        name="oracles",
        topology=topology or Rack(hosts=4, host_rate_bps=G, uplink_rate_bps=2 * G, remotes=1),
        workload=(("all", Permutation(hosts="hosts", size_bytes=1000)),),
        duration_s=0.1,
    )


def measured(scenario: Scenario, queued: list[float], shortest: list[float] | None = None) -> Measurement:
    """Hosts with so many bytes queued, and with so many left of their shortest flow; else all in one flow.

    Each has sent what its link carries.
    """
    bytes_ = np.array(queued)
    shortest = queued if shortest is None else shortest
    return an_epoch(scenario, throughput_bps=G, queued_bytes=bytes_, queued_flows=bytes_ > 0, next_bytes=shortest)


def shortest_first(headroom_frac: float, alike: float, floor_frac: float, slack_periods: float) -> RateLimiter:
    return ShortestFirstLimit(
        headroom_frac=headroom_frac, alike=alike, floor_frac=floor_frac, slack_periods=slack_periods
    ).build()


def decided(limiter: RateLimiter, scenario: Scenario, measurement: Measurement) -> list[float]:
    limiter.reset(scenario, 0)
    limits = np.asarray(limiter.decide(measurement))
    assert limits.shape == (scenario.n_agents,)
    assert (limits > 0).all(), "datapaths take nothing else"
    return [float(limit) for limit in limits]


@pytest.mark.parametrize(
    ("demand", "capacity", "level"),
    [
        ([1, 1, 1], 3, INF),
        ([1, 4, 4], 6, 2.5),
        ([0.5, 1, 9], 3, 1.5),
        ([], 6, INF),
    ],
)
def test_water_levels_by_hand(demand: list[float], capacity: float, level: float) -> None:
    assert water_level(np.array(demand, dtype=np.float64), capacity) == pytest.approx(level)


DEMANDS = st.lists(st.floats(0, 1e10), min_size=1, max_size=12).map(np.array)


@given(DEMANDS, st.floats(1e3, 1e11))
def test_a_water_level_is_max_min(demand: FloatArray, capacity: float) -> None:
    level = water_level(demand, capacity)
    got = np.minimum(demand, level)
    assert got.sum() <= capacity * (1 + 1e-9)
    if np.isinf(level):
        assert demand.sum() <= capacity
    else:
        # Nothing is left over; and whoever gets less than it wants gets as much as anybody.
        assert got.sum() == pytest.approx(capacity, rel=1e-9)
        assert got[got < demand].min(initial=INF) >= got.max() * (1 - 1e-12)


@given(st.lists(st.floats(1e-3, 1e10), min_size=2, max_size=12).map(np.array))
def test_rounding_finds_a_level_where_demands_are_a_hair_above_capacity(demand: FloatArray) -> None:
    capacity = np.nextafter(demand.sum(), 0)
    level = water_level(demand, capacity)
    assert np.minimum(demand, level).sum() == pytest.approx(capacity, rel=1e-9)


def test_max_min_limits_only_those_who_want_more() -> None:
    made = racks()
    # In 1 ms: 25 kB are 0.2 Gbit/s; 1 MB is more than a link carries, so 1 Gbit/s. 2 - 0.2 is shared by two.
    limits = decided(MaxMin(0.0), made, measured(made, [25e3, 0, 1e6, 1e6]))
    assert limits == pytest.approx([INF, INF, 0.9 * G, 0.9 * G])
    # Headroom: 1.8 - 0.2 is left for two.
    assert decided(MaxMin(0.1), made, measured(made, [25e3, 0, 1e6, 1e6]))[2] == pytest.approx(0.8 * G)
    assert decided(MaxMin(0.0), made, measured(made, [1e6, 1e6, 0, 0])) == [INF] * 4, "two links fit"
    assert decided(MaxMin(0.0), made, measured(made, [0, 0, 0, 0])) == [INF] * 4


def test_a_host_is_judged_by_its_shortest_flow() -> None:
    made = racks(Rack(hosts=4, host_rate_bps=G, uplink_rate_bps=G, remotes=1))
    limits = decided(shortest_first(0.0, 4.0, 0.1, 0.0), made, measured(made, [5e6, 1e5, 0, 0], [1e3, 1e5, 0, 0]))
    assert limits == pytest.approx([INF, 0.05 * G, INF, INF])


def test_whom_its_transport_holds_back_is_left_what_it_can_use() -> None:
    # Sent 0.1 of 1 Gbit/s without a limit: 2 x 0.1 and 0.1 to begin with. Under a limit of 0.2, all that it wants.
    limits, sent = np.array([INF, 0.2 * G, 0.3 * G, INF]), np.array([0.1, 0.1, 0.1, 0.0]) * G
    assert claims(sent, limits, np.full(4, G)) / G == pytest.approx([0.3, 1.0, 0.3, 0.1])
    assert claims(np.zeros(1), np.full(1, 0.04 * G), np.full(1, G)) == G, "in 0.1 ms not even a packet"
    made = racks(Rack(hosts=4, host_rate_bps=G, uplink_rate_bps=G, remotes=1))
    first = replace(measured(made, [1e3, 1e6, 0, 0]), throughput_bps=np.array([0.1, 0.5, 0.0, 0.0]) * G)
    assert decided(shortest_first(0.0, 4.0, 0.1, 0.0), made, first) == pytest.approx([INF, 0.7 * G, INF, INF])


def test_neighbourhoods_do_not_know_each_other() -> None:
    made = racks(LeafSpine(leaves=2, spines=1, hosts_per_leaf=2, host_rate_bps=G, spine_rate_bps=G))
    assert made.n_agents == 4
    area = np.array(made.network().agent_area)
    queued = np.where(area == 0, 1e3, 1e6)
    for limiter in (MaxMin(0.0), shortest_first(0.0, 4.0, 0.05, 0.0)):
        limits = np.array(decided(limiter, made, measured(made, queued.tolist())))
        assert limits[area == 1] == pytest.approx([G / 2] * 2), "as if the short ones were not there"


@pytest.mark.parametrize("name", ["max_min", "shortest_first", "ncc_order"])
def test_what_is_configured_is_built(name: str) -> None:
    limit = load_controller(name).limit
    assert isinstance(limit, Formula)
    built = {"max_min": MaxMin, "shortest_first": ShortestFirst, "ncc_order": Unlimited}
    assert type(limit.build()) is built[name]
