# SPDX-License-Identifier: BSD-3-Clause
"""QCN's samples, Annulus' two loops and DCQCN's rate, worked by hand."""

import numpy as np
import pytest

from ncc.baselines._baselines import ECE, QCN, Connection
from ncc.baselines.registry import connect, named
from tests.baselines.ports import Program

MSS = 1000
RTT_NS = 1_000_000
LINE = 1_250_000_000
"""Bytes/s of 10 Gbit/s."""


def congestion_point(**params: int) -> Program:
    values = [params.get(param.name, param.default) for param in named("program of a switch")["qcn"]]
    return Program("qcn", values, size_bytes=1_000_000, mtu_bytes=1500)


def sampled(point: Program, queue_bytes: int, packets: int) -> list[tuple[int, int]]:
    """Packet and value of each signal, with the queue held and the intervals in the middle of what is drawn."""
    found = []
    for packet in range(packets):
        point.enqueue(queue_bytes=queue_bytes, random=1 << 31)
        if point.signal[0] == QCN:
            found.append((packet, point.signal[1]))
    return found


def test_a_held_queue_is_sampled_every_m_bytes() -> None:
    """At twice the target Fb is Qeq + 2 x 2 Qeq, then Qeq; of 5 Qeq that is 63, then 12: M is M0 / 2, 50 packets."""
    point = congestion_point(target_bytes=100_000, sample_bytes=150_000)
    first, second, *rest = sampled(point, 200_000, 1000)
    assert (first[1], second[1]) == (63, 12)
    # After 63 M is an eighth, 12.5 packets of 1500 bytes; after 12 a half, 50.
    assert second[0] - first[0] == 13
    gaps = np.diff([second[0], *(packet for packet, _ in rest)])
    assert {value for _, value in rest} == {12}
    assert gaps.min() >= 49
    assert gaps.max() <= 51


@pytest.mark.parametrize("queue_bytes", [0, 50_000, 100_000])
def test_no_signal_below_the_target(queue_bytes: int) -> None:
    point = congestion_point(target_bytes=100_000, sample_bytes=1500)
    sampled(point, queue_bytes, 5)  # the first samples see the queue rise
    assert sampled(point, queue_bytes, 500) == []


def test_only_senders_near_enough_are_told() -> None:
    near = congestion_point(target_bytes=1500, sample_bytes=1500, max_hops=1)
    for hops, told in ((1, True), (2, False)):
        for _ in range(4):
            near.enqueue(queue_bytes=900_000, hops=hops)
        assert (near.signal[0] == QCN) == told


def sender(**params: int) -> Connection:
    """Annulus over DCTCP with a window of 100 packets in congestion avoidance, so at 100 MB/s."""
    cc = connect("annulus_dctcp", MSS, 200 * MSS, params, line_bytes_per_s=LINE)
    cc.on_loss(nxt_bytes=1)
    acked(cc, 0)
    assert cc.out == (100 * MSS, 100 * MSS, 0)
    return cc


def acked(cc: Connection, nbytes: int, *, ece: bool = False, una: int = 1000) -> tuple[int, int, int]:
    return cc.on_ack(
        srtt_ns=RTT_NS,
        delivered_bytes=nbytes,
        acked_bytes=nbytes,
        una_bytes=una,
        nxt_bytes=una + 10**6,
        flags=ECE if ece else 0,
    )


def test_a_signal_cuts_both_loops() -> None:
    """A feedback of 32 takes a quarter: 75 MB/s, and of the window, too, because it was the higher rate."""
    cc = sender()
    assert cc.on_signal(QCN, 32, srtt_ns=RTT_NS) == (100 * MSS // 128 * 96, 100 * MSS, 0)
    # 75 MB/s less rounding on both sides; the near loop paces where it is the lower one.
    window, _, pacing = cc.on_signal(QCN, 32, srtt_ns=RTT_NS)
    assert pacing == 0 or pacing < window * 1000


def test_loops_left_alone_do_not_follow() -> None:
    cc = sender(uncoordinated=1)
    window, _, pacing = cc.on_signal(QCN, 32, srtt_ns=RTT_NS)
    assert (window, pacing) == (100 * MSS, 100_000_000 // 128 * 96)


def test_recovery_halves_the_way_back_five_times_and_then_goes_beyond() -> None:
    cc = sender(uncoordinated=1, hai_kbps=0)
    rate = cc.on_signal(QCN, 63, srtt_ns=RTT_NS)[2]
    assert rate == 100_000_000 // 128 * 65
    target = 100_000_000
    for _ in range(5):
        rate = (rate + target) // 2
        assert acked(cc, 150_000)[2] == rate
    for _ in range(5):
        target += 5000 * 125
        rate = (rate + target) // 2
        assert acked(cc, 150_000)[2] in (rate, 0), "paced as long as it is below the window's rate"


def test_a_loop_far_above_the_other_does_not_grow() -> None:
    """Signals bring the near loop below half of the window's rate: the window stays."""
    cc = sender(min_kbps=8, cycle_bytes=10**9)
    free = connect("dctcp", MSS, 200 * MSS, {})
    free.on_loss(nxt_bytes=1)
    for _ in range(3):
        cc.on_signal(QCN, 63, srtt_ns=RTT_NS)
    before = cc.out[0]
    # The window has followed, so that it is not far above; a shorter RTT makes it so.
    grown = cc.on_ack(
        srtt_ns=RTT_NS // 4, delivered_bytes=10**6, acked_bytes=10**6, una_bytes=10**6, nxt_bytes=2 * 10**6
    )
    assert grown[0] == before
    assert (
        free.on_ack(srtt_ns=RTT_NS, delivered_bytes=10**6, acked_bytes=10**6, una_bytes=10**6, nxt_bytes=2 * 10**6)[0]
        > before
    )


def test_a_mark_s_cut_of_the_lower_loop_is_the_other_s() -> None:
    cc = sender(alpha_init=1024)
    near = cc.on_signal(QCN, 1, srtt_ns=RTT_NS)  # both at about 99 MB/s
    cut = acked(cc, 1000, ece=True, una=2000)[0]
    assert cut < 0.6 * near[0]
    # An RTT ten times as short makes the window's rate the higher one: what paces now is the near loop, cut as well.
    pacing = cc.on_ack(srtt_ns=RTT_NS // 10, delivered_bytes=0, una_bytes=2000, nxt_bytes=10**6)[2]
    assert pacing == pytest.approx(99.2e6 * cut / near[0], rel=0.01)


def dcqcn(**params: int) -> Connection:
    return connect("dcqcn", MSS, 10 * MSS, params, line_bytes_per_s=LINE)


def test_dcqcn_starts_at_line_rate_and_a_first_cut_halves_it() -> None:
    cc = dcqcn()
    assert cc.out[2] == LINE
    assert cc.on_ack(now_ns=10**6, flags=ECE)[2] == pytest.approx(LINE / 2, rel=1e-6)
    assert cc.timer_ns == 55_000
    # Within 50 us it counts once; then alpha, still 1, halves again.
    assert cc.on_ack(now_ns=10**6 + 49_999, flags=ECE)[2] == pytest.approx(LINE / 2, rel=1e-6)
    assert cc.on_ack(now_ns=10**6 + 50_000, flags=ECE)[2] == pytest.approx(LINE / 4, rel=1e-5)


def test_dcqcn_s_alpha_falls_and_its_rate_comes_back() -> None:
    cc = dcqcn()
    cc.on_ack(now_ns=10**6, flags=ECE)
    rate, now = LINE / 2, 10**6
    for _ in range(5):  # fast recovery: half of the way to the line's rate each time
        now += 55_000
        rate = (rate + LINE) / 2
        assert cc.on_timer(now)[2] == pytest.approx(rate, rel=1e-6)
    now += 10**6
    alpha = (1 - 1 / 256) ** 5
    assert cc.on_ack(now_ns=now, flags=ECE)[2] == pytest.approx(rate * (1 - alpha / 2), rel=1e-4)


def test_dcqcn_counts_bytes_as_well_as_time() -> None:
    cc = dcqcn(count_bytes=100_000)
    cc.on_ack(now_ns=10**6, flags=ECE, nxt_bytes=0)
    assert cc.on_ack(now_ns=10**6 + 1, nxt_bytes=99_999)[2] == pytest.approx(LINE / 2, rel=1e-6)
    assert cc.on_ack(now_ns=10**6 + 2, nxt_bytes=100_000)[2] == pytest.approx(3 * LINE / 4, rel=1e-6)


def test_handlers_that_a_controller_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match="dctcp has no on_signal"):
        connect("dctcp", MSS, MSS).on_signal(QCN, 1)
    with pytest.raises(ValueError, match="newreno has no on_timer"):
        connect("newreno", MSS, MSS).on_timer(0)
