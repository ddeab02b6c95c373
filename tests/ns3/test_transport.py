# SPDX-License-Identifier: BSD-3-Clause
"""ns-3's own congestion controls, and what its TCP does not offer."""

from typing import Literal

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Transport
from ncc.core.topologies import Dumbbell, ManyToOne
from ncc.envs.ns3 import Ns3Datapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import engine, fixed, flow, lost_packet, run


def test_packets_are_marked_only_if_the_transport_asked_for_ecn() -> None:
    topology = Dumbbell(pairs=2, host_rate_bps=2e9, mark_threshold_bytes=60_000, buffer_bytes=200_000)
    scenario = fixed(topology, *(flow(f"s{i}", f"r{i}", 5_000_000) for i in range(2)))
    without = run(Ns3Datapath, scenario, "ns3::TcpCubic").records
    assert without.ports.marked_pkts.sum() == 0
    assert without.ports.dropped_pkts.sum() > 0
    with_ecn = run(Ns3Datapath, scenario, HostStack(transport="ns3::TcpCubic", params=(("ecn", 1),))).records
    assert with_ecn.ports.marked_pkts.sum() == with_ecn.flows.ce_pkts.sum() > 0
    assert with_ecn.ports.dropped_pkts.sum() == 0


@pytest.mark.parametrize("recovery", ["classic", "modern"])
def test_a_window_of_the_receiver_below_a_packet_does_not_stop_a_flow_for_ever(
    recovery: Literal["classic", "modern"],
) -> None:
    """ns-3 counts what the application is about to read, and after a repair would offer less than a packet."""
    topology = ManyToOne(senders=8, buffer_bytes=20_000, mark_threshold_bytes=0)
    flows = [flow(f"s{i}", "receiver", 219_000, i * 1e-5) for i in range(8)]
    transport = Transport(recovery=recovery, receive_buffer_bytes=13 * 1500)
    assert not np.isnan(run(Ns3Datapath, fixed(topology, *flows, transport=transport), "newreno").fct_s).any()


@pytest.mark.parametrize(("control", "shrinks"), [("TcpCubic", True), ("TcpDctcp", True), ("TcpBbr", False)])
def test_an_idle_time_shrinks_the_window_of_ns3s_own_controls(control: str, shrinks: bool) -> None:
    """To the initial window after many RTOs; a control with its own model of the path keeps its window."""

    def window(idle_restart: bool) -> int:
        transport = Transport(recovery="classic", connections_per_pair=1, idle_restart=idle_restart)
        topology = Dumbbell(pairs=1, buffer_bytes=10_000_000, mark_threshold_bytes=0, delay_s=1e-3)
        flows = [flow("s0", "r0", 500_000), flow("s0", "r0", 500_000, 0.9)]
        scenario = fixed(topology, *flows, transport=transport)
        datapath = Ns3Datapath()
        datapath.start(scenario, scenario.flows(1), HostStack(transport=f"ns3::{control}"), 1)
        while not (cwnd := engine(datapath).sender_window(1)[0]):
            datapath.step(np.array([np.inf]))
        assert datapath.finish().flows.finish_s[0] < 0.8
        datapath.close()
        return int(cwnd)

    kept = window(idle_restart=False)
    assert kept > 14_600 or not shrinks
    assert window(idle_restart=True) == (14_600 if shrinks else kept)


def test_too_many_connections_of_a_host_are_refused_by_name() -> None:
    flows = [flow("s0", "r0", 1), flow("s0", "r1", 1)]
    scenario = fixed(Dumbbell(pairs=2), *flows, transport=Transport(recovery="classic", connections_per_pair=8193))
    said = r"connections_per_pair must be at most 8192 for flows between 2 pairs of hosts, got 8193"
    with pytest.raises(ConfigError, match=said):
        run(Ns3Datapath, scenario)


@pytest.mark.parametrize(("prr", "at_once"), [(1, False), (0, True)])
def test_prr_lowers_the_window_packet_by_packet_and_classic_recovery_at_once(prr: int, at_once: bool) -> None:
    windows, records = lost_packet(Ns3Datapath, HostStack(transport="ns3::TcpCubic", params=(("prr", prr),)))
    at = 200 + int(np.argmax(np.diff(windows[200:, 1]) != 0)) + 1  # ssthresh has moved
    assert records.flows.retransmitted_pkts[0] == 1
    assert (windows[at, 0] < 1.01 * windows[at, 1]) == at_once
