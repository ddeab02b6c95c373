# SPDX-License-Identifier: BSD-3-Clause
"""SICC's speeds of hubs: eq. 3.2 to 3.6 of wang2021 by worked arithmetic, and what they are for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncc.core.measurement import idle
from ncc.core.receivers import Edges, Queues, parts
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.controller import SiccLimit
from ncc.harness.limiter import Unlimited
from ncc.harness.run import run_once
from ncc.harness.sicc import HubSpeeds
from ncc.metrics.requests import qct_s
from ncc.run.controllers import load_controller

PERIOD_S = 1e-2
MBPS = 1e6


def racks(asked: int = 40, **changes: Any) -> Scenario:
    """Four racks of ten hosts with 1 Gbit/s, and requests for objects of 200 KB through hubs."""
    store = {
        "kind": "store", "asked": asked, "objects": 300, "popular": 20, "object_bytes": 200_000, "requests": 3,
        "sources": "hosts", "destinations": "hosts", "sicc": {"redirect": False},
    }  # fmt: skip
    plain = {
        "name": "racks",
        "topology": {
            "kind": "leaf_spine", "leaves": 4, "spines": 1, "hosts_per_leaf": 10, "host_rate_bps": 1e9,
            "spine_rate_bps": 10e9, "buffer_bytes": 100_000, "mark_threshold_bytes": 0,
        },
        "workload": {"it": store},
        "duration_s": 0.01,
        "drain_s": None,
        "period_s": PERIOD_S,
        "neighbourhoods": "receivers",
    }  # fmt: skip
    return scenario_from_dict(plain | changes)


HOSTS = racks().network().hosts
FRONT_END = 0
"""Index of the front end, in the first rack."""


class Told:
    """A rule that is shown slots, and the speeds that it has told."""

    def __init__(self, **settings: float) -> None:
        self._rule: HubSpeeds = SiccLimit(**settings).build()
        self._rule.reset(racks(), 1)
        self._received = dict.fromkeys(range(40), 0.0)

    def slot(self, came_mbps: dict[int, float], queue_bytes: float = 0.0) -> dict[int, float]:
        """Speeds told after a slot in which so much came of each hub, in Mbit/s of full IP packets."""
        n = len(came_mbps)
        for hub, rate in came_mbps.items():
            self._received[hub] += rate * MBPS * PERIOD_S / 8 * 1460 / 1500
        edges = Edges(
            src=np.array([HOSTS[hub] for hub in came_mbps]),
            dst=np.full(n, HOSTS[FRONT_END]),
            flows=np.ones(n, np.int64),
            waiting_bytes=np.full(n, 1e7),
            next_bytes=np.full(n, 1e7),
            received_bytes=np.array([self._received[hub] for hub in came_mbps]),
            age_s=np.zeros(n),
        )
        seen = replace(idle(racks().n_agents, 4), edges=edges, queues=Queues(np.array([queue_bytes, 0.0, 0.0, 0.0])))
        limits, grants = parts(self._rule.decide(seen))
        assert np.isinf(limits).all()
        assert grants is not None
        grants.check(racks().network())
        return {HOSTS.index(s): r / MBPS for s, r in zip(grants.src.tolist(), grants.rate_bps, strict=True)}


def test_hubs_share_the_line_evenly_at_first() -> None:
    assert Told().slot({11: 0, 21: 0}) == pytest.approx({11: 485, 21: 485}), "eq. 3.2: 0.97 of 1 Gbit/s"
    assert Told(use_frac=0.5).slot({11: 0, 21: 0, 31: 0}) == pytest.approx(dict.fromkeys((11, 21, 31), 500 / 3))


def test_what_a_slow_hub_leaves_goes_to_those_that_use_their_speed() -> None:
    told = Told()
    told.slot({11: 0, 21: 0, 31: 0})
    even = 970 / 3
    assert told.slot({11: even, 21: even, 31: 50}) == pytest.approx(
        {11: even + (even - 50) / 2, 21: even + (even - 50) / 2, 31: 50}
    ), "eq. 3.3 and 3.4"


def test_a_hub_that_is_done_leaves_its_speed_to_the_others() -> None:
    told = Told()
    told.slot({11: 0, 21: 0})
    assert told.slot({11: 480}) == pytest.approx({11: 970})


def test_without_a_hub_that_can_use_more_no_speed_changes() -> None:
    told = Told()
    told.slot({11: 0, 21: 0})
    assert told.slot({11: 100, 21: 200}) == {}


def test_as_printed_only_a_hub_faster_than_its_speed_gets_more() -> None:
    printed = Told(full_frac=1.0)
    printed.slot({11: 0, 21: 0})
    assert printed.slot({11: 484, 21: 100}) == {}
    assert printed.slot({11: 486, 21: 100}) == pytest.approx({11: 485 + 385, 21: 100})


def test_a_queue_into_the_rack_lowers_what_is_planned_and_what_comes_raises_it() -> None:
    told = Told()
    told.slot({11: 0, 21: 0})
    # Eq. 3.5 with half of the buffer: 970 (1 - 0.2 / 2); all have nine tenths of their speeds.
    assert told.slot({11: 460, 21: 460}, 50_000) == pytest.approx({11: 436.5, 21: 436.5})
    # Eq. 3.6: B_p = min(970, 873 + 0.2 * 400); shares stay.
    assert told.slot({11: 200, 21: 200}) == pytest.approx({11: 953 / 2, 21: 953 / 2})
    assert told.slot({11: 100, 21: 100}, 9_000) == pytest.approx({11: 485, 21: 485}), "below T it rises to the line"


def test_a_stopped_hub_keeps_a_hundredth_of_an_even_speed() -> None:
    told = Told()
    told.slot({11: 0, 21: 0})
    assert told.slot({11: 485, 21: 0}) == pytest.approx({11: 970, 21: 4.85})


def test_short_flows_are_left_alone() -> None:
    rule = SiccLimit().build()
    rule.reset(racks(), 1)
    one, zero = np.array([1]), np.array([0.0])
    edges = Edges(np.array([HOSTS[11]]), np.array([HOSTS[0]]), one, np.array([1000.0]), zero, zero, zero)
    _, grants = parts(rule.decide(replace(idle(racks().n_agents, 4), edges=edges)))
    assert grants is not None
    assert len(grants) == 0


def test_receivers_see_the_queue_of_the_port_into_their_rack() -> None:
    """All other hosts send to one rack at once: its port overflows, and the others' ports hold ACKs at most."""
    hosts = {"kind": "incast", "events_per_s": 2000.0, "fan_in": 30, "bytes_per_server": 50_000}
    scenario = racks(
        workload={"it": hosts | {"sources": "hosts:10:30", "destinations": "hosts:0:10", "receivers": 10}},
        topology=racks().topology.to_dict() | {"spine_rate_bps": 1e9},
        period_s=1e-3,
    )
    datapath, seen = PacketsimDatapath(), []
    measurement = datapath.start(scenario, scenario.flows(1), load_controller("newreno").stack, 1)
    for _ in range(8):
        measurement = datapath.step(np.full(scenario.n_agents, np.inf))
        seen.append(measurement.queues.into_bytes)
    datapath.close()
    most = np.max(seen, axis=0)
    assert most.shape == (4,)
    assert most[0] > 50_000
    assert (most[1:] < 20_000).all()


def test_speed_control_saves_time_where_hubs_have_unequal_bytes() -> None:
    took_s = {}
    for name, limiter in (("sicc", SiccLimit().build()), ("newreno", Unlimited())):
        run = run_once(PacketsimDatapath(), racks(), load_controller(name), limiter, 1, flow_seed=1).require_valid()
        took_s[name] = qct_s(run.flows, run.records.flows).mean()
    assert took_s["sicc"] < 0.93 * took_s["newreno"]
    assert took_s["sicc"] > 40 * 200_000 * 8 / 1e9
