# SPDX-License-Identifier: BSD-3-Clause
"""Small scenarios and complete runs of the ns-3 datapath, for its tests."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ncc.core.flows import FloatArray, FlowTable
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.topologies import AnyTopology
from ncc.core.workload import Fixed, Flow
from ncc.envs.native.extension import Network
from ncc.envs.ns3 import Ns3Datapath
from ncc.harness.datapath import HostStack, Records

MSS = 1460


def flow(src: str, dst: str, size_bytes: int, start_s: float = 0.0) -> Flow:
    return Flow(start_s=start_s, src=src, dst=dst, size_bytes=size_bytes)


def fixed(topology: AnyTopology, *flows: Flow, **settings: object) -> Scenario:
    """A scenario with exactly these flows."""
    values = {"name": "test", "duration_s": 1.0} | settings
    return Scenario(topology=topology, workload=(("fixed", Fixed(flows=flows)),), **values)  # type: ignore[arg-type]


def engine(datapath: Ns3Datapath) -> Network:
    """The simulation of a started datapath, for what only tests ask of it."""
    assert datapath._network is not None
    return datapath._network


@dataclass
class Run:
    """A finished run."""

    flows: FlowTable
    records: Records
    epochs: list[Measurement]

    @property
    def fct_s(self) -> FloatArray:
        return self.records.flows.finish_s - self.flows.start_s

    def column(self, name: str) -> np.ndarray:
        """[n_epochs, ...] without the measurement of the start."""
        return np.array([getattr(m, name) for m in self.epochs[1:]])


def run(
    scenario: Scenario,
    stack: HostStack | str = "dctcp",
    *,
    seed: int = 1,
    limits: Callable[[int], FloatArray] | FloatArray | None = None,
    max_epochs: int = 3000,
    until_done: bool = True,
    prepare: Callable[[Ns3Datapath], None] | None = None,
) -> Run:
    """Step until every flow is delivered, or `max_epochs`."""
    flows = scenario.flows(seed)
    datapath = Ns3Datapath()
    try:
        epochs = [
            datapath.start(scenario, flows, HostStack(transport=stack) if isinstance(stack, str) else stack, seed)
        ]
        if prepare:
            prepare(datapath)
        unlimited = np.full(scenario.n_agents, np.inf)
        while len(epochs) <= max_epochs and not (until_done and epochs[-1].flows_finished == len(flows)):
            now = limits(len(epochs) - 1) if callable(limits) else unlimited if limits is None else limits
            epochs.append(datapath.step(now))
        return Run(flows, datapath.finish(), epochs)
    finally:
        datapath.close()
