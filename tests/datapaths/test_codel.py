# SPDX-License-Identifier: BSD-3-Clause
"""CoDel, FQ-CoDel and DWRR at ports: what waits, who sends, and the same on both simulators."""

from typing import Any, Literal

import pytest

from ncc.core.topologies import ManyToOne
from ncc.core.topology import Program
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Run, fixed, flow
from tests.datapaths.test_same_packets import run_alike

DATACENTRE = (("target_ns", 50_000), ("interval_ns", 1_000_000))
CODEL = (Program(name="codel", params=DATACENTRE),)
FQ_CODEL = (Program(name="fq_codel", params=DATACENTRE),)
DWRR = (Program(name="dwrr", params=(("weight1", 3),)),)


def port_to_receiver(programs: tuple[Program, ...], **settings: Any) -> ManyToOne:
    return ManyToOne(
        senders=5, rate_bps=1e9, buffer_bytes=400_000, mark_threshold_bytes=0, programs=programs, **settings
    )


def mean_wait_s(transport: str, programs: tuple[Program, ...], *, control_first: bool) -> tuple[float, int, int]:
    """Mean wait at the port to the receiver, packets dropped and marked; the same on both simulators."""
    topology = port_to_receiver(programs, control_first=control_first)
    done = run_alike(fixed(topology, *(flow(f"s{i}", "receiver", 4_000_000, i * 1e-5) for i in range(4))), transport)
    records = done.records.ports
    port = int(records.queue_delay_sum_s.argmax())
    wait_s = records.queue_delay_sum_s[port] / records.tx_pkts[port]
    return wait_s, int(records.dropped_pkts[port]), int(records.marked_pkts[port])


@pytest.mark.parametrize(("programs", "control_first"), [(CODEL, False), (CODEL, True), (FQ_CODEL, False)])
@pytest.mark.parametrize("transport", ["annulus_cubic", "newreno"])
def test_the_wait_is_short_where_a_fifo_fills_its_buffer(
    transport: str, programs: tuple[Program, ...], control_first: bool
) -> None:
    fifo_s, _, _ = mean_wait_s(transport, (), control_first=control_first)
    codel_s, dropped, marked = mean_wait_s(transport, programs, control_first=control_first)
    assert codel_s < fifo_s / 2
    assert (marked, dropped > 10) == (0, True) if transport == "annulus_cubic" else marked > 10  # it has no ECN


def test_a_short_flow_passes_long_ones_with_queues_of_their_own() -> None:
    def short_s(programs: tuple[Program, ...]) -> float:
        long = [flow(f"s{i}", "receiver", 6_000_000, i * 1e-5) for i in range(4)]
        done = run_alike(fixed(port_to_receiver(programs), *long, flow("s4", "receiver", 5 * MSS, 0.1)), "newreno")
        return float(done.fct_s[4])

    one_packet_s = 1538 * 8e-9
    alone = run_alike(fixed(port_to_receiver(()), flow("s4", "receiver", 5 * MSS)), "newreno").fct_s[0]
    # The handshake and its first packet may find one on the line; four packets wait for a turn of the four others.
    assert short_s(FQ_CODEL) <= alone + (2 + 4 * 4) * one_packet_s
    assert short_s(FQ_CODEL) < short_s(CODEL) < short_s(()) / 10


def test_the_first_packets_of_the_longest_queue_make_room() -> None:
    """Four flows fill a buffer of 20 packets; the fifth, of few packets, loses none."""
    topology = port_to_receiver((Program(name="fq_codel"),)).replace(buffer_bytes=30_000)
    long = [flow(f"s{i}", "receiver", 2_000_000) for i in range(4)]
    done = run_alike(fixed(topology, *long, flow("s4", "receiver", 4 * MSS, 0.02)), "annulus_cubic")
    assert done.records.flows.retransmitted_pkts[:4].min() > 0
    assert done.records.flows.retransmitted_pkts[4] == 0


def shares(tags: Literal["by_size", "none"]) -> Run:
    """A flow of 3 MB in class 0 and one of 9 MB in class 1, whose weight is three times as large."""
    thresholds = (("from_1_bytes", 5_000_000), ("from_2_bytes", 0)) if tags == "by_size" else ()
    stack = HostStack(transport="newreno", tags=tags, tag_params=thresholds)
    flows = flow("s0", "receiver", 3_000_000), flow("s1", "receiver", 9_000_000)
    return run_alike(fixed(port_to_receiver(DWRR), *flows), stack)


def test_classes_share_by_their_weights() -> None:
    """The flows end together where they share as their sizes do, and the smaller one earlier without classes."""
    weighted, plain = shares("by_size").fct_s, shares("none").fct_s
    assert abs(weighted[0] / weighted[1] - 1) < 0.1
    assert plain[0] < 0.7 * plain[1]
