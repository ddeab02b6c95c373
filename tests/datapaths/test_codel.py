# SPDX-License-Identifier: BSD-3-Clause
"""CoDel at ports: packets that are dropped as they leave, and the wait that is left."""

import pytest

from ncc.core.topologies import ManyToOne
from ncc.core.topology import Program
from tests.datapaths.runs import fixed, flow
from tests.datapaths.test_same_packets import run_alike

CODEL = (Program(name="codel", params=(("target_ns", 50_000), ("interval_ns", 1_000_000))),)


def mean_wait_s(transport: str, programs: tuple[Program, ...], *, control_first: bool) -> tuple[float, int, int]:
    """Mean wait at the port to the receiver, packets dropped and marked; the same on both simulators."""
    topology = ManyToOne(
        senders=4,
        rate_bps=1e9,
        buffer_bytes=400_000,
        mark_threshold_bytes=0,
        programs=programs,
        control_first=control_first,
    )
    done = run_alike(fixed(topology, *(flow(f"s{i}", "receiver", 4_000_000, i * 1e-5) for i in range(4))), transport)
    records = done.records.ports
    port = int(records.queue_delay_sum_s.argmax())
    wait_s = records.queue_delay_sum_s[port] / records.tx_pkts[port]
    return wait_s, int(records.dropped_pkts[port]), int(records.marked_pkts[port])


@pytest.mark.parametrize("control_first", [False, True])
@pytest.mark.parametrize("transport", ["annulus_cubic", "newreno"])
def test_the_wait_is_short_where_a_fifo_fills_its_buffer(transport: str, control_first: bool) -> None:
    fifo_s, _, _ = mean_wait_s(transport, (), control_first=control_first)
    codel_s, dropped, marked = mean_wait_s(transport, CODEL, control_first=control_first)
    assert codel_s < fifo_s / 2
    assert (marked, dropped > 10) == (0, True) if transport == "annulus_cubic" else marked > 10  # it has no ECN
