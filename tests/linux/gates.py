# SPDX-License-Identifier: BSD-3-Clause
"""Gates on Linux without a kernel, and runs of the datapath with grants, for tests."""

from dataclasses import replace
from typing import Any

import numpy as np

from ncc.core.measurement import Measurement, idle
from ncc.core.receivers import Edges, Grants
from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Fixed, Flow
from ncc.envs.linux import layout
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.gates import Gates
from ncc.envs.linux.measure import PORT_COUNTERS, Meter
from ncc.harness.datapath import HostStack, Records
from tests.linux.runs import TRANSPORT, start

SERVERS = 8
STAR = ManyToOne(senders=SERVERS, rate_bps=5e7, delay_s=10e-6, buffer_bytes=100_000, mark_threshold_bytes=30_000)
SIZE = 60_000
HOLDS = HostStack(transport="dctcp", hold=True)


def burst(*sizes_bytes: int, **more: Any) -> Scenario:
    """One flow of each server to the receiver, at once."""
    flows = tuple(Flow(start_s=0.0, src=f"s{i}", dst="receiver", size_bytes=n) for i, n in enumerate(sizes_bytes))
    settings: dict[str, Any] = {
        "duration_s": 0.5,
        "drain_s": 100.0,
        "period_s": 0.005,
        "neighbourhoods": "receivers",
        "transport": TRANSPORT.replace(min_rto_s=0.2, recovery="modern"),
    } | more
    return Scenario(name="burst", topology=STAR, workload=(("fixed", Fixed(flows=flows)),), **settings)


def gates_of(scenario: Scenario, **more: Any) -> tuple[Gates, Meter, Any]:
    """Gates, meter and flows of a run without a kernel."""
    flows, network = scenario.flows(1), scenario.network()
    meter = Meter(scenario, flows, np.zeros((2 * len(network.links), len(PORT_COUNTERS)), np.int64))
    meter.live = np.arange(len(flows))
    return Gates(scenario, flows, 1, {}, dict.fromkeys(network.hosts, "10.0.0.1"), **more), meter, flows


class SenderSlots:
    """Senders as `Gates.decide` uses them, with a slot for each flow."""

    def __init__(self, n: int) -> None:
        self.shim, self.waits = self, dict[str, bool]()
        self.decisions, self.reports = np.zeros(n, layout.DECISION), np.zeros(n, layout.REPORT)

    def wait_for(self, receiver: str, *, waits: bool) -> None:
        self.waits[receiver] = waits

    def connections(self) -> Any:
        n = len(self.decisions)
        return np.arange(n), np.arange(n), np.full(n, 7, np.uint32)


def grants(scenario: Scenario, src: Any, dst: Any, **columns: Any) -> Grants:
    n = len(src)
    values = {"start_s": np.zeros(n), "rate_bps": np.full(n, np.inf), "window_pkts": np.zeros(n, np.int64)} | columns
    return Grants(np.asarray(src), np.asarray(dst), **values)


def at(time_s: float, edges: Edges) -> Measurement:
    return replace(idle(SERVERS, 1), time_s=time_s, edges=edges)


def run(
    datapath: LinuxDatapath, scenario: Scenario, stack: HostStack, decide: Any = None
) -> tuple[list[Measurement], Records]:
    """A run to its end; `decide(measurement)` returns the grants of each period."""
    seen = [start(datapath, scenario, stack)]
    unlimited = np.full(scenario.n_agents, np.inf)
    while seen[-1].flows_finished < len(scenario.flows(1)) and seen[-1].time_s < 90:
        if decide is not None and (sent := decide(seen[-1])) is not None:
            datapath.tell(sent)
        seen.append(datapath.step(unlimited))
    return seen, datapath.finish()
