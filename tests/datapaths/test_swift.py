# SPDX-License-Identifier: BSD-3-Clause
"""Swift with windows below a packet, on both simulators."""

from ncc.core.topologies import ManyToOne
from tests.datapaths.runs import CLASSIC, fixed, flow
from tests.datapaths.test_same_packets import run_alike


def last_s(**transport: float) -> float:
    """The end of sixteen flows of 75 KB over a line of 1 Gbit/s, which carries them in 10 ms; nan if one starves."""
    topology = ManyToOne(senders=16, rate_bps=1e9, delay_s=5e-6, buffer_bytes=10**6, mark_threshold_bytes=0)
    flows = [flow(f"s{i}", "receiver", 75_000, i * 1e-6) for i in range(16)]
    done = run_alike(fixed(topology, *flows, transport=CLASSIC.replace(**transport)), "swift", max_epochs=400)
    return float(done.fct_s.max())


def test_a_pace_below_a_packet_shares_the_line() -> None:
    assert 0.0095 < last_s(delayed_ack_pkts=1) < 0.02


def test_a_delayed_ack_is_congestion_to_it() -> None:
    """With one packet in flight, each RTT has the receiver's wait, above the largest target of 126 us."""
    assert not last_s(delayed_ack_pkts=2, delayed_ack_s=2e-4) < 0.2
    assert last_s(delayed_ack_pkts=2, delayed_ack_s=1e-6) < 0.02
