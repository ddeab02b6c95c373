# SPDX-License-Identifier: BSD-3-Clause
"""GEMINI by hand (zeng2022 algorithm 1). One packet is 1000 bytes, C is 1 Gbit/s: 125 bytes per us."""

import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from ncc.baselines import _baselines
from ncc.baselines._baselines import ECE
from ncc.baselines.registry import connect
from tests.baselines.test_properties import ACK, LARGE, SEEDS, connection_of, story_of, windows

PKT = 1000
US, MS = 1000, 1_000_000


class Rounds:
    """A connection past slow start, its base RTT known; alpha is 1 where marks come first."""

    def __init__(self, cwnd_pkts: int, base_ns: int, **params: int) -> None:
        self.base_ns, self.una = base_ns, 2 * cwnd_pkts * PKT
        self.cc: _baselines.Connection = connect("gemini", PKT, 2 * cwnd_pkts * PKT, params)
        self.cc.on_loss(una_bytes=0, nxt_bytes=self.una, min_rtt_ns=base_ns)
        assert self.cc.out[0] == cwnd_pkts * PKT

    def ack(self, rtt_ns: int = 0, flags: int = 0, acked: int = PKT) -> int:
        self.una += acked
        return self.cc.on_ack(
            rtt_ns=rtt_ns or self.base_ns,
            min_rtt_ns=self.base_ns,
            srtt_ns=self.base_ns,
            acked_bytes=acked,
            delivered_bytes=acked,
            una_bytes=self.una,
            nxt_bytes=self.una + self.cc.out[0],
            flags=flags,
        )[0]

    def round(self, rtt_ns: int = 0, flags: int = 0) -> int:
        """The window after a window of ACKs."""
        for _ in range(self.cc.out[0] // PKT):
            self.ack(rtt_ns, flags)
        return self.cc.out[0]

    def to_window_end(self, rtt_ns: int) -> int:
        """The window when the next ACK ends the observation window."""
        while self.una + PKT < struct.unpack_from("=Q", self.cc.state, 48)[0]:
            self.ack(rtt_ns)
        return self.cc.out[0]


def alpha_frac(cc: _baselines.Connection) -> float:
    return float(struct.unpack_from("=I", cc.state, 72)[0] / (1 << 20))  # DCTCP's state comes first


@pytest.mark.parametrize(
    ("base_ns", "params", "cut"),
    [
        # K = 50,000 bytes: C x RTT = 350,000 is seven of them, F = 1/2 as DCTCP has it.
        (2800 * US, {}, 1 / 2),
        # 10 ms: 1,250,000 bytes, F = 200 / 1300.
        (10 * MS, {}, 2 / 13),
        # K = 320 packets: 1280 / 1570; more than a half of the window is never taken.
        (10 * MS, {"k_pkts_per_gbps": 320}, 0.5),
        # 200 us: 25,000 bytes, F = 200 / 75, beyond 1.
        (200 * US, {}, 0.5),
        (200 * US, {"max_cut_permille": 900}, 0.9),
    ],
)
def test_the_cut_by_ecn_is_alpha_times_f(base_ns: int, params: dict[str, int], cut: float) -> None:
    gemini = Rounds(1000, base_ns, **params)
    assert gemini.ack(flags=ECE) == pytest.approx(1_000_000 * (1 - cut), abs=2)
    assert alpha_frac(gemini.cc) == 1


def test_capacity_moves_k_and_the_product_alike() -> None:
    """10 Gbit/s and 1 ms: F = 4 x 500 / (1250 + 500) = 8/7, times alpha = 1/4."""
    gemini = Rounds(1000, MS, capacity_mbps=10_000, alpha_init=256, g_shift=10)
    gemini.ack(flags=ECE)
    assert gemini.cc.out[0] == pytest.approx(1_000_000 * (1 - alpha_frac(gemini.cc) * 8 / 7), abs=3)
    assert alpha_frac(gemini.cc) == pytest.approx(0.25, abs=0.001)


@pytest.mark.parametrize(
    ("base_ns", "h"),
    [(8 * MS, 0.96), (200 * US, 0.1), (20 * MS, 2.4), (100 * MS, 5.0)],  # 1.2e-7 x 1e9 x RTT in [0.1, 5]
)
def test_a_round_without_congestion_adds_h_packets(base_ns: int, h: float) -> None:
    gemini = Rounds(500, base_ns)
    gemini.round()
    gemini.round()  # what the loss made rest is over
    before = gemini.cc.out[0]
    pkts = before // PKT
    for _ in range(pkts):
        gemini.ack()
    # h / cwnd per packet, while cwnd grows: between h / (cwnd + h) and h / cwnd of the packets acknowledged.
    assert h * PKT * pkts * PKT / (before + h * PKT) - 2 <= gemini.cc.out[0] - before <= h * PKT + 2


@pytest.mark.parametrize(("srtt_ns", "h"), [(8 * MS, 0.96), (20 * MS, 2.4), (200 * US, 0.1)])
def test_growth_may_go_by_the_smoothed_rtt(srtt_ns: int, h: float) -> None:
    """RTT_base is 8 ms in each; one ACK of 1000 bytes onto 500 packets is h x 1000 / 500 bytes."""
    cc = connect("gemini", PKT, 1000 * PKT, {"growth_srtt": 1})
    cc.on_loss(una_bytes=0, nxt_bytes=1, min_rtt_ns=8 * MS)
    event = {"min_rtt_ns": 8 * MS, "srtt_ns": srtt_ns, "acked_bytes": PKT, "delivered_bytes": PKT}
    for i in range(500):
        cc.on_ack(**event, una_bytes=2 + i * PKT, nxt_bytes=2 + (i + 500) * PKT)
    assert cc.out[0] - 500 * PKT == pytest.approx(h * PKT, rel=0.01)


def test_delay_beyond_the_threshold_takes_beta() -> None:
    """The smallest RTT of a window is 5 ms above the base, and a little: at its end 0.8 of the window."""
    gemini = Rounds(100, 10 * MS)
    gemini.round()
    before = gemini.round()
    seen = [before]
    while seen[-1] >= before and len(seen) < 400:
        seen.append(gemini.ack(15 * MS + US))
    assert seen[-1] == pytest.approx(0.8 * seen[-2], abs=2)
    assert gemini.cc.out[1] == seen[-1]  # no slow start from here


@pytest.mark.parametrize("rtt_ns", [15 * MS, 12 * MS])
def test_delay_up_to_the_threshold_is_nothing(rtt_ns: int) -> None:
    gemini = Rounds(100, 10 * MS)
    windows = [gemini.round(rtt_ns) for _ in range(6)]
    assert windows == sorted(windows)
    assert windows[-1] > windows[0]


def test_one_packet_without_delay_clears_a_window() -> None:
    gemini = Rounds(100, 10 * MS)
    gemini.round()
    gemini.round()
    before = gemini.cc.out[0]
    for _ in range(8):  # one in fifty passes quickly
        for i in range(50):
            gemini.ack(10 * MS if i == 25 else 30 * MS)
    assert gemini.cc.out[0] > before


def test_delay_is_answered_once_and_judged_anew() -> None:
    """A cut shows in the RTT after one more: what was sent before it does not cut again."""
    gemini = Rounds(100, 10 * MS)
    gemini.round()
    gemini.round()
    cuts, windows = [], [gemini.cc.out[0]]
    for i in range(2000):
        windows.append(gemini.ack(20 * MS))
        if windows[-1] < windows[-2]:
            cuts.append((i, windows[-2]))
    assert len(cuts) > 3
    for (i, cwnd), (j, _) in pairwise(cuts):
        # The rest of that window, and one that is its own.
        assert j - i >= cwnd // PKT + 0.8 * cwnd // PKT - 2


def test_the_heavier_of_both_signals_counts() -> None:
    """alpha F = 1 x 2/13 is less than beta = 0.2; with beta = 0.1 it is more."""
    for beta, kept in ((200, 0.8), (100, 11 / 13)):
        gemini = Rounds(100, 10 * MS, beta_permille=beta, g_shift=10)
        gemini.round()
        gemini.round()
        gemini.to_window_end(10 * MS)
        gemini.ack(10 * MS)  # of the window that it ends
        before = gemini.to_window_end(30 * MS)
        after = gemini.ack(30 * MS, ECE)
        assert after / before == pytest.approx(kept, abs=0.002)


def test_slow_start_doubles_and_delay_ends_it() -> None:
    gemini = connect("gemini", PKT, 10 * PKT)
    una = 0
    for _ in range(30):
        una += PKT
        event = {"rtt_ns": 10 * MS, "min_rtt_ns": 10 * MS, "acked_bytes": PKT, "delivered_bytes": PKT}
        gemini.on_ack(**event, una_bytes=una, nxt_bytes=una + gemini.out[0])
    assert gemini.out[0] == 40 * PKT
    windows = [gemini.out[0]]
    while windows[-1] >= windows[0] and len(windows) < 300:
        una += PKT
        event = {"rtt_ns": 20 * MS, "min_rtt_ns": 10 * MS, "acked_bytes": PKT, "delivered_bytes": PKT}
        windows.append(gemini.on_ack(**event, una_bytes=una, nxt_bytes=una + windows[-1])[0])
        if gemini.out[1] < 10**9:
            break
    assert gemini.out[:2] == pytest.approx((0.8 * windows[-2],) * 2, abs=2)


def test_the_window_is_paced_over_the_smoothed_rtt() -> None:
    """cwnd / srtt x 1.2, and x 2 while the window is below half of ssthresh; at once before there is an RTT."""
    cc = connect("gemini", PKT, 10 * PKT)
    assert cc.out == (10 * PKT, _baselines.CWND_MAX_BYTES, 0)
    event = {"rtt_ns": 10 * MS, "min_rtt_ns": 10 * MS, "srtt_ns": 10 * MS}
    cwnd, _, pace = cc.on_ack(**event, acked_bytes=PKT, delivered_bytes=PKT, una_bytes=PKT, nxt_bytes=12 * PKT)
    assert cwnd == 11 * PKT
    assert pace == pytest.approx(2 * 11 * PKT * 100, rel=1e-3)
    gemini = Rounds(100, 10 * MS)
    gemini.ack()
    assert gemini.cc.out[2] == pytest.approx(1.2 * 100 * PKT * 100, rel=1e-3)
    fast = Rounds(100, 10 * MS, pacing_ca_pct=300)
    fast.ack()
    assert fast.cc.out[2] == pytest.approx(3 * 100 * PKT * 100, rel=1e-3)


@given(seed=SEEDS)
def test_it_reduces_by_no_more_than_it_may(seed: int) -> None:
    random = np.random.default_rng(seed)
    mss, window, params = connection_of("gemini", random)
    cwnd = windows(connect("gemini", mss, window, params), story := story_of(random))
    reduced = np.flatnonzero((np.diff(cwnd) < 0) & (story.kinds == ACK))
    most = max(params["beta_permille"], params["max_cut_permille"]) / 1000
    assert (cwnd[reduced + 1] >= np.floor(cwnd[reduced] * (1 - most))).all()


@given(seed=SEEDS)
def test_no_ack_adds_more_than_its_share(seed: int) -> None:
    """In avoidance h <= 5 packets per window acknowledged; in slow start abc_limit_pkts."""
    random = np.random.default_rng(seed)
    mss, window, params = connection_of("gemini", random)
    cc = connect("gemini", mss, window, params)
    cwnd = windows(cc, story_of(random, LARGE))
    assert np.diff(cwnd).max() <= (5 + params["abc_limit_pkts"]) * mss + 1
    assert 0 <= alpha_frac(cc) <= 1
