# SPDX-License-Identifier: BSD-3-Clause
"""packetsim against ns-3 on the same flows, and against a loop over events that do nothing."""

import time
from dataclasses import dataclass
from typing import Any

from ncc.bench.cases import full_rack, incast
from ncc.bench.rows import Row, in_turn, over
from ncc.bench.runs import SEED, cpu_s_until_finished, data_pkts, flows_of, work
from ncc.core.flows import FlowTable
from ncc.core.scenario import Scenario
from ncc.envs.ns3.datapath import Ns3Datapath
from ncc.envs.ns3.plain import run_plain
from ncc.envs.packetsim import PacketsimDatapath

NS3_DCTCP = "ns3::TcpDctcp"
"""What an ordinary ns-3 program runs; our datapaths run `dctcp` of baselines/.

The ns-3 wheel has assertions and logging compiled in, as ns-3's own builds have unless told otherwise."""


@dataclass(frozen=True)
class OverNs3:
    """Delivered packets per CPU second, packetsim over ns-3: the same flows until they finish, networks ready made."""

    flow_pkts: int
    """Of each of 16 flows."""
    repeats: int
    laps: int = 5
    """Runs of packetsim for each of ns-3: otherwise they are too short to time."""

    def rows(self) -> list[Row]:
        """For each case, over an ordinary program and over our datapath."""
        rows = []
        for name, make in (("16-to-1 incast", incast), ("full rack, 9 Gbit/s a host", full_rack)):
            ours, plain, datapath = self._pkts_per_s(make(self.flow_pkts * 1460))
            rows += [
                Row(f"{name}: packets per CPU second, packetsim over ns-3's TCP/IP", over(ours, plain), "x", None, 25),
                Row(f"{name}: the same over our ns-3 datapath", over(ours, datapath), "x", None, 25),
                Row(f"{name}: packets delivered by packetsim", tuple(value / 1e6 for value in ours), "M/s"),
            ]
        return rows

    def _pkts_per_s(self, scenario: Scenario) -> list[tuple[float, ...]]:
        flows = flows_of(scenario)
        packets = data_pkts(scenario, flows)

        def packetsim() -> float:
            spent_s = [cpu_s_until_finished(PacketsimDatapath, scenario, flows) for _ in range(self.laps)]
            return packets * self.laps / sum(spent_s)

        def plain() -> float:
            return packets / run_plain(scenario, flows, NS3_DCTCP, SEED, stop_s=10.0).cpu_s

        def datapath() -> float:
            return packets / cpu_s_until_finished(Ns3Datapath, scenario, flows)

        return in_turn(self.repeats, packetsim, plain, datapath)


@dataclass(frozen=True)
class OverBare:
    """CPU time per event, packetsim over its scheduler alone: as many events, of which as many wait and as long."""

    flow_pkts: int
    repeats: int

    def rows(self) -> list[Row]:
        """For each case; and the scheduler against the simpler one."""
        rows = []
        for name, make in (("16-to-1 incast", incast), ("full rack", full_rack)):
            scenario = make(self.flow_pkts * 1460)
            rows += self._case(name, scenario, flows_of(scenario))
        return rows

    def _case(self, name: str, scenario: Scenario, flows: FlowTable) -> list[Row]:
        first = work(scenario, flows)
        events, waiting = first.events, first.waiting
        ahead_ns = 2 * first.sim_ns * waiting / events  # Little's law; uniform from 0 on
        span_ns = 1 << max(1, round(ahead_ns)).bit_length()
        extension: Any = PacketsimDatapath.extension()

        def engine() -> float:
            return work(scenario, flows).cpu_s

        def calendar() -> float:
            started = time.process_time()
            extension.bare_calendar(events, waiting, span_ns)
            return time.process_time() - started

        def heap() -> float:
            started = time.process_time()
            extension.bare_heap(events, waiting, span_ns)
            return time.process_time() - started

        ours, bare, simple = in_turn(self.repeats, engine, calendar, heap)
        return [
            Row(f"{name}: CPU per event, packetsim over its scheduler alone", over(ours, bare), "x", at_most=3),
            Row(f"{name}: CPU per event of packetsim", tuple(s / events * 1e9 for s in ours), "ns"),
            Row(f"{name}: 4-ary heap over calendar, {waiting} events waiting", over(simple, bare), "x"),
        ]
