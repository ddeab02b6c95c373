# SPDX-License-Identifier: BSD-3-Clause
"""Bounds of completion times: worked arithmetic, properties, and that no simulated run beats them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.flows import FlowTable
from ncc.core.scenario import Scenario
from ncc.core.topologies import Dumbbell, FatTree, LeafSpine, ManyToOne, Rack
from ncc.core.workload import Fixed, Flow, Poisson
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack
from ncc.harness.limiter import Unlimited
from ncc.harness.run import run_once
from ncc.metrics.fct import fct_s, ideal_fct_s
from ncc.metrics.fluid import _fair, _srpt, fluid_fct_s

MB = 1_000_000


def scenario(topology: object, *flows: tuple[float, str, str, int]) -> Scenario:
    listed = tuple(Flow(start_s=at, src=src, dst=dst, size_bytes=size) for at, src, dst, size in flows)
    return Scenario(name="fluid", topology=topology, workload=(("fixed", Fixed(flows=listed)),), duration_s=1.0)  # type: ignore[arg-type]


def both(made: Scenario) -> tuple[np.ndarray, np.ndarray, FlowTable]:
    flows = made.flows(0)
    return fluid_fct_s(made, flows, "fair"), fluid_fct_s(made, flows, "srpt"), flows


def test_a_flow_alone_takes_its_ideal_time() -> None:
    made = scenario(Rack(hosts=4), (0.0, "h0", "r0", MB), (0.1, "h1", "r0", 1), (0.2, "h2", "h3", 5 * MB))
    fair, srpt, flows = both(made)
    assert fair == pytest.approx(ideal_fct_s(made, flows), rel=1e-9)
    assert srpt == pytest.approx(fair, rel=1e-9)


def test_srpt_preempts_for_the_shorter() -> None:
    made = scenario(ManyToOne(senders=2, rate_bps=1e9), (0.0, "s0", "receiver", 10 * MB), (0.01, "s1", "receiver", MB))
    _, srpt, flows = both(made)
    alone = ideal_fct_s(made, flows)
    assert srpt[1] == pytest.approx(alone[1], rel=1e-9)
    assert srpt[0] - alone[0] == pytest.approx((MB + np.ceil(MB / 1460) * (40 + 38)) * 8 / 1e9, rel=1e-9)


@pytest.mark.parametrize("late_s", [1000.0, 5000.0])
def test_late_flows_on_fast_lines_are_as_exact_as_early_ones(late_s: float) -> None:
    # At 5000 s a float knows 0.9 ps, in which 400 Gbit/s carry 0.36 bits: more than what counts as nothing left.
    listed = ((0.0, MB), (0.0, 3 * MB), (1e-5, 777_777), (2e-5, 10 * MB), (1e-2, 1234), (1e-2, 5 * MB))
    made = scenario(
        ManyToOne(senders=4, rate_bps=400e9),
        *((at, f"s{i % 4}", "receiver", size) for i, (at, size) in enumerate(listed)),
    )
    fair, srpt, flows = both(made)
    late = replace(flows, start_s=flows.start_s + late_s)
    assert fluid_fct_s(made, late, "fair") == pytest.approx(fair, rel=1e-6)
    assert fluid_fct_s(made, late, "srpt") == pytest.approx(srpt, rel=1e-6)


def test_max_min_fills_what_others_cannot_use() -> None:
    # Three flows at port 0 (12), one of them also at port 1 (3): it gets 3 with one sharer of port 1, the others 4.5.
    paths, capacity = np.array([[0, 1], [0, 2], [0, 2]]), np.array([12.0, 3.0, np.inf])
    assert _fair(paths, capacity) == pytest.approx([3, 4.5, 4.5])


PORTS = 4
NETWORKS = st.tuples(
    st.lists(st.sets(st.integers(0, PORTS - 1), min_size=1, max_size=3), min_size=1, max_size=10),
    st.lists(st.sampled_from([1.0, 2.0, 2.5, 10.0]), min_size=PORTS, max_size=PORTS),
    st.integers(0, 2**32 - 1),
)
"""Ports of each flow, capacities, and a seed."""


def filled_up(paths: list[set[int]]) -> np.ndarray:
    return np.array([sorted(path) + [PORTS] * (3 - len(path)) for path in paths])


@given(NETWORKS)
def test_filling_at_once_is_filling_port_by_port(drawn: tuple[list[set[int]], list[float], int]) -> None:
    paths, capacity, _ = drawn
    rates, room, rising = np.zeros(len(paths)), np.array(capacity), set(range(len(paths)))
    while rising:  # all rise together until the next port is full
        sharers = [sum(port in paths[flow] for flow in rising) for port in range(PORTS)]
        rise, port = min((room[port] / sharers[port], port) for port in range(PORTS) if sharers[port])
        for flow in rising:
            rates[flow] += rise
        room -= rise * np.array(sharers)
        rising -= {flow for flow in rising if port in paths[flow]}
    assert _fair(filled_up(paths), np.array([*capacity, np.inf])) == pytest.approx(rates, rel=1e-9, abs=1e-9)


@given(NETWORKS)
def test_taking_at_once_is_taking_one_after_the_other(drawn: tuple[list[set[int]], list[float], int]) -> None:
    paths, capacity, seed = drawn
    left = np.random.default_rng(seed).permutation(len(paths)).astype(np.float64)
    rates, room = np.zeros(len(paths)), list(capacity)
    for flow in np.argsort(left):
        rates[flow] = min(room[port] for port in paths[flow])
        for port in paths[flow]:
            room[port] -= rates[flow]
    assert _srpt(filled_up(paths), np.array([*capacity, np.inf]), left).tolist() == rates.tolist()


@pytest.mark.parametrize(
    ("topology", "src", "dst", "certain"),
    [
        (Dumbbell(pairs=2), "s0", "r0", 3),
        (LeafSpine(leaves=2, spines=2, hosts_per_leaf=2), "h0_0", "h1_0", 2),  # the spine is one of two
        (LeafSpine(leaves=2, spines=2, hosts_per_leaf=2), "h0_0", "h0_1", 2),
        (FatTree(k=4), None, None, 2),
    ],
)
def test_ports_that_all_paths_share(topology: object, src: str | None, dst: str | None, certain: int) -> None:
    network = topology.build()  # type: ignore[attr-defined]
    names = [node.name for node in network.nodes]
    ends = (names.index(src), names.index(dst)) if src and dst else (network.hosts[0], network.hosts[-1])
    ports = network.routes.certain_ports(*ends)
    assert len(ports) == certain
    path = network.path(*ends)
    assert ports[0] == path[0]
    assert ports[-1] == path[-1]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3 * MB), st.floats(0, 0.05)), min_size=1, max_size=12))
def test_bounds_are_bounds(drawn: list[tuple[int, int, float]]) -> None:
    made = scenario(
        Rack(hosts=4, uplink_rate_bps=2e9, host_rate_bps=1e9), *((at, f"h{i}", "r0", size) for i, size, at in drawn)
    )
    fair, srpt, flows = both(made)
    alone = ideal_fct_s(made, flows)
    assert (fair >= alone * (1 - 1e-9)).all()
    assert (srpt >= alone * (1 - 1e-9)).all()
    # Work is conserved either way: the last flow ends at the same time where one port is the bottleneck of all.
    if len({i for i, _, _ in drawn}) == 1:
        assert (flows.start_s + fair - alone).max() <= (flows.start_s + srpt).max() + 1e-9
        assert srpt.mean() <= fair.mean() * (1 + 1e-9)


def test_no_transport_beats_the_bounds() -> None:
    web = Poisson(distribution="hadoop", load_frac=0.8, sources="hosts", destinations="remotes", link="tor->core")
    made = Scenario(name="fluid", topology=Rack(hosts=8), workload=(("web", web),), duration_s=0.05)
    for order in ("fifo", "srpt"):
        controller = Controller(name="dctcp", stack=HostStack(transport="dctcp", order=order))
        run = run_once(PacketsimDatapath(), made, controller, Unlimited(), 1, flow_seed=1)
        took_s = fct_s(run.flows, run.records.flows)
        assert took_s.mean() > fluid_fct_s(made, run.flows, "srpt").mean()
