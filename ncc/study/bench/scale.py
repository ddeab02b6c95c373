# SPDX-License-Identifier: BSD-3-Clause
"""packetsim from 16 hosts to 1024: cost per packet and link, and memory."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from ncc.core.flows import FlowTable
from ncc.core.topologies import AnyTopology
from ncc.envs.packetsim import PacketsimDatapath
from ncc.study.bench.cases import FABRICS, web_search
from ncc.study.bench.rows import Row, in_turn, over
from ncc.study.bench.runs import Simulation

WARM_EPOCHS = 1
MEMORY_EPOCHS = 3
"""All flows have started after one; then queues are full."""


def many_hosts(repeats: int, epochs: int = 2, *, tiny: bool = False) -> list[Row]:
    """CPU time per packet-hop with many hosts over that with 16, each offered 5 Gbit/s of web search; and memory.

    Args:
        repeats: how often both are timed.
        epochs: how long each time.
        tiny: a few hosts and flows in place of 1024 and 100,000, for tests.
    """
    rows = []
    for name, (small, large, smallest) in FABRICS.items():
        one, other = in_turn(repeats, _HopNs(small, epochs), _HopNs(smallest if tiny else large, epochs))
        rows += [
            Row(f"{name}: CPU per packet-hop, 1024 hosts over 16", over(other, one), "x", at_most=2),
            Row(f"{name}: CPU per packet-hop, 16 hosts", one, "ns"),
        ]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        memory_mb = fresh.submit(_memory_mb, tiny).result()
    return [*rows, Row("memory of 1024 hosts (leaf-spine) and 100,000 flows at once", (memory_mb,), "MB", at_most=1000)]


class _HopNs:
    """Each call times new flows; a small network is run more often, for as many packets as a large one."""

    def __init__(self, topology: AnyTopology, epochs: int) -> None:
        network = topology.build()
        self._hosts = len(network.hosts)
        self._scenario = web_search(topology, self._hosts, (WARM_EPOCHS + epochs) * 1e-3)
        self._epochs, self._seed = epochs, 0

    def __call__(self) -> float:
        cpu_s, hops = 0.0, 0
        for _ in range(max(1, 512 // self._hosts)):
            self._seed += 1
            simulation = Simulation(PacketsimDatapath, self._scenario, self._scenario.flows(self._seed))
            simulation.run(WARM_EPOCHS)
            before = simulation.packet_hops()
            cpu_s += simulation.run(self._epochs)
            hops += simulation.packet_hops() - before
        return cpu_s / max(1, hops) * 1e9


def _memory_mb(tiny: bool) -> float:
    """MB that this process, which has done nothing else, grows at most by a network of 1024 hosts that runs."""
    _, large, smallest = FABRICS["leaf-spine"]
    topology, n = (smallest, 10) if tiny else (large, 100_000)
    PacketsimDatapath.extension()
    before = _status_kib("VmRSS")
    hosts = np.array(topology.build().hosts)
    scenario = web_search(topology, len(hosts), MEMORY_EPOCHS * 1e-3)
    Simulation(PacketsimDatapath, scenario, _many_flows(hosts, n)).run(MEMORY_EPOCHS)
    return (_status_kib("VmHWM") - before) * 1024 / 1e6


def _status_kib(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{field}:")))


def _many_flows(hosts: np.ndarray, n: int) -> FlowTable:
    """`n` flows of 1 MB between random hosts, all within the first millisecond: all are live at once."""
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
