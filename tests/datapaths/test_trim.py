# SPDX-License-Identifier: BSD-3-Clause
"""Ports that trim data: the sender repairs what the receiver names, and the same on every simulator."""

import numpy as np
import pytest

from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import ManyToOne
from ncc.core.topology import Program
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Simulator, engine, fixed, flow, run
from tests.datapaths.test_same_packets import (
    run_alike,
)

SLOW_TIMEOUT = Transport(recovery="classic", min_rto_s=0.2, initial_rto_s=0.2)


def trim(over_bytes: int = 12_000) -> tuple[Program, ...]:
    return (Program(name="trim", params=(("over_bytes", over_bytes),)),)


def incast(senders: int, programs: tuple[Program, ...], *, packets: int, **transport: object) -> Scenario:
    """All begin at once, into a buffer of 16 packets."""
    topology = ManyToOne(senders=senders, buffer_bytes=24_000, mark_threshold_bytes=0, programs=programs)
    flows = [flow(f"s{i}", "receiver", packets * MSS, i * 1e-6) for i in range(senders)]
    return fixed(topology, *flows, transport=SLOW_TIMEOUT.replace(**transport))


@pytest.mark.parametrize("recovery", ["classic", "modern"])
def test_a_burst_that_loses_its_tail_waits_for_no_timeout(simulator: Simulator, recovery: str) -> None:
    # Two windows of ten packets meet a buffer of 16: the last packets of a flow are lost, and nobody comes after them.
    cut, whole = (
        run(simulator, incast(3, programs, packets=10, recovery=recovery), "newreno") for programs in (trim(), ())
    )
    assert cut.records.ports.dropped_pkts.sum() == 0
    assert cut.records.ports.trimmed_pkts.sum() == cut.records.flows.retransmitted_pkts.sum() > 0
    assert cut.records.flows.timeouts.sum() == 0
    assert np.nanmax(cut.fct_s) < 0.002
    assert whole.records.ports.trimmed_pkts.sum() == 0
    if recovery == "classic":
        assert whole.records.flows.timeouts.sum() > 0


@pytest.mark.parametrize("control_first", [False, True])
def test_a_trimmed_packet_comes_again_when_it_is_worked_out_by_hand(simulator: Simulator, control_first: bool) -> None:
    """Nine hosts send a packet each: one is transmitted, four wait, four are trimmed, the last 10 us after the others.

    Their headers wait for those four, or only for the packet in transmission.
    """
    topology = ManyToOne(
        senders=9, delay_s=20e-6, buffer_bytes=24_000, mark_threshold_bytes=0, programs=trim(6_000),
        control_first=control_first,
    )  # fmt: skip
    flows = [flow(f"s{i}", "receiver", MSS, 10e-6 if i == 8 else 0.0) for i in range(9)]
    transport = SLOW_TIMEOUT.replace(handshake=False)
    done = run(simulator, fixed(topology, *flows, transport=transport), "newreno")
    assert list(done.records.flows.retransmitted_pkts) == [0] * 5 + [1] * 4
    packet_us, header_us, ack_us, delay_us = 12.304, 0.816, 0.624, 20.0
    ahead = 1 if control_first else 5  # packets of data before the headers
    first_us = packet_us + delay_us + ahead * packet_us + header_us  # the first of four headers has left the switch
    again_us = first_us + delay_us + 2 * (ack_us + delay_us) + packet_us + delay_us  # its packet is at the switch
    finish_us = again_us + 4 * packet_us + delay_us  # the last of the four has come
    assert done.fct_s[8] * 1e6 == pytest.approx(finish_us - 10.0, abs=2e-3)


@pytest.mark.parametrize(("header_bytes", "room"), [(0, 3000 // 64), (640, 10)])
def test_as_many_are_cut_at_once_as_headers_have_room(simulator: Simulator, header_bytes: int, room: int) -> None:
    """One of 60 packets is transmitted and two wait. The others come before the first has left."""
    topology = ManyToOne(
        senders=60, delay_s=1e-3, buffer_bytes=100_000, mark_threshold_bytes=0,
        programs=(Program(name="trim", params=(("over_bytes", 3000), ("header_bytes", header_bytes))),),
    )  # fmt: skip
    flows = [flow(f"s{i}", "receiver", MSS) for i in range(60)]
    scenario = fixed(topology, *flows, transport=SLOW_TIMEOUT.replace(handshake=False), period_s=1e-3)
    datapath = simulator()
    datapath.start(scenario, scenario.flows(1), HostStack(transport="newreno"), 1)
    for _ in range(2):
        datapath.step(np.full(scenario.n_agents, np.inf))
    ports = engine(datapath).port_records()
    assert (ports["trimmed_pkts"].sum(), ports["dropped_pkts"].sum()) == (room, 57 - room)
    datapath.close()


def test_a_first_ack_that_acknowledges_nothing_still_lowers_the_window() -> None:
    """RWNDQ writes a smaller window into it than into the SYN-ACK, and both simulators take it (RFC 9293, 3.10.7.4)."""
    topology = ManyToOne(
        senders=8, buffer_bytes=100_000, mark_threshold_bytes=0, programs=(Program(name="rwndq"), *trim(6000))
    )
    flows = [flow(f"s{i}", "receiver", 20 * MSS, i * 1e-6) for i in range(8)]
    run_alike(fixed(topology, *flows, routing="symmetric"), "newreno")


def test_headers_alone_keep_no_data_out() -> None:
    """64 hosts that resend at once send more headers than the line carries; data gets through all the same."""
    done = run(PacketsimDatapath, incast(64, trim(), packets=20, recovery="modern"), "newreno")
    assert np.isfinite(done.fct_s).all()
    assert done.records.ports.trimmed_pkts.sum() > 64 * 20


def test_a_packet_that_nobody_waits_before_is_never_cut(simulator: Simulator) -> None:
    """A threshold below a packet would keep all data out for ever."""
    topology = ManyToOne(senders=2, mark_threshold_bytes=0, programs=trim(64))
    done = run(
        simulator, fixed(topology, flow("s0", "receiver", 20 * MSS), flow("s1", "receiver", 20 * MSS)), "newreno"
    )
    assert np.isfinite(done.fct_s).all()
    assert done.records.ports.trimmed_pkts.sum() > 0
