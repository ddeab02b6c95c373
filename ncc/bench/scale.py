# SPDX-License-Identifier: BSD-3-Clause
"""packetsim from 16 hosts to 1024: cost per packet and link, and memory."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np

from ncc.bench.cases import FABRICS, web_search
from ncc.bench.rows import Row, in_turn, over
from ncc.bench.runs import Simulation
from ncc.core.errors import WorkerDiedError
from ncc.core.flows import FlowTable
from ncc.core.topologies import AnyTopology
from ncc.envs.packetsim import PacketsimDatapath

WARM_EPOCHS = 1


@dataclass(frozen=True)
class Scale:
    """CPU time per packet-hop with many hosts over that with 16, each offered 5 Gbit/s of web search."""

    repeats: int
    epochs: int = 2
    tiny: bool = False
    """A few hosts and flows in place of 1024 and 100,000, for tests."""

    def rows(self) -> list[Row]:
        """For each fabric; and the memory of one."""
        rows = []
        for name, (small, large, smallest) in FABRICS.items():
            one, other = in_turn(self.repeats, self._hop_ns(small), self._hop_ns(smallest if self.tiny else large))
            rows += [
                Row(f"{name}: CPU per packet-hop, 1024 hosts over 16", over(other, one), "x", at_most=2),
                Row(f"{name}: CPU per packet-hop, 16 hosts", one, "ns"),
            ]
        what = "memory of 1024 hosts (leaf-spine) and 100,000 flows at once"
        return [*rows, Row(what, (self._memory_mb(),), "MB", at_most=1000)]

    def _hop_ns(self, topology: AnyTopology) -> "_HopNs":
        return _HopNs(topology, self.epochs)

    def _memory_mb(self) -> float:
        """Of a process of its own, beyond what it takes to import."""
        command = [sys.executable, "-m", "ncc.bench.memory", *(["--tiny"] if self.tiny else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise WorkerDiedError(f"the process whose memory is measured died: {done.stderr.strip()[-500:]}")
        return float(done.stdout)


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


def many_flows(hosts: np.ndarray, n: int) -> FlowTable:
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
