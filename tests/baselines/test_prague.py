# SPDX-License-Identifier: BSD-3-Clause
"""Prague, worked by hand."""

from itertools import pairwise
from typing import Any

import pytest

from ncc.baselines._baselines import Connection
from ncc.baselines.registry import connect

MSS, MS = 1000, 1_000_000
ECE = 1


class Flow:
    """A connection of which each ACK delivers a whole window and ends a round trip, if nothing else is said."""

    def __init__(self, srtt_ns: int, pkts: int = 100, **params: int) -> None:
        self.cc: Connection = connect("prague", MSS, pkts * MSS, params)
        self.rtt, self.now, self.una = srtt_ns, 0, 0
        self.window = self.cc.out[0]

    def ack(self, nbytes: int | None = None, *, marked: bool = False, **event: Any) -> int:
        nbytes = self.window if nbytes is None else nbytes
        self.una += nbytes
        self.now += self.rtt * nbytes // self.window
        event = {"nxt_bytes": self.una + self.window, "flags": ECE if marked else 0} | event
        out = self.cc.on_ack(
            acked_bytes=nbytes, delivered_bytes=nbytes, una_bytes=self.una, now_ns=self.now, srtt_ns=self.rtt, **event
        )
        self.window = out[0]
        return self.window

    def avoid(self, rounds: int = 0) -> "Flow":
        """Leave slow start by a mark, whose reaction halves the window, and let some RTTs pass without growth."""
        self.ack(MSS, marked=True)
        for _ in range(rounds):
            self.ack(flags=4)
        return self


def test_the_first_mark_halves_and_ends_slow_start() -> None:
    flow = Flow(10 * MS, 100)
    assert flow.ack(2 * MSS) == 102 * MSS
    assert flow.ack(MSS, marked=True) == 51 * MSS
    assert flow.ack(51 * MSS, nxt_bytes=10**6) == 52 * MSS, "a packet per window, and growth does not pause"


def test_alpha_waits_for_the_first_mark_and_weighs_a_sixteenth() -> None:
    """Without marks it stays 1. After two windows with hardly a mark: 15/16 twice. Then a mark takes half of that."""
    flow = Flow(10 * MS)
    for _ in range(5):
        flow.ack(MSS)
    flow.ack(MSS, marked=True)
    for _ in range(3):  # the window that ends with the second one began before the cut
        flow.ack(flags=4)
    before = flow.window
    assert flow.ack(MSS, marked=True, nxt_bytes=10**7) == pytest.approx(before * (1 - (15 / 16) ** 2 / 2), rel=0.005)


def test_a_window_is_cut_once_and_marked_bytes_do_not_grow_it() -> None:
    flow = Flow(30 * MS).avoid()
    before = flow.window
    assert flow.ack(MSS, marked=True, nxt_bytes=flow.una + MSS) == before
    assert flow.ack(MSS, flags=ECE | 2) == before


def test_pacing_is_the_window_over_the_rtt_and_twice_that_in_slow_start() -> None:
    flow = Flow(10 * MS)
    flow.ack(MSS)
    assert flow.cc.out[2] == 2 * flow.window * 100
    flow.avoid()
    assert flow.cc.out[2] == flow.window * 100


@pytest.mark.parametrize(("rtt_ms", "share"), [(5, 1 / 25), (10, 4 / 25), (25, 1.0), (50, 1.0)])
def test_shorter_rtts_grow_by_their_square_after_a_while(rtt_ms: int, share: float) -> None:
    """After 500 RTTs in congestion avoidance. The rate grows by a packet per 25 ms in each 25 ms then."""
    flow = Flow(rtt_ms * MS).avoid(498)
    before = flow.window
    assert flow.ack() == pytest.approx(before + MSS, abs=1), "not yet"
    flow.ack(flags=4)
    before = flow.window
    assert flow.ack() == pytest.approx(before + share * MSS, abs=1)


def test_parts_of_a_byte_are_kept() -> None:
    flow = Flow(MS, 1000, rounds=0).avoid()
    before = flow.window
    for _ in range(1000):
        flow.ack(MSS, nxt_bytes=10**9)
    # 1000 packets of 500 a window are two windows, each of 1/625 packet
    assert flow.window - before == pytest.approx(2 * MSS / 625, abs=1)


def test_short_rtts_average_and_cut_once_in_25_ms() -> None:
    flow = Flow(5 * MS, rounds=0).avoid()
    other = Flow(5 * MS, rtt_ns=0).avoid()
    seen = [[each.ack(marked=True) for _ in range(11)] for each in (flow, other)]
    cuts = [sum(after < before for before, after in pairwise(windows)) for windows in seen]
    assert cuts[0] == 2
    assert cuts[1] > cuts[0]


def test_a_loss_halves_and_a_timeout_leaves_a_packet() -> None:
    flow = Flow(10 * MS)
    assert flow.cc.on_loss(nxt_bytes=flow.window, now_ns=1, srtt_ns=flow.rtt)[0] == 50 * MSS
    assert flow.cc.on_timeout(nxt_bytes=10**6, now_ns=2, srtt_ns=flow.rtt)[0] == MSS
