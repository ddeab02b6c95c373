# SPDX-License-Identifier: BSD-3-Clause
"""ns-3's own congestion controls, and what its TCP does not offer."""

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Transport
from ncc.core.topologies import Dumbbell
from ncc.envs.ns3 import Ns3Datapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import fixed, flow, lost_packet, run


def test_packets_are_marked_only_if_the_transport_asked_for_ecn() -> None:
    topology = Dumbbell(pairs=2, host_rate_bps=2e9, mark_threshold_bytes=60_000, buffer_bytes=200_000)
    scenario = fixed(topology, *(flow(f"s{i}", f"r{i}", 5_000_000) for i in range(2)))
    without = run(Ns3Datapath, scenario, "ns3::TcpCubic").records
    assert without.ports.marked_pkts.sum() == 0
    assert without.ports.dropped_pkts.sum() > 0
    with_ecn = run(Ns3Datapath, scenario, HostStack(transport="ns3::TcpCubic", params=(("ecn", 1),))).records
    assert with_ecn.ports.marked_pkts.sum() == with_ecn.flows.ce_pkts.sum() > 0
    assert with_ecn.ports.dropped_pkts.sum() == 0


def test_ns3_dctcp_does_not_halve() -> None:
    """The reason for our own header: at alpha ~ 0 a loss costs ns-3's DCTCP nothing (against RFC 8257 section 3.5)."""
    windows, records = lost_packet(Ns3Datapath, HostStack(transport="ns3::TcpDctcp"))
    first = np.argmax(windows[:, 1] < 2**32 - 1)
    assert records.flows.retransmitted_pkts[0] == 1
    assert windows[first, 1] > 0.6 * windows[first - 1, 0]


@pytest.mark.parametrize(("prr", "at_once"), [(1, False), (0, True)])
def test_prr_lowers_the_window_packet_by_packet_and_classic_recovery_at_once(prr: int, at_once: bool) -> None:
    windows, records = lost_packet(Ns3Datapath, HostStack(transport="ns3::TcpCubic", params=(("prr", prr),)))
    at = 200 + int(np.argmax(np.diff(windows[200:, 1]) != 0)) + 1  # ssthresh has moved
    assert records.flows.retransmitted_pkts[0] == 1
    assert (windows[at, 0] < 1.01 * windows[at, 1]) == at_once


def test_connections_without_a_handshake_are_refused() -> None:
    scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", 1), transport=Transport(handshake=False))
    with pytest.raises(ConfigError, match=r"transport.handshake must be true on ns-3.*or use datapath=packetsim"):
        Ns3Datapath().start(scenario, scenario.flows(1), HostStack(), 1)
