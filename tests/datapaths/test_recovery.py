# SPDX-License-Identifier: BSD-3-Clause
"""Loss recovery by the scenario's settings, and one packet lost or marked at a chosen place."""

import numpy as np
import pytest

from ncc.core.scenario import Transport
from ncc.core.topologies import Dumbbell
from tests.datapaths.runs import MSS, Run, Simulator, Window, drops, engine, fixed, flow, run

UNMARKED = Dumbbell(pairs=1, mark_threshold_bytes=0)
ROUND_TRIP_S = 3 * (2 * 10e-6 + (1538 + 78) * 8e-9)


def lossy(simulator: Simulator, size_pkts: int, transport: Transport, **nth: int) -> Run:
    scenario = fixed(UNMARKED, flow("s0", "r0", size_pkts * MSS), transport=transport)
    return run(simulator, scenario, "newreno", prepare=drops(scenario, **nth))


@pytest.mark.parametrize("sack", [True, False])
def test_one_loss_costs_one_repair_and_no_timeout(simulator: Simulator, sack: bool) -> None:
    done = lossy(simulator, 300, Transport(recovery="classic", sack=sack), left__right=100)
    assert done.records.flows.retransmitted_pkts.tolist() == [1]
    assert done.records.flows.timeouts.tolist() == [0]
    assert done.records.flows.sent_pkts.tolist() == [301]


def test_two_losses_in_a_window_take_a_round_trip_each_without_sack(simulator: Simulator) -> None:
    # Packet 10 of the first flight and the 11th to pass the first port: NewReno learns of the second by the partial
    # ACK that repairing the first brings (RFC 6582 section 3.2 step 5), SACK repairs both at once.
    both = [
        lossy(
            simulator, 24, Transport(recovery="classic", sack=sack, initial_window_pkts=24), left__right=5, right__r0=8
        )
        for sack in (True, False)
    ]
    for done in both:
        assert done.records.flows.retransmitted_pkts.tolist() == [2]
        assert done.records.flows.timeouts.tolist() == [0]
    more_s = both[1].fct_s[0] - both[0].fct_s[0]
    assert 0.5 * ROUND_TRIP_S < more_s < 2 * ROUND_TRIP_S


def test_short_windows_are_repaired_by_limited_transmit(simulator: Simulator) -> None:
    # A window of three packets that loses its first: two duplicate ACKs, and the third comes only of a new segment.
    # (With SACK what arrived is no longer in flight, so new segments go anyway: RFC 6675 section 5 (3).)
    scenario = fixed(UNMARKED, flow("s0", "r0", 60 * MSS))
    timeouts = {}
    for limited in (True, False):
        what = scenario.replace(transport=Transport(recovery="classic", sack=False, limited_transmit=limited))
        with Window(simulator, what, cwnd_bytes=3 * MSS, after_acks=0) as window:
            engine(window.datapath).plan_fault(what.network().port("left->right"), 31, drop=True)
            window.run(40)
            records = window.datapath.finish().flows
        assert np.isfinite(records.finish_s).all()
        timeouts[limited] = int(records.timeouts[0])
    assert timeouts == {True: 0, False: 1}


@pytest.mark.parametrize("sack", [True, False])
def test_as_many_duplicate_acks_as_the_scenario_says_mean_a_loss(simulator: Simulator, sack: bool) -> None:
    # 40 packets in flight at once; the one lost is followed by 30 more, so by 30 duplicate ACKs.
    def recovered(dup_ack_pkts: int) -> Run:
        transport = Transport(recovery="classic", dup_ack_pkts=dup_ack_pkts, initial_window_pkts=40, sack=sack)
        return lossy(simulator, 40, transport, left__right=10)

    few, many, never = recovered(3), recovered(20), recovered(31)
    assert [int(done.records.flows.timeouts[0]) for done in (few, many, never)] == [0, 0, 1]
    # The 20th duplicate comes 17 transmissions after the 3rd.
    assert many.fct_s[0] - few.fct_s[0] <= 17 * 1538 * 8e-9 + 1e-9
    assert never.fct_s[0] > 5e-3
