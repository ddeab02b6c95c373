# SPDX-License-Identifier: BSD-3-Clause
"""packetsim against ns-3 on the same flows, and against a loop over events that do nothing."""

import time
from collections.abc import Callable
from typing import Any

from ncc.core.scenario import Scenario
from ncc.envs.ns3.datapath import Ns3Datapath
from ncc.envs.ns3.plain import run_plain
from ncc.envs.packetsim import PacketsimDatapath
from ncc.study.bench.cases import full_rack, incast
from ncc.study.bench.rows import SEED, Row, in_turn, over
from ncc.study.bench.runs import cpu_s_until_finished, data_pkts, flows_of, work

NS3_DCTCP = "ns3::TcpDctcp"
"""The controller of an ordinary ns-3 program; our datapaths run `dctcp` of baselines/.

The ns-3 wheel has assertions and logging compiled in, as ns-3's own builds have unless told otherwise."""


def over_ns3(flow_pkts: int, repeats: int, laps: int = 5) -> list[Row]:
    """Delivered packets per CPU second, packetsim over ns-3: the same flows until they finish, networks ready made.

    Args:
        flow_pkts: packets of each of 16 flows.
        repeats: how often both are timed.
        laps: runs of packetsim for each of ns-3: otherwise they are too short to time.
    """
    rows = []
    for name, make in (("16-to-1 incast", incast), ("full rack, 9 Gbit/s a host", full_rack)):
        ours, plain, datapath = _pkts_per_s(make(flow_pkts * 1460), repeats, laps)
        rows += [
            Row(f"{name}: packets per CPU second, packetsim over ns-3's TCP/IP", over(ours, plain), "x", None, 25),
            Row(f"{name}: the same over our ns-3 datapath", over(ours, datapath), "x", None, 25),
            Row(f"{name}: packets delivered by packetsim", tuple(value / 1e6 for value in ours), "M/s"),
        ]
    return rows


def _pkts_per_s(scenario: Scenario, repeats: int, laps: int) -> list[tuple[float, ...]]:
    flows = flows_of(scenario)
    packets = data_pkts(scenario, flows)
    return in_turn(
        repeats,
        lambda: packets * laps / sum(cpu_s_until_finished(PacketsimDatapath, scenario, flows) for _ in range(laps)),
        lambda: packets / run_plain(scenario, flows, NS3_DCTCP, SEED, stop_s=10.0).cpu_s,
        lambda: packets / cpu_s_until_finished(Ns3Datapath, scenario, flows),
    )


def over_bare(flow_pkts: int, repeats: int) -> list[Row]:
    """CPU time per event, packetsim over its scheduler alone: as many events, of which as many wait and as long."""
    rows = []
    for name, make in (("16-to-1 incast", incast), ("full rack", full_rack)):
        rows += _case(name, make(flow_pkts * 1460), repeats)
    return rows


def _case(name: str, scenario: Scenario, repeats: int) -> list[Row]:
    flows = flows_of(scenario)
    first = work(scenario, flows)
    events, waiting = first.events, first.waiting
    ahead_ns = 2 * first.sim_ns * waiting / events  # Little's law; uniform from 0 on
    span_ns = 1 << max(1, round(ahead_ns)).bit_length()
    extension: Any = PacketsimDatapath.extension()

    def timed(loop: Callable[[int, int, int], object]) -> float:
        began_s = time.process_time()
        loop(events, waiting, span_ns)
        return time.process_time() - began_s

    ours, bare, simple = in_turn(
        repeats,
        lambda: work(scenario, flows).cpu_s,
        lambda: timed(extension.bare_calendar),
        lambda: timed(extension.bare_heap),
    )
    return [
        Row(f"{name}: CPU per event, packetsim over its scheduler alone", over(ours, bare), "x", at_most=3),
        Row(f"{name}: CPU per event of packetsim", tuple(s / events * 1e9 for s in ours), "ns"),
        Row(f"{name}: 4-ary heap over calendar, {waiting} events waiting", over(simple, bare), "x"),
    ]
