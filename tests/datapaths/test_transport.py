# SPDX-License-Identifier: BSD-3-Clause
"""TCP over the network: times by hand, congestion, loss, marks, and controllers that misbehave."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import DatapathError
from ncc.core.scenario import Transport
from ncc.core.topologies import Dumbbell, ManyToOne
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Simulator, Window, drops, fixed, flow, lost_packet, over_transports, run

SYN_BYTES = 48  # IP 20, TCP 20, window scale and SACK-permitted padded to 8
ACK_BYTES = 40
NO_MARKS: dict[str, Any] = {"mark_threshold_bytes": 0}


def one_way_s(ip_bytes: int, overhead_bytes: int = 38) -> float:
    """Three 1 Gbit/s hops of 10 us, store and forward."""
    return 3 * (10e-6 + (ip_bytes + overhead_bytes) * 8e-9)


@pytest.mark.parametrize("size_bytes", [1, 999, MSS, 10 * MSS, 10 * MSS - 700])
@pytest.mark.parametrize("overhead_bytes", [0, 38])
def test_a_lone_flow_takes_the_time_that_arithmetic_says(
    simulator: Simulator, size_bytes: int, overhead_bytes: int
) -> None:
    # SYN, SYN-ACK, then the ACK and up to 10 packets (the initial window) back to back; the last ends the flow.
    packets = -(-size_bytes // MSS)
    last = size_bytes - (packets - 1) * MSS + 40
    first_hop = ((packets - 1) * (1500 + overhead_bytes) + ACK_BYTES + overhead_bytes) * 8e-9
    handshake = 2 * one_way_s(SYN_BYTES, overhead_bytes)
    by_hand = handshake + first_hop + one_way_s(last, overhead_bytes)
    # A short last packet catches up with the full one before it, and then ends one transmission after it on each hop.
    if packets > 1 and last < 1500:
        ahead = ((packets - 2) * (1500 + overhead_bytes) + ACK_BYTES + overhead_bytes) * 8e-9
        by_hand = handshake + ahead + one_way_s(1500, overhead_bytes) + (last + overhead_bytes) * 8e-9
    transport = Transport(recovery="classic", frame_overhead_bytes=overhead_bytes)
    done = run(simulator, fixed(Dumbbell(pairs=1), flow("s0", "r0", size_bytes, 0.0001), transport=transport))
    assert done.fct_s[0] == pytest.approx(by_hand, abs=3e-9)
    assert done.records.flows.sent_pkts[0] == packets


def test_dctcp_keeps_the_queue_about_its_threshold_at_full_throughput(simulator: Simulator) -> None:
    topology = Dumbbell(pairs=2, host_rate_bps=2e9, mark_threshold_bytes=30_000)
    done = run(simulator, fixed(topology, *(flow(f"s{i}", f"r{i}", 40_000_000) for i in range(2))), max_epochs=200)
    steady = slice(50, 200)
    assert 15_000 < done.column("uplink_queue_mean_bytes")[steady].mean() < 45_000
    assert done.column("uplink_throughput_bps")[steady].mean() > 0.995 * 1e9 * 1500 / 1538
    assert done.records.ports.dropped_pkts.sum() == 0
    assert done.column("uplink_marked_pkts").sum() == done.records.ports.marked_pkts.sum()
    shares = done.column("goodput_bps")[steady].mean(axis=0)
    assert shares.sum() ** 2 / (2 * (shares**2).sum()) > 0.98
    # Little's law on the port: mean queue = arrival rate x mean wait, over the whole run.
    port = topology.build().neighbourhoods[0].uplink_port
    queue_s = done.records.ports.queue_delay_sum_s[port] * 1500
    assert done.column("uplink_queue_mean_bytes").sum() * 1e-3 == pytest.approx(queue_s, rel=0.01)


@over_transports("dctcp", "newreno")
def test_one_lost_packet_halves_the_window_though_alpha_is_0(simulator: Simulator, transport: str) -> None:
    params = (("alpha_init", 0),) if transport == "dctcp" else ()
    windows, records = lost_packet(simulator, HostStack(transport=transport, params=params))
    before = windows[199, 0]
    after = windows[:, 1] < 2**32 - 1
    assert after.any()
    first = np.argmax(after)
    assert first >= 200
    at_loss = windows[first - 1, 0]
    assert windows[first, 1] == pytest.approx(at_loss / 2, abs=3 * MSS)
    assert windows[first, 0] <= windows[first, 1] + MSS  # no growth beyond ssthresh while repairing
    assert before > 20 * MSS
    assert records.flows.retransmitted_pkts[0] == 1
    assert records.flows.timeouts[0] == 0
    assert records.ports.dropped_pkts.sum() == records.ports.dropped_data_pkts.sum() == 1


def test_a_lost_last_packet_costs_a_timeout(simulator: Simulator) -> None:
    scenario = fixed(
        Dumbbell(pairs=1), flow("s0", "r0", 5 * MSS), transport=Transport(recovery="classic", min_rto_s=7e-3)
    )
    done = run(simulator, scenario, prepare=drops(scenario, left__right=5))
    assert done.records.flows.timeouts.tolist() == [1]
    assert done.records.flows.retransmitted_pkts.tolist() == [1]
    assert 7e-3 < done.fct_s[0] < 8e-3


@over_transports("dctcp", "newreno", "ns3::TcpDctcp", "ns3::TcpBbr", "ns3::TcpWestwoodPlus")
def test_incast_overflows_and_every_flow_finishes(simulator: Simulator, transport: str) -> None:
    senders = 32
    topology = ManyToOne(senders=senders, buffer_bytes=64_000, mark_threshold_bytes=20_000)
    flows = [flow(f"s{i % senders}", "receiver", 30_000, 1e-4 * (i // senders)) for i in range(5 * senders)]
    done = run(simulator, fixed(topology, *flows), transport)
    assert np.isfinite(done.records.flows.finish_s).all()
    assert done.records.ports.dropped_pkts.sum() > 100
    assert done.records.flows.timeouts.sum() > 10
    assert done.column("uplink_dropped_pkts").sum() == done.records.ports.dropped_pkts.sum()
    assert done.records.ports.queue_max_bytes.max() <= 64_000


BULK = fixed(Dumbbell(pairs=1, **NO_MARKS), flow("s0", "r0", 2_000_000))


@pytest.mark.parametrize(
    ("decided", "said"),
    [
        *(({"cwnd_bytes": n}, f"a window of {n} bytes; allowed are {MSS}") for n in (0, MSS - 1, 2**40 + 1, 2**64 - 1)),
        *(
            (
                {"cwnd_bytes": 14_600, "pacing_bytes_per_s": 2**64 + rate},
                f"a pacing rate of {rate} bytes/s; allowed are 0",
            )
            for rate in (-1, -(2**63), -25_000_000)
        ),
    ],
)
def test_an_absurd_decision_fails_the_run(simulator: Simulator, decided: dict[str, int], said: str) -> None:
    with Window(simulator, BULK, **decided, after_acks=20) as window:
        with pytest.raises(DatapathError, match=f"test_window returned {said}"):
            window.run(50)
        with pytest.raises(DatapathError, match="test_window"):
            window.run(1)


def test_the_controller_paces(simulator: Simulator) -> None:
    with Window(simulator, BULK, cwnd_bytes=400_000, pacing_bytes_per_s=25_000_000) as window:
        goodput = window.run(40)
    assert np.mean(goodput[5:]) == pytest.approx(200e6, rel=0.02)


# A packet in about 15 ms, three retransmission timeouts; the second rate sends each just before the third one is over.
@pytest.mark.parametrize("pacing_bytes_per_s", [100_000, 97_270])
def test_slow_pacing_is_not_taken_for_a_loss(simulator: Simulator, pacing_bytes_per_s: int) -> None:
    with Window(simulator, BULK, cwnd_bytes=14_600, pacing_bytes_per_s=pacing_bytes_per_s) as window:
        window.run(200)
        flows = window.datapath.finish().flows
    assert flows.sent_pkts[0] == pytest.approx(0.2 * pacing_bytes_per_s / MSS, abs=2)
    assert flows.timeouts[0] == 0


def test_delayed_acks_follow_the_scenario(simulator: Simulator) -> None:
    def acks(delayed_ack_pkts: int) -> int:
        transport = Transport(recovery="classic", delayed_ack_pkts=delayed_ack_pkts)
        scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", 100 * MSS), transport=transport)
        return int(run(simulator, scenario).records.ports.tx_pkts[scenario.network().port("r0->right")])

    assert acks(1) == 101  # SYN-ACK and one per packet
    assert 50 <= acks(2) <= 58
    assert 10 <= acks(14) <= 30


def test_the_initial_window_follows_the_scenario(simulator: Simulator) -> None:
    def fct_s(initial_window_pkts: int) -> float:
        transport = Transport(recovery="classic", initial_window_pkts=initial_window_pkts)
        return float(run(simulator, fixed(Dumbbell(pairs=1), flow("s0", "r0", 4 * MSS), transport=transport)).fct_s[0])

    # One packet, then two, then one: two round trips more than four packets at once, less their transmissions.
    round_trip_s = one_way_s(1500) + one_way_s(ACK_BYTES)
    assert fct_s(1) > fct_s(4) + 2 * round_trip_s - 4 * 1538 * 8e-9


@pytest.mark.parametrize("size_pkts", [1, 10])
@pytest.mark.parametrize(
    "transport", [Transport(recovery="classic", handshake=False), Transport(recovery="classic", connections_per_pair=1)]
)
def test_without_a_handshake_data_leaves_when_the_flow_arrives(
    simulator: Simulator, transport: Transport, size_pkts: int
) -> None:
    """Or on a connection that is open from the start."""
    scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", MSS * size_pkts, 1e-4), transport=transport)
    done = run(simulator, scenario)
    assert done.fct_s[0] == pytest.approx((size_pkts - 1) * 1538 * 8e-9 + one_way_s(1500), abs=3e-9)
    port = scenario.network().port("s0->left")
    assert done.records.ports.tx_pkts[port] == size_pkts  # no SYN, no ACK of a SYN-ACK
