# SPDX-License-Identifier: BSD-3-Clause
"""Random small networks on both simulators: every flow, every port and every epoch, number by number."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from ncc.baselines.registry import controllers, named
from ncc.core.bcc import Bcc
from ncc.core.flows import FloatArray
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import AnyTopology, Dumbbell, FatTree, LeafSpine, ManyToOne, Rack, SingleSwitch, TwoDatacentres
from ncc.core.topology import NodeKind, Program, Red, Topology
from ncc.core.units import MS, US
from ncc.core.workload import Flow
from ncc.envs.native.base import NativeDatapath
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Run, Simulator, drops, fixed, flow, run


def random_topology(random: np.random.Generator) -> AnyTopology:
    buffer_bytes = int(random.choice([40_000, 100_000, 1_000_000]))
    marking = random.integers(3)
    switch: dict[str, Any] = {
        "buffer_bytes": buffer_bytes,
        "mark_threshold_bytes": buffer_bytes // 2 if marking == 1 else 0,
        "red": Red(min_bytes=buffer_bytes // 8, max_bytes=buffer_bytes // 2) if marking == 2 else None,
        "control_first": bool(random.random() < 0.3),
        "shared_buffer_bytes": int(random.choice([0, 0, 50_000])),
    }
    rate_bps = float(random.choice([1e9, 3.3e9, 10e9]))
    chosen = random.integers(6)
    if chosen == 0:
        host_rate_bps = float(random.choice([1e9, 2e9, 10e9]))
        return Dumbbell(pairs=int(random.integers(1, 5)), host_rate_bps=host_rate_bps, **switch)
    if chosen == 1:
        return ManyToOne(senders=int(random.integers(1, 17)), **switch)
    if chosen == 2:
        return Rack(hosts=int(random.integers(2, 9)), **switch)
    if chosen == 3:
        return LeafSpine(
            leaves=3, spines=2, hosts_per_leaf=2, host_rate_bps=rate_bps, spine_rate_bps=rate_bps, **switch
        )
    if chosen == 4:
        return FatTree(
            k=int(random.choice([2, 4])), rate_bps=rate_bps, delay_s=float(random.choice([0, 1e-6])), **switch
        )
    return TwoDatacentres(hosts=2, rate_bps=rate_bps, wan_rate_bps=rate_bps, wan_delay_s=100 * US, **switch)


@pytest.mark.parametrize("window_pkts", [8, 10, 13, 16, 18])
def test_a_gap_behind_which_the_whole_window_waits(window_pkts: int) -> None:
    topology = Dumbbell(pairs=1, buffer_bytes=10**6, mark_threshold_bytes=0)
    transport = Transport(receive_buffer_bytes=window_pkts * MSS, recovery="classic")
    scenario = fixed(topology, flow("s0", "r0", 100 * MSS), transport=transport)
    done = run_alike(scenario, "newreno", prepare=drops(scenario, left__right=20))
    assert done.records.flows.timeouts[0] == 0


def random_flows(random: np.random.Generator, network: Topology) -> list[Flow]:
    hosts = [node.name for node in network.nodes if node.kind is NodeKind.HOST]
    busiest = str(random.choice(hosts))
    start_s = 0.0
    made = []
    for _ in range(int(random.integers(1, 40))):
        start_s += float(random.choice([0.0, random.random() * 300 * US]))
        src = str(random.choice([name for name in hosts if name != busiest]))
        dst = busiest if random.random() < 0.7 else str(random.choice([name for name in hosts if name != src]))
        sizes = [random.integers(1, 3000), random.integers(1, 300_000), MSS * random.integers(1, 200)]
        size = int(random.choice(sizes))
        made.append(flow(src, dst, size, round(start_s, 9)))
    return made


def random_transport(random: np.random.Generator, rtt_noise_max_s: float) -> Transport:
    return Transport(
        recovery="classic",
        mtu_bytes=int(random.choice([577, 1500, 1500, 9000])),
        frame_overhead_bytes=int(random.choice([0, 38])),
        sack=bool(random.random() < 0.7),
        limited_transmit=bool(random.random() < 0.7),
        dup_ack_pkts=int(random.choice([2, 3, 3, 5])),
        delayed_ack_pkts=int(random.choice([1, 2, 3])),
        delayed_ack_s=float(random.choice([100 * US, 1 * MS])),
        initial_window_pkts=int(random.choice([1, 2, 10, 30])),
        min_rto_s=float(random.choice([1 * MS, 5 * MS])),
        rtt_noise_max_s=rtt_noise_max_s,
    )


def random_nic(random: np.random.Generator, transport: Transport) -> Nic:
    mtu_bytes = transport.mtu_bytes
    return Nic(bucket_bytes=2 * mtu_bytes, small_queue_bytes=int(random.choice([4, 20])) * mtu_bytes)


def random_port(random: np.random.Generator, network: Topology) -> str:
    """A switch's, as `drops` wants it."""
    ends = [(link.a, link.b) for link in network.links] + [(link.b, link.a) for link in network.links]
    ports = [(a, b) for a, b in ends if network.nodes[a].kind is not NodeKind.HOST]
    a, b = ports[random.integers(len(ports))]
    return f"{network.nodes[a].name}__{network.nodes[b].name}"


def random_case(
    random: np.random.Generator,
    topology: AnyTopology,
    *,
    transport: Mapping[str, Any] = {},
    nic: Mapping[str, Any] = {},
    routings: Sequence[str] = ("ecmp",),
    **settings: Any,
) -> tuple[Scenario, Callable[[NativeDatapath], None]]:
    """Flows, transport and NIC drawn for this network, with some settings; and the loss of a packet for `prepare`."""
    network = topology.build()
    made = random_transport(random, 0.0).replace(**(transport or {}))
    chosen = random_nic(random, made).replace(**(nic or {}))
    flows, routing = random_flows(random, network), str(random.choice(routings))
    scenario = fixed(topology, *flows, transport=made, nic=chosen, routing=routing, **settings)
    return scenario, drops(scenario, **{random_port(random, network): int(random.integers(1, 60))})


def random_limits(random: np.random.Generator, n_agents: int) -> Callable[[int], FloatArray]:
    """Limits of all hosts, drawn anew every five epochs."""
    limits = random.choice([2e7, 3e8, 1e9, np.inf], size=(8, n_agents))
    return lambda epoch: limits[epoch // 5 % 8]


def random_stack(random: np.random.Generator, **settings: Any) -> HostStack:
    return HostStack(transport=str(random.choice(["dctcp", "cubic", "newreno"])), **settings)


def check_equal(one: object, two: object, where: str) -> None:
    for column in fields(one):  # type: ignore[arg-type]
        ours, theirs = getattr(one, column.name), getattr(two, column.name)
        if is_dataclass(ours):
            check_equal(ours, theirs, where)
            continue
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=f"{column.name} {where}")


def run_alike(
    scenario: Scenario,
    stack: HostStack | str,
    *,
    simulators: Sequence[Simulator] = (PacketsimDatapath, Ns3Datapath),
    **how: Any,
) -> Run:
    """Run on both simulators; every flow, port and epoch must be the same. Returns packetsim's run."""
    ours, theirs = (run(each, scenario, stack, **how) for each in simulators)
    check_equal(ours.records.flows, theirs.records.flows, "of flows")
    check_equal(ours.records.ports, theirs.records.ports, "of ports")
    for epoch, (one, two) in enumerate(zip(ours.epochs, theirs.epochs, strict=True)):
        check_equal(one, two, f"of epoch {epoch}")
    return ours


def with_bcc(topology: AnyTopology) -> AnyTopology:
    """The same with pools that mark from early on, so that their chance and their limit both come to bear."""
    marks = Red(min_bytes=3_000, max_bytes=40_000, max_prob_frac=0.3)
    return topology.replace(
        buffer_bytes=10_000, shared_buffer_bytes=100_000, shared_red=marks, mark_threshold_bytes=0, red=None,
        control_first=False,
    )  # fmt: skip


def random_run(seed: int) -> tuple[Scenario, HostStack, dict[str, Any]]:
    """A scenario, a stack and how to run them.

    From 30 to 40, with pools that mark; from 41 on, with ACKs for many packets at once.
    """
    random = np.random.default_rng(seed)
    topology = random_topology(random)
    if 30 <= seed <= 40:
        topology = with_bcc(topology)
    network = topology.build()
    transport = random_transport(random, 20 * US if seed % 3 == 0 else 0.0)
    if seed > 40:
        transport = transport.replace(delayed_ack_pkts=7 if seed % 2 else 14, delayed_ack_s=20 * US)
    scenario = fixed(
        topology,
        *random_flows(random, network),
        transport=transport,
        nic=random_nic(random, transport).replace(knows=["sizes", "sizes", "backlog"][seed // 2 % 3]),
        period_s=float(random.choice([1 * MS, 370 * US])),
        decision_latency_s=float(random.choice([0, 30 * US])),
    )
    orders = list(named("flow order"))
    stack = HostStack(transport=str(random.choice(list(controllers()))), order=str(random.choice(orders)))
    limits = random_limits(random, scenario.n_agents)
    dropped = drops(scenario, **{random_port(random, network): int(random.integers(1, 60))})
    return scenario, stack, {"limits": limits, "max_epochs": 2000, "prepare": dropped}


Case = tuple[AnyTopology, dict[str, Any], HostStack]
"""Topology, settings of `random_case`, stack."""


def ports(*programs: tuple[str, dict[str, int]]) -> tuple[Program, ...]:
    """Programs of all ports, by name and parameters."""
    return tuple(Program(name=name, params=tuple(params.items())) for name, params in programs)


def of_classes(random: np.random.Generator, seed: int) -> Case:
    topology = random_topology(random).replace(programs=ports(("rwndq", {})), classes=int(random.integers(2, 9)))
    return topology, {"routings": ["symmetric"]}, random_stack(random, tags=["remaining", "by_size"][seed % 2])


def by_rank(random: np.random.Generator, seed: int) -> Case:
    plain = {"control_first": False, "shared_buffer_bytes": 0, "mark_threshold_bytes": 0, "red": None}
    topology = random_topology(random).replace(programs=ports(("pfabric", {})), buffer_bytes=40_000, **plain)
    return topology, {"routings": ["symmetric"]}, random_stack(random, tags=["remaining", "by_size"][seed % 2])


def sprayed(random: np.random.Generator, seed: int) -> Case:
    """Over two or three spines some packets overtake others."""
    topology = LeafSpine(leaves=3, spines=2 + seed % 2, hosts_per_leaf=3, spine_rate_bps=0.5e9, buffer_bytes=60_000)
    return topology, {"routings": ["spray"]}, random_stack(random)


def by_flowlets(random: np.random.Generator, seed: int) -> Case:
    fabric = LeafSpine(leaves=3, spines=3, hosts_per_leaf=3, spine_rate_bps=0.5e9, buffer_bytes=60_000)
    topology = FatTree(k=4, rate_bps=1e9) if seed % 2 else fabric
    gap_ns = int(random.choice([1, 20_000, 500_000]))
    return topology.replace(programs=ports(("letflow", {"gap_ns": gap_ns}))), {}, random_stack(random)


def trimming(random: np.random.Generator, seed: int) -> Case:
    topology, classes = random_topology(random), int(random.choice([1, 1, 2, 8]))
    programs = ports(("trim", {"over_bytes": int(random.integers(2, 12)) * 1500}))
    control_first = topology.control_first and classes == 1
    return topology.replace(programs=programs, classes=classes, control_first=control_first), {}, random_stack(random)


def with_queues(random: np.random.Generator, seed: int) -> Case:
    datacentre = {"target_ns": 50_000, "interval_ns": 1_000_000}
    programs = ports(("fq_codel", datacentre) if seed % 2 else ("dwrr", {"weight1": 3}))
    topology = random_topology(random).replace(programs=programs, control_first=False, shared_buffer_bytes=0, red=None)
    return topology, {}, random_stack(random, tags="by_size")


def signalling(random: np.random.Generator, seed: int) -> Case:
    """All switches tell senders of their queues."""
    least = {name: int(random.integers(1500, 25_000)) for name in ("target_bytes", "sample_bytes")}
    topology = random_topology(random).replace(programs=ports(("qcn", least | {"max_hops": seed % 3})))
    stack = HostStack(transport=["annulus_dctcp", "annulus_cubic", "dcqcn"][seed // 3])
    return topology, {"routings": ["ecmp", "symmetric", "spray"]}, stack


def pausing(random: np.random.Generator, seed: int) -> Case:
    """PFC; with QCN, DCQCN and classes in some."""
    pauses = {"xoff_bytes": int(random.integers(1500, 8000)), "xon_gap_bytes": int(random.integers(0, 3000))}
    programs = ports(("pfc", pauses), *[("qcn", {"target_bytes": 3000})] * (seed % 2))
    changes = {"buffer_bytes": 2_000_000, "mark_threshold_bytes": 20_000, "shared_buffer_bytes": 0, "red": None}
    topology = random_topology(random).replace(programs=programs, classes=1 + seed % 4, **changes)
    transport = {"initial_window_pkts": int(random.choice([10, 100]))}
    stack = HostStack(transport=["dctcp", "newreno", "dcqcn", "annulus_dctcp"][seed % 4], tags="by_size")
    return topology, {"transport": transport, "routings": ["ecmp", "symmetric", "spray"]}, stack


FEATURES: dict[Callable[[np.random.Generator, int], Case], int] = {
    of_classes: 2, by_rank: 2, sprayed: 4, by_flowlets: 6, trimming: 6, with_queues: 6, signalling: 9, pausing: 8,
}  # fmt: skip
"""Features of switches, and in how many random networks with losses both simulators are compared."""


@pytest.mark.parametrize(("feature", "seed"), [(each, seed) for each, n in FEATURES.items() for seed in range(n)])
def test_both_simulators_do_the_same_at_ports(feature: Callable[[np.random.Generator, int], Case], seed: int) -> None:
    random = np.random.default_rng(4000 + seed)
    topology, case, stack = feature(random, seed)
    scenario, lost = random_case(random, topology, **case)
    done = run_alike(scenario, stack, max_epochs=2000, prepare=None if feature is pausing else lost)
    if feature is pausing:
        assert done.records.ports.dropped_pkts.sum() == 0


@pytest.mark.parametrize("seed", range(49))
def test_both_simulators_move_the_same_packets(seed: int) -> None:
    scenario, stack, how = random_run(seed)
    run_alike(scenario, stack, **how)


@pytest.mark.parametrize("simulator", [PacketsimDatapath, Ns3Datapath])
def test_bcc_keeps_a_pool_from_filling(simulator: Simulator) -> None:
    """Two receivers of one switch, 16 flows each: their own thresholds come too late for the pool, BCC's do not."""
    switch = SingleSwitch(
        senders=8, receivers=2, buffer_bytes=10_000, shared_buffer_bytes=120_000, dt_alpha=4.0, ports_per_pool=2,
        mark_threshold_bytes=80_000, delay_s=100 * US,
    )  # fmt: skip
    flows = [flow(f"s{i % 8}", f"r{i % 2}", 300_000, i * 1e-6) for i in range(32)]
    found = []
    for topology in (switch, switch.replace(bcc=Bcc(rtt_s=400 * US, spread_s=200 * US))):
        done = run(simulator, fixed(topology, *flows))
        found.append((int(done.records.ports.marked_pkts.sum()), int(done.records.ports.dropped_pkts.sum())))
    (marked, dropped), (marked_bcc, dropped_bcc) = found
    assert marked_bcc > marked
    assert dropped_bcc < dropped


def sequences(random: np.random.Generator, network: Topology) -> list[Flow]:
    """Flows of two pairs of hosts: one after another, at once, and after pauses of up to several RTOs."""
    hosts = [node.name for node in network.nodes if node.kind is NodeKind.HOST]
    made = []
    for _ in range(2):
        src, dst = (str(name) for name in random.choice(hosts, 2, replace=False))
        start_s = 0.0
        for _ in range(int(random.integers(4, 15))):
            start_s += float(random.choice([0.0, 100 * US, 3 * MS, random.random() * 40 * MS]))
            size = int(random.choice([random.integers(1, 3000), MSS * random.integers(1, 200)]))
            made.append(flow(src, dst, size, round(start_s, 9)))
    return sorted(made, key=lambda each: each.start_s)


@pytest.mark.parametrize("control", ["dctcp", "cubic", "bbr", "newreno", "vegas", "gemini"])
@pytest.mark.parametrize("seed", range(4))
def test_both_simulators_keep_the_same_connections_open(control: str, seed: int) -> None:
    random = np.random.default_rng(1000 + seed)
    topology = random_topology(random)
    network = topology.build()
    transport = random_transport(random, 20 * US if seed == 1 else 0.0).replace(
        connections_per_pair=int(random.integers(3)),
        idle_restart=bool(random.random() < 0.7),
        handshake=bool(random.random() < 0.7),
    )
    scenario = fixed(topology, *sequences(random, network), transport=transport, nic=random_nic(random, transport))
    dropped = drops(scenario, **{random_port(random, network): int(random.integers(1, 60))})
    stack = HostStack(transport=control)
    limits = random.choice([2e8, 1e9, np.inf], size=(8, scenario.n_agents))
    done = run_alike(scenario, stack, limits=lambda epoch: limits[epoch // 5 % 8], max_epochs=2000, prepare=dropped)
    assert not np.isnan(done.records.flows.finish_s).any()


def dumbbell(size_bytes: int = 3_000_000, **topology: Any) -> Scenario:
    """Two long flows into a bottleneck of half their speed."""
    flows = [flow(f"s{i}", f"r{i}", size_bytes, i * 1e-3) for i in range(2)]
    return fixed(Dumbbell(pairs=2, host_rate_bps=2e9, **topology), *flows)


def rack() -> Scenario:
    """An incast of short flows between long ones."""
    long = [flow(f"h{i}", "r0", 1_000_000) for i in range(4)]
    short = [flow(f"h{i % 8}", "r1", 20_000, 1e-3 + (i // 8) * 2e-3) for i in range(32)]
    return fixed(Rack(hosts=8, buffer_bytes=60_000, mark_threshold_bytes=20_000), *long, *short)


SCENARIOS = {
    "marks": dumbbell(),
    "drops": dumbbell(1_000_000, mark_threshold_bytes=0, buffer_bytes=100_000),
    "delay": dumbbell(1_000_000, mark_threshold_bytes=0, delay_s=1e-3, buffer_bytes=300_000),
    "rack": rack(),
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
@pytest.mark.parametrize("name", sorted(controllers()))
def test_every_controller_does_the_same_on_both_simulators(name: str, scenario: Scenario) -> None:
    """A new one joins by itself."""
    done = run_alike(scenario, name)
    assert done.epochs[-1].flows_finished == len(done.flows)
