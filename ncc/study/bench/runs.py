# SPDX-License-Identifier: BSD-3-Clause
"""Runs of a simulator by itself: no environment, no limits; how much each did, and what it cost."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.flows import FlowTable
from ncc.core.scenario import Scenario
from ncc.envs.native.base import NativeDatapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from ncc.study.bench.rows import SEED

MAX_EPOCHS = 10_000
DCTCP = HostStack(transport="dctcp")


def flows_of(scenario: Scenario) -> FlowTable:
    """The flows that every run of a scenario here carries."""
    return scenario.flows(SEED)


def data_pkts(scenario: Scenario, flows: FlowTable) -> int:
    """Packets of payload that the receivers get in all."""
    return int((-(-flows.size_bytes // scenario.transport.mss_bytes)).sum())


class Simulation:
    """A network at time 0, and how far it has come."""

    def __init__(self, datapath: type[NativeDatapath], scenario: Scenario, flows: FlowTable) -> None:
        self._limits_bps = np.full(scenario.n_agents, math.inf)
        spec = datapath.spec_of(scenario, flows, DCTCP, SEED)
        self.network: Any = datapath.network_of(scenario, spec)

    def run(self, epochs: int) -> float:
        """CPU seconds of that many epochs."""
        started = time.process_time()
        for _ in range(epochs):
            self.network.step(self._limits_bps)
        return time.process_time() - started

    def epochs_until_finished(self) -> Iterator[float]:
        """CPU seconds of each epoch, until every flow has finished.

        Raises:
            DatapathError: they have not after `MAX_EPOCHS`.
        """
        for _ in range(MAX_EPOCHS):
            yield self.run(1)
            if not np.isnan(self.network.flow_records()["finish_s"]).any():
                return
        raise DatapathError(f"flows of the benchmark have not finished after {MAX_EPOCHS} epochs")

    def packet_hops(self) -> int:
        """Packets sent by all ports, of hosts and of switches, so far."""
        return int(self.network.port_records()["tx_pkts"].sum())


def cpu_s_until_finished(datapath: type[NativeDatapath], scenario: Scenario, flows: FlowTable) -> float:
    """CPU seconds until every flow has finished, without building the network."""
    return sum(Simulation(datapath, scenario, flows).epochs_until_finished())


@dataclass(frozen=True)
class Work:
    """The work of packetsim until every flow had finished."""

    cpu_s: float
    events: int
    waiting: int
    """Events in the scheduler, on average over the ends of epochs."""
    sim_ns: float


def work(scenario: Scenario, flows: FlowTable) -> Work:
    """Run packetsim, and count."""
    simulation = Simulation(PacketsimDatapath, scenario, flows)
    network, cpu_s, waiting = simulation.network, 0.0, []
    for spent_s in simulation.epochs_until_finished():
        cpu_s += spent_s
        waiting.append(network.audit()["scheduled"])
    return Work(cpu_s, network.events, max(1, round(float(np.mean(waiting)))), network.now_ns)
