# SPDX-License-Identifier: BSD-3-Clause
"""CUBIC by hand (RFC 9438, RFC 9406). One packet is 1000 bytes."""

import numpy as np
import pytest
from hypothesis import given

from ncc.baselines import _baselines
from ncc.baselines._baselines import APP_LIMITED, ECE, IN_RECOVERY
from ncc.baselines.registry import connect
from tests.baselines.test_properties import SEEDS, connection_of, drive, story_of

PKT = 1000
S = 10**9
C, BETA = 0.4, 0.7
FAR = 10**12


def cubic(cwnd_pkts: int, **params: int) -> _baselines.Connection:
    return connect("cubic", PKT, cwnd_pkts * PKT, params)


def after_loss(w_max_pkts: int, **params: int) -> _baselines.Connection:
    """At 0.7 W_max, with all that was sent before the reduction acknowledged."""
    cc = cubic(w_max_pkts, **params)
    cc.on_loss(una_bytes=0, nxt_bytes=w_max_pkts * PKT)
    return cc


def ack(cc: _baselines.Connection, now_s: float, acked: int = PKT, rtt_s: float = 0.1, flags: int = 0) -> float:
    """The window in packets after an ACK."""
    event = {"now_ns": round(now_s * S), "srtt_ns": round(rtt_s * S), "una_bytes": FAR, "nxt_bytes": 2 * FAR}
    return cc.on_ack(acked_bytes=acked, delivered_bytes=acked, flags=flags, **event)[0] / PKT


def test_a_loss_leaves_seven_tenths() -> None:
    cc = cubic(1000)
    assert cc.on_loss(una_bytes=0, nxt_bytes=1_000_000) == (700_000, 700_000, 0)
    assert cubic(1000, beta_permille=500).on_loss(una_bytes=0, nxt_bytes=10**6)[0] == 500_000
    assert cubic(2).on_loss(una_bytes=0, nxt_bytes=2000)[0] == 2000  # at least 2 packets


@pytest.mark.parametrize(("w_max", "k_s"), [(100, 4.2172), (1000, 9.0856), (100_000, 42.172)])
def test_the_plateau_is_reached_after_k(w_max: int, k_s: float) -> None:
    """Figure 2: K = cbrt(0.3 W_max / 0.4); the window equals W_max there, and is an odd function of t - K around it."""
    assert k_s == pytest.approx(np.cbrt(0.3 * w_max / C), rel=1e-4)
    cc = after_loss(w_max)
    assert ack(cc, 10.0, rtt_s=0) == pytest.approx(0.7 * w_max, rel=1e-4)  # t = 0
    for share in (0.25, 0.5, 1.0, 1.5, 1.9):
        curve = C * (share * k_s - k_s) ** 3 + w_max
        for step in (-2, -1, 0):  # a window of data each: enough to get there, too little for W_est
            ack(cc, 10 + share * k_s + step * 1e-4, acked=10**9, rtt_s=0)
        assert cc.out[0] / PKT == pytest.approx(curve, rel=0.005)


def test_one_ack_moves_the_window_by_its_share_of_the_way() -> None:
    """Section 4.4: (target - cwnd) / cwnd per packet, target = W_cubic(t + RTT)."""
    cc = after_loss(1000)
    k_s = np.cbrt(300 / C)
    target = C * (0.1 - k_s) ** 3 + 1000  # t = 0
    assert target == pytest.approx(709.79, abs=0.01)
    assert ack(cc, 5.0) == pytest.approx(700 + (target - 700) / 700, abs=2e-3)
    before = cc.out[0] / PKT
    target = C * (0.3 - k_s) ** 3 + 1000
    assert ack(cc, 5.2, acked=3 * PKT) == pytest.approx(before + 3 * (target - before) / before, abs=2e-3)


def test_the_target_is_half_a_window_away_at_most() -> None:
    cc = after_loss(10)  # 7 packets
    ack(cc, 1.0)
    cwnd = cc.out[0]
    assert ack(cc, 1000.0) * PKT == pytest.approx(cwnd + PKT / 2, abs=2)  # a packet of it: half a packet
    assert ack(cc, 1000.0, acked=10**9) <= 1.5 * (cwnd / PKT + 0.5) + 1e-3


def test_reno_s_window_is_kept_up_with() -> None:
    """Section 4.3: at short RTTs W_est rises by 9/17 of a packet per window, and by one from cwnd_prior on."""
    cc = after_loss(20)  # 14 packets; K = 2.47 s, so that the cubic stands still meanwhile
    now, windows = 1.0, []
    for _ in range(4000):
        now += 1e-6
        windows.append(ack(cc, now, rtt_s=1e-5))
    jumps = np.flatnonzero(np.diff(windows) > 0.5) + 1
    needs = [int(np.ceil(n * 17 / 9)) if n < 20 else n for n in range(14, 40)]
    assert windows[jumps[0]] == pytest.approx(15, abs=0.01)
    gaps = np.diff(jumps)[:20]
    assert gaps == pytest.approx(np.array(needs[1:21]), abs=1.5)


def test_fast_convergence() -> None:
    """Section 4.7: below W_max at a loss, W_max = 0.85 cwnd, so that the next stage is flatter."""
    for fast, w_max in ((1, 0.85 * 700), (0, 700)):
        cc = after_loss(1000, fast_convergence=fast)
        cc.on_loss(una_bytes=FAR, nxt_bytes=2 * FAR)
        assert cc.out[0] == 490_000
        k_s = np.cbrt((w_max - 490) / C)
        cc.on_ack(now_ns=S, una_bytes=3 * FAR, nxt_bytes=4 * FAR, acked_bytes=PKT, delivered_bytes=PKT)
        for _ in range(200):
            cc.on_ack(
                now_ns=round((1 + k_s) * S), una_bytes=3 * FAR, nxt_bytes=4 * FAR, acked_bytes=PKT, delivered_bytes=PKT
            )
        step = (w_max - 490) / 490
        assert 490 < cc.out[0] / PKT < 490 + 201 * step
        for _ in range(3000):
            cc.on_ack(
                now_ns=round((1 + k_s) * S), una_bytes=3 * FAR, nxt_bytes=4 * FAR, acked_bytes=PKT, delivered_bytes=PKT
            )
        assert cc.out[0] / PKT == pytest.approx(w_max, rel=0.01)


def test_time_without_use_of_the_window_does_not_count() -> None:
    """Sections 4.2 and 5.8."""
    cc, other = after_loss(1000), after_loss(1000)
    for one in (cc, other):
        ack(one, 1.0)
        ack(one, 1.1)
    ack(cc, 1.2, flags=APP_LIMITED)  # the last packets of a burst
    assert ack(cc, 50.0, flags=APP_LIMITED) == ack(cc, 51.0, flags=APP_LIMITED)
    ack(cc, 60.0)  # the window is full again
    assert ack(cc, 60.1) < ack(other, 1.2) + 0.05
    assert ack(cc, 60.2) == pytest.approx(ack(other, 1.3), abs=0.1)


def test_an_idle_time_does_not_count() -> None:
    """Section 5.8, before a flow on an open connection."""
    cc, other = after_loss(1000), after_loss(1000)
    for one in (cc, other):
        ack(one, 1.0)
        ack(one, 1.1)
    cc.on_restart(now_ns=round(50 * S))
    assert ack(cc, 50.1) < ack(other, 1.2) + 0.05
    assert ack(cc, 50.2) == pytest.approx(ack(other, 1.3), abs=0.1)


def test_a_mark_reduces_as_a_loss_does_once_per_window() -> None:
    cc = cubic(100)
    echo = {"acked_bytes": PKT, "delivered_bytes": PKT, "flags": ECE}
    assert cc.on_ack(una_bytes=PKT, nxt_bytes=100_000, **echo)[:2] == (70_000, 70_000)
    assert cc.on_ack(una_bytes=50_000, nxt_bytes=120_000, **echo)[0] == 70_000
    assert cc.on_loss(una_bytes=60_000, nxt_bytes=130_000)[0] == 70_000  # of the same window
    assert cc.on_ack(una_bytes=131_000, nxt_bytes=200_000, **echo)[0] == 49_000


def test_a_timeout_starts_over_on_a_plateau() -> None:
    """Section 4.8: one packet, ssthresh 0.7 cwnd; then K = 0 and W_max where avoidance begins."""
    cc = cubic(100)
    assert cc.on_timeout(una_bytes=0, nxt_bytes=100_000) == (1000, 70_000, 0)
    assert cc.on_timeout(una_bytes=0, nxt_bytes=100_000) == (1000, 70_000, 0)  # the same packet again
    for _ in range(69):
        ack(cc, 1.0, flags=IN_RECOVERY)
    assert cc.out[0] == 70_000
    ack(cc, 2.0, rtt_s=0.0)
    assert cc.out[0] / PKT == pytest.approx(70, abs=0.01)
    for _ in range(2000):
        ack(cc, 2.5, rtt_s=0.5)  # t = 0.5, RTT 0.5: the target is 0.4 packets up; W_est is faster
    assert cc.out[0] / PKT > 80


def rounds(cc: _baselines.Connection, rtts_ns: list[int], per_round: int = 10) -> list[int]:
    """Windows at the end of rounds in slow start, with `per_round` samples of each RTT."""
    ends, una = [], 0
    for rtt in rtts_ns:
        for _ in range(per_round):
            una += 100 * PKT
            nxt = una + per_round * 100 * PKT
            cc.on_ack(rtt_ns=rtt, acked_bytes=PKT, delivered_bytes=PKT, una_bytes=una, nxt_bytes=nxt, srtt_ns=rtt)
        ends.append(cc.out[0])
    return ends


MS = 10**6


def test_hystart_slows_down_and_ends_slow_start_without_a_loss() -> None:
    """RFC 9406: a rise by clamp(4 ms, RTT / 8, 16 ms), then a quarter of the growth for five rounds."""
    assert rounds(cubic(10), [50 * MS] * 12)[-1] == 10_000 + 120 * PKT
    steady = [50 * MS, 50 * MS, 50 * MS]
    assert rounds(cubic(10), [*steady, *[56 * MS] * 9])[-1] == 10_000 + 120 * PKT  # 50 / 8 = 6.25 ms
    cc = cubic(10)
    ends = rounds(cc, [*steady, *[57 * MS] * 9])
    assert (np.diff(ends)[3:7] == [2500] * 4).all()
    assert cc.out[1] < 10**9  # ssthresh is set
    assert cc.out[0] < ends[2] + 5 * 10 * PKT
    off = cubic(10, hystart=0)
    assert rounds(off, [*steady, *[57 * MS] * 9])[-1] == 10_000 + 120 * PKT


def test_hystart_resumes_after_jitter() -> None:
    cc = cubic(10)
    ends = rounds(cc, [50 * MS] * 3 + [60 * MS] * 2 + [50 * MS] * 6)
    assert np.diff(ends)[-1] == 10 * PKT
    assert cc.out[1] > 10**9


@given(seed=SEEDS)
def test_an_ack_adds_half_of_what_it_acknowledged_or_catches_up_with_reno(seed: int) -> None:
    """In avoidance: the target is at most 1.5 cwnd; W_est grows by a packet at a time."""
    random = np.random.default_rng(seed)
    mss, window, params = connection_of("cubic", random)
    story = story_of(random, 1 << 40)
    out = drive(connect("cubic", mss, window, params), story.kinds, story.events).astype(np.int64)
    acked, avoidance = story.events[1:, 5].astype(np.int64), out[:-1, 0] >= out[:-1, 1]
    assert (np.diff(out[:, 0]) <= acked // 2 + mss + 1)[avoidance].all()
