# SPDX-License-Identifier: BSD-3-Clause
"""Ports that mark packets as they leave: which are marked, and what the younger news is worth."""

import pytest

from ncc.core.scenario import Transport
from ncc.core.topologies import Dumbbell, SingleSwitch
from ncc.core.topology import Red
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import Simulator, fixed, flow, run
from tests.datapaths.test_same_packets import run_alike

DCTCP = HostStack(transport="dctcp")


@pytest.mark.parametrize(("k_bytes", "marked"), [(0, 0), (1, 9), (1500, 8), (4500, 6), (12_000, 1), (13_500, 0)])
def test_what_leaves_more_than_k_behind_is_marked(simulator: Simulator, k_bytes: int, marked: int) -> None:
    # Ten packets at once, behind the end of the handshake that is being sent: all wait, and the first to leave has nine
    # behind it, the second eight, the last none. K = 0 switches marking off.
    topology = Dumbbell(
        pairs=1, host_rate_bps=1e12, bottleneck_rate_bps=1e9, mark_threshold_bytes=k_bytes, mark_on_departure=True
    )
    scenario = fixed(
        topology, flow("s0", "r0", 14_600), transport=Transport(recovery="classic", initial_window_pkts=10)
    )
    made = run(simulator, scenario, DCTCP)
    assert made.records.flows.ce_pkts[0] == marked
    assert made.records.ports.marked_pkts.sum() == marked


@pytest.mark.parametrize("control_first", [False, True])
def test_both_simulators_mark_the_same(control_first: bool) -> None:
    topology = SingleSwitch(
        senders=6,
        receivers=2,
        rate_bps=10e9,
        buffer_bytes=20_000,
        shared_buffer_bytes=300_000,
        ports_per_pool=2,
        shared_red=Red(min_bytes=20_000, max_bytes=120_000),
        mark_threshold_bytes=60_000,
        mark_on_departure=True,
        control_first=control_first,
    )
    flows = [flow(f"s{i}", f"r{i % 2}", 400_000 + 10_000 * i, start_s=1e-5 * i) for i in range(6)]
    done = run_alike(fixed(topology, *flows), DCTCP)
    assert done.records.flows.ce_pkts.sum() > 20
