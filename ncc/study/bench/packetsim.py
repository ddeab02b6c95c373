# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks of packetsim: against ns-3 on the same flows, with many hosts, and with every message transport."""

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count, islice
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FlowTable
from ncc.core.memory import memory_bytes
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import AnyTopology, FatTree, LeafSpine, ManyToOne, Rack
from ncc.core.units import GBPS, MS
from ncc.core.workload import Fixed, Flow, Poisson
from ncc.envs.native.base import NativeDatapath
from ncc.envs.ns3.datapath import Ns3Datapath
from ncc.envs.ns3.plain import PPP_BYTES, run_plain
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.controller import Controller, NoLimit
from ncc.harness.datapath import HostStack
from ncc.study.bench import SEED, Figures, in_turn, over
from ncc.study.load import load_experiment
from ncc.study.points import Cell, grid_of

NS3_DCTCP = "ns3::TcpDctcp"
"""Controller of the ordinary ns-3 program; our datapaths run `dctcp` of baselines/ instead.

The ns-3 wheel has assertions and logging compiled in, as ns-3's own builds have by default."""
HOSTS = 16
DCTCP = HostStack(transport="dctcp")
LAPS = 5
"""Runs of packetsim for each run of ns-3, because a single one is too short to time."""
MAX_EPOCHS = 10_000
"""Periods after which a benchmark gives up."""
WARM_EPOCHS = 1
"""Periods of a run before timing begins."""
MEMORY_EPOCHS = 3
"""Periods of the run that measures memory. All flows have started after the first, and then queues are full."""
LEAGUE = "transports_league"
"""Experiment whose contenders the benchmark of transports runs."""
_PORTS: dict[str, Any] = {"buffer_bytes": 4_000_000, "mark_threshold_bytes": 97_500}
"""Buffers of ports. They mark from 65 packets on, which is DCTCP's setting for 10 Gbit/s (its paper, section 3.5)."""
FABRICS: dict[str, tuple[AnyTopology, AnyTopology, AnyTopology]] = {
    "leaf_spine": (
        LeafSpine(leaves=4, spines=4, hosts_per_leaf=4),
        LeafSpine(leaves=32, spines=32, hosts_per_leaf=32),
        LeafSpine(leaves=4, spines=2, hosts_per_leaf=2),
    ),
    "fat_tree": (FatTree(k=4), FatTree(k=16), FatTree(k=2)),
}
"""Fabrics of the same form by name: with 16 hosts, with 1024, and a small one for tests; 10 Gbit/s links and ECMP."""


def ordinary(scenario: Scenario) -> Scenario:
    """Adapt a scenario to what an ordinary ns-3 program runs: TCP without RACK-TLP, and frames of ns-3's devices."""
    transport = scenario.transport.replace(recovery="classic", frame_overhead_bytes=PPP_BYTES)
    return scenario.replace(transport=transport)


def incast(flow_pkts: int) -> Scenario:
    """Make an incast: 16 hosts send one long flow each to one receiver over 10 Gbit/s links.

    The receiver's port marks and is never idle.
    """
    topology = ManyToOne(senders=HOSTS, rate_bps=10 * GBPS, **_PORTS)
    return _long_flows("incast_16", topology, flow_pkts, lambda i: (f"s{i}", "receiver"))


def full_rack(flow_pkts: int) -> Scenario:
    """Make a rack: 16 hosts with 10 Gbit/s links send one long flow each over an uplink of 144 Gbit/s.

    The uplink is the bottleneck and marks packets (ECN), so every host sends at 9 Gbit/s. A packet crosses three links.
    """
    topology = Rack(
        hosts=HOSTS,
        host_rate_bps=10 * GBPS,
        uplink_rate_bps=HOSTS * 9 * GBPS,
        remotes=4,
        remote_rate_bps=40 * GBPS,
        **_PORTS,
    )
    return _long_flows("rack_9g", topology, flow_pkts, lambda i: (f"h{i}", f"r{i % 4}"))


def _long_flows(name: str, topology: AnyTopology, flow_pkts: int, ends: Callable[[int], tuple[str, str]]) -> Scenario:
    pairs = [ends(i) for i in range(HOSTS)]
    size_bytes = flow_pkts * Transport().mss_bytes
    flows = tuple(Flow(start_s=0.0, src=src, dst=dst, size_bytes=size_bytes) for src, dst in pairs)
    return ordinary(Scenario(name=name, topology=topology, workload=(("long", Fixed(flows=flows)),), duration_s=1 * MS))


class Simulation:
    """A simulation of one network without rate limits, which begins at time 0."""

    def __init__(
        self, datapath: type[NativeDatapath], scenario: Scenario, flows: FlowTable, stack: HostStack = DCTCP
    ) -> None:
        self._limits_bps = np.full(scenario.n_agents, math.inf)
        spec = datapath.spec_of(scenario, flows, stack, SEED)
        self.network: Any = datapath.network_of(scenario, spec)

    def run(self, epochs: int) -> float:
        """Run `epochs` periods; return the CPU seconds."""
        began_s = time.process_time()
        for _ in range(epochs):
            self.network.step(self._limits_bps)
        return time.process_time() - began_s

    def packet_hops(self) -> int:
        """Count the packets that all ports of hosts and switches have sent so far."""
        return int(self.network.port_records()["tx_pkts"].sum())


def cpu_s(datapath: type[NativeDatapath], scenario: Scenario, flows: FlowTable) -> float:
    """Run a network until every flow has finished; return the CPU seconds, without those to build the network.

    Raises:
        DatapathError: a flow has not finished after `MAX_EPOCHS` periods.
    """
    simulation, spent_s = Simulation(datapath, scenario, flows), 0.0
    for _ in range(MAX_EPOCHS):
        spent_s += simulation.run(1)
        if not np.isnan(simulation.network.flow_records()["finish_s"]).any():
            return spent_s
    raise DatapathError(f"flows of the benchmark have not finished after {MAX_EPOCHS} epochs")


def over_ns3(flow_pkts: int, repeats: int) -> Figures:
    """Measure the speed of packetsim, in packets per CPU second, and compare it with ns-3 on the same flows.

    All run DCTCP with classic loss recovery, on an incast and on a rack; each of the 16 flows has `flow_pkts` packets.
    Building networks is not timed. Each of the two networks has three figures: packetsim's speed divided by that of an
    ordinary ns-3 program (`plain`) and by that of our ns-3 datapath (`datapath`), and the speed in millions
    (`packetsim`).
    """
    figures: Figures = {}
    for name, made in (("incast", incast), ("rack", full_rack)):
        scenario = made(flow_pkts)
        flows = scenario.flows(SEED)
        ours_s, plain_s, datapath_s = in_turn(
            repeats,
            lambda: sum(cpu_s(PacketsimDatapath, scenario, flows) for _ in range(LAPS)) / LAPS,  # noqa: B023
            lambda: run_plain(scenario, flows, NS3_DCTCP, SEED, stop_s=10.0).cpu_s,  # noqa: B023
            lambda: cpu_s(Ns3Datapath, scenario, flows),  # noqa: B023
        )
        figures |= {
            f"{name}_plain": over(plain_s, ours_s),
            f"{name}_datapath": over(datapath_s, ours_s),
            f"{name}_packetsim": tuple(HOSTS * flow_pkts / value / 1e6 for value in ours_s),
        }
    return figures


def many_hosts(repeats: int, epochs: int = 2, *, tiny: bool = False) -> Figures:
    """Measure how CPU time per packet-hop grows from 16 hosts to 1024, and the memory of 1024 hosts and 100,000 flows.

    The figure of each fabric is the time with 1024 hosts divided by that with 16, measured for `epochs` periods; each
    host is offered 5 Gbit/s of web search traffic. Memory is in MB. With `tiny`, for tests, a few hosts and flows take
    the place of 1024 and 100,000.
    """
    figures: Figures = {}
    for name, (small, large, smallest) in FABRICS.items():
        tasks = (partial(_hop_ns, of, epochs, count(1)) for of in (small, smallest if tiny else large))
        one, other = in_turn(repeats, *tasks)
        figures[name] = over(other, one)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        return figures | {"memory": (fresh.submit(_memory_mb, tiny).result(),)}


def transports(repeats: int, duration_s: float = 0.02) -> Figures:
    """Measure millions of packet-hops per CPU second with DCTCP and each message transport.

    The network is the leaf-spine of the experiment `LEAGUE`, in which flows arrive for `duration_s`, and the figures
    have the names of its contenders. Words of transports count as packets.

    Raises:
        ConfigError: the experiment has no leaf-spine.
    """
    grid = grid_of(LEAGUE, *load_experiment(LEAGUE), "full")
    cells = [cell for cell in grid.cells if cell.point == ("leaf_spine",) and not _has_agents(cell.controller)]
    if not cells:
        raise ConfigError(f"experiment {LEAGUE} has no point leaf_spine: the benchmark of transports needs one")
    speeds = in_turn(repeats, *(partial(_mega_hops_per_s, cell, duration_s) for cell in cells))
    return {cell.contender: speed for cell, speed in zip(cells, speeds, strict=True)}


def _has_agents(controller: Controller) -> bool:
    """Return true if agents on hosts, which are not part of packetsim, decide limits or grants."""
    return not isinstance(controller.limit, NoLimit) or controller.receivers is not None


def _mega_hops_per_s(cell: Cell, duration_s: float) -> float:
    scenario = cell.scenario.replace(duration_s=duration_s)
    simulation = Simulation(PacketsimDatapath, scenario, scenario.flows(SEED), cell.controller.stack)
    spent_s = simulation.run(round(duration_s / scenario.period_s))
    return simulation.packet_hops() / spent_s / 1e6


def _hop_ns(topology: AnyTopology, epochs: int, seeds: Iterator[int]) -> float:
    """Measure CPU nanoseconds per packet-hop of a fabric.

    A small network is run several times, with a seed each, so that it carries as many packets as a large one.
    """
    hosts = len(topology.build().hosts)
    scenario = _web_search(topology, hosts, WARM_EPOCHS + epochs)
    cpu_s, hops = 0.0, 0
    for seed in islice(seeds, max(1, 512 // hosts)):
        simulation = Simulation(PacketsimDatapath, scenario, scenario.flows(seed))
        simulation.run(WARM_EPOCHS)
        before = simulation.packet_hops()
        cpu_s += simulation.run(epochs)
        hops += simulation.packet_hops() - before
    return cpu_s / max(1, hops) * 1e9


def _web_search(topology: AnyTopology, hosts: int, epochs: int) -> Scenario:
    """Make a scenario of web search traffic between random hosts that offers half of the rate of all their links.

    `load_frac` is relative to one uplink, which is as fast as the link of a host.
    """
    traffic = Poisson(distribution="websearch", load_frac=0.5 * hosts, sources="hosts", destinations="hosts")
    return Scenario(name="web_search", topology=topology, workload=(("websearch", traffic),), duration_s=epochs * 1e-3)


def _memory_mb(tiny: bool) -> float:
    """Run a network of 1024 hosts; return the peak growth of this process in MB. The process must be a fresh one."""
    _, large, smallest = FABRICS["leaf_spine"]
    topology, n = (smallest, 10) if tiny else (large, 100_000)
    PacketsimDatapath.extension()
    before = memory_bytes("VmRSS")
    hosts = np.array(topology.build().hosts)
    scenario = _web_search(topology, len(hosts), MEMORY_EPOCHS)
    Simulation(PacketsimDatapath, scenario, _many_flows(hosts, n)).run(MEMORY_EPOCHS)
    return (memory_bytes("VmHWM") - before) / 1e6


def _many_flows(hosts: np.ndarray, n: int) -> FlowTable:
    """Make `n` flows of 1 MB between random hosts. All start within the first millisecond, so all are live at once."""
    rng = np.random.default_rng(0)
    src = rng.integers(0, len(hosts), n)
    dst = (src + rng.integers(1, len(hosts), n)) % len(hosts)
    return FlowTable(
        start_s=np.sort(rng.integers(0, 1_000_000, n)).astype(np.float64) / 1e9,
        src=hosts[src],
        dst=hosts[dst],
        size_bytes=np.full(n, 1_000_000),
        traffic=np.zeros(n, dtype=np.int64),
    )
