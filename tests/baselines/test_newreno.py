# SPDX-License-Identifier: BSD-3-Clause
"""NewReno by hand. One packet is 1000 bytes."""

import pytest

from ncc.baselines import _baselines
from ncc.baselines._baselines import APP_LIMITED, CWND_MAX_BYTES, ECE, IN_RECOVERY
from ncc.baselines.registry import connect

PKT = 1000


def reno(cwnd_pkts: int, **params: int) -> _baselines.Connection:
    return connect("newreno", PKT, cwnd_pkts * PKT, params)


def in_avoidance(cwnd_pkts: int) -> _baselines.Connection:
    """At `cwnd_pkts` = ssthresh, with una = 1 past everything that was sent before the halving."""
    cc = reno(2 * cwnd_pkts)
    cc.on_loss(una_bytes=0, nxt_bytes=2 * cwnd_pkts * PKT)
    assert cc.out == (cwnd_pkts * PKT, cwnd_pkts * PKT, 0)
    return cc


def ack(cc: _baselines.Connection, acked: int, una: int = 10**6, flags: int = 0) -> int:
    """The window after an ACK of `acked` bytes that ends at `una`."""
    return cc.on_ack(acked_bytes=acked, delivered_bytes=acked, una_bytes=una, nxt_bytes=una + 10**6, flags=flags)[0]


def test_starts_at_the_initial_window_without_threshold() -> None:
    assert reno(10).out == (10 * PKT, CWND_MAX_BYTES, 0)


def test_slow_start_adds_what_was_acknowledged_up_to_two_packets() -> None:
    cc = reno(10)
    assert ack(cc, 700) == 10_700
    assert ack(cc, 2000) == 12_700
    assert ack(cc, 5000) == 14_700  # L = 2
    assert ack(reno(10, abc_limit_pkts=1), 5000) == 11_000  # RFC 5681: min(N, SMSS)


def test_avoidance_adds_one_packet_per_window_and_loses_no_byte() -> None:
    cc = in_avoidance(4)
    # 1500 x 3 = 4500 >= 4000: 5000, 500 left. 1500 x 3 + 500 = 5000 >= 5000: 6000, 0 left.
    assert [ack(cc, 1500) for _ in range(6)] == [4000, 4000, 5000, 5000, 5000, 6000]


def test_what_slow_start_does_not_need_counts_for_avoidance() -> None:
    cc = reno(4)
    cc.on_timeout(una_bytes=0, nxt_bytes=4000)  # ssthresh 2000, cwnd 1000
    assert cc.out[:2] == (1000, 2000)
    ack(cc, 500)  # 1500
    assert ack(cc, 1000) == 2000  # 500 of it to the threshold, 500 credit
    assert ack(cc, 1000) == 2000  # credit 1500
    assert ack(cc, 500) == 3000


def test_loss_halves_at_once_and_the_window_rests_until_newer_data_is_acknowledged() -> None:
    cc = reno(10)
    assert cc.on_loss(una_bytes=5000, nxt_bytes=15_000) == (5000, 5000, 0)
    assert ack(cc, 2000, una=7000, flags=IN_RECOVERY) == 5000
    assert ack(cc, 8000, una=15_000) == 5000  # the last of the window that had the loss
    assert ack(cc, 5000, una=20_000) == 6000


def test_recovery_holds_the_window_even_past_the_mark() -> None:
    cc = reno(10)
    cc.on_loss(una_bytes=0, nxt_bytes=10_000)
    assert ack(cc, 5000, una=20_000, flags=IN_RECOVERY) == 5000


def test_the_threshold_is_two_packets_at_least() -> None:
    cc = reno(3)
    assert cc.on_loss(una_bytes=0, nxt_bytes=3000) == (2000, 2000, 0)
    cc.on_timeout(una_bytes=0, nxt_bytes=3000)
    # ECN at one packet must not lift the window to the threshold's minimum.
    assert ack(cc, 1000, una=4000, flags=ECE) == 1000


def test_timeout_halves_the_threshold_and_restarts_from_one_packet() -> None:
    cc = reno(16)
    assert cc.on_timeout(una_bytes=4000, nxt_bytes=20_000) == (1000, 8000, 0)
    # Repairs count, one packet per ACK (RFC 3465 section 2.3: L = 1 after a timeout).
    assert ack(cc, 3000, una=7000, flags=IN_RECOVERY) == 2000
    assert ack(cc, 3000, una=10_000, flags=IN_RECOVERY) == 3000
    assert ack(cc, 2000, una=21_000) == 5000


def test_the_same_packet_timing_out_again_leaves_the_threshold() -> None:
    cc = reno(16)
    cc.on_timeout(una_bytes=4000, nxt_bytes=20_000)
    assert cc.on_timeout(una_bytes=4000, nxt_bytes=20_000) == (1000, 8000, 0)
    ack(cc, 1000, una=5000, flags=IN_RECOVERY)
    assert cc.on_timeout(una_bytes=5000, nxt_bytes=20_000) == (
        1000,
        2000,
        0,
    )  # another packet: max(2000 / 2, 2 packets)


def test_ecn_echo_halves_once_per_window() -> None:
    cc = reno(8)
    echo = {"acked_bytes": 1000, "delivered_bytes": 1000, "flags": ECE}
    assert cc.on_ack(una_bytes=1000, nxt_bytes=9000, **echo)[:2] == (4000, 4000)
    # The receiver repeats ECE until it sees CWR: una up to 9000 is the same window.
    assert cc.on_ack(una_bytes=5000, nxt_bytes=9000, **echo)[0] == 4000
    assert cc.on_ack(una_bytes=9000, nxt_bytes=12_000, **echo)[0] == 4000
    assert cc.on_ack(una_bytes=10_000, nxt_bytes=12_000, **echo)[0] == 2000


@pytest.mark.parametrize("flags", [IN_RECOVERY, IN_RECOVERY | ECE])
def test_ecn_does_not_shrink_what_a_loss_already_shrank(flags: int) -> None:
    cc = reno(8)
    cc.on_loss(una_bytes=0, nxt_bytes=8000)
    assert ack(cc, 1000, una=1000, flags=flags) == 4000
    assert ack(cc, 1000, una=8000, flags=ECE) == 4000


def test_an_unused_window_does_not_grow() -> None:
    cc = reno(10)
    assert ack(cc, 2000, flags=APP_LIMITED) == 10_000
    cc = in_avoidance(4)
    assert [ack(cc, 4000, flags=APP_LIMITED) for _ in range(3)] == [4000] * 3


def test_a_duplicate_ack_does_not_grow_the_window() -> None:
    cc = reno(10)
    assert cc.on_ack(delivered_bytes=1000, una_bytes=0, nxt_bytes=10_000)[0] == 10_000


def test_ecn_during_recovery_is_ignored_even_past_the_mark() -> None:
    cc = reno(10)
    cc.on_loss(una_bytes=0, nxt_bytes=10_000)
    assert ack(cc, 5000, una=20_000, flags=IN_RECOVERY | ECE) == 5000


def test_a_timeout_forgets_what_avoidance_had_saved_up() -> None:
    cc = in_avoidance(4)
    ack(cc, 3900)
    cc.on_timeout(una_bytes=10**6, nxt_bytes=2 * 10**6)
    assert ack(cc, 1000, una=10**6 + 1000, flags=IN_RECOVERY) == 2000  # at the threshold
    assert ack(cc, 1900, una=3 * 10**6) == 2000
    assert ack(cc, 100, una=3 * 10**6) == 3000


def test_one_ack_is_worth_one_window_at_most() -> None:
    cc = in_avoidance(4)
    assert ack(cc, 20_000) == 5000
    assert ack(cc, 4999) == 5000


def test_the_window_stops_at_its_ceiling() -> None:
    mss = 2**32 - 1
    cc = connect("newreno", mss, mss, {"abc_limit_pkts": 65535})
    cwnd = mss
    for _ in range(20):
        cwnd = cc.on_ack(acked_bytes=cwnd, una_bytes=1, nxt_bytes=2)[0]
    assert cwnd == CWND_MAX_BYTES


def test_after_a_timeout_echoes_of_older_marks_neither_grow_nor_shrink() -> None:
    cc = reno(16)
    cc.on_timeout(una_bytes=0, nxt_bytes=20_000)
    assert ack(cc, 1000, una=1000, flags=IN_RECOVERY | ECE) == 1000
    for una in range(2000, 5000, 1000):
        ack(cc, 1000, una=una, flags=IN_RECOVERY)
    assert cc.out[0] == 4000
    assert ack(cc, 1000, una=20_000, flags=ECE) == 4000
    assert ack(cc, 1000, una=21_000, flags=ECE) == 2000


def test_a_loss_after_a_timeout_holds_the_window_again() -> None:
    cc = reno(16)
    cc.on_timeout(una_bytes=0, nxt_bytes=16_000)
    for una in range(1000, 8000, 1000):
        ack(cc, 1000, una=una, flags=IN_RECOVERY)
    assert cc.on_loss(una_bytes=17_000, nxt_bytes=30_000)[0] == 4000
    assert ack(cc, 8000, una=31_000, flags=IN_RECOVERY) == 4000


def test_a_mark_and_a_loss_in_one_window_halve_it_once() -> None:
    cc = reno(100)
    assert cc.on_ack(una_bytes=1000, nxt_bytes=101_000, acked_bytes=1000, flags=ECE)[:2] == (50_000, 50_000)
    # What was lost left before the window was halved; the window rests until what is out by now has arrived.
    assert cc.on_loss(una_bytes=60_000, nxt_bytes=120_000)[:2] == (50_000, 50_000)
    assert ack(cc, 60_000, una=120_000) == 50_000
    assert ack(cc, 50_000, una=170_000) == 51_000


def test_a_loss_of_what_was_sent_after_the_halving_halves_again() -> None:
    cc = reno(100)
    cc.on_ack(una_bytes=1000, nxt_bytes=101_000, acked_bytes=1000, flags=ECE)
    assert cc.on_loss(una_bytes=101_000, nxt_bytes=150_000)[:2] == (25_000, 25_000)
    assert cc.on_loss(una_bytes=150_000, nxt_bytes=175_000)[:2] == (12_500, 12_500)


def test_a_timeout_during_recovery_keeps_the_threshold() -> None:
    cc = reno(100)
    cc.on_loss(una_bytes=0, nxt_bytes=100_000)
    assert ack(cc, 20_000, una=20_000, flags=IN_RECOVERY) == 50_000
    # A retransmission was lost: of the 100 packets in flight the threshold is half already.
    assert cc.on_timeout(una_bytes=20_000, nxt_bytes=110_000) == (1000, 50_000, 0)
    assert cc.on_timeout(una_bytes=20_000, nxt_bytes=110_000) == (1000, 50_000, 0)


def test_a_timeout_after_a_mark_or_both_keeps_the_threshold() -> None:
    for lost in (False, True):
        cc = reno(100)
        cc.on_ack(una_bytes=1000, nxt_bytes=101_000, acked_bytes=1000, flags=ECE)
        if lost:
            cc.on_loss(una_bytes=60_000, nxt_bytes=120_000)
        una = 110_000 if lost else 60_000  # recovery lasts until 120000
        ack(cc, una - 60_000, una=una, flags=IN_RECOVERY if lost else 0)
        assert cc.on_timeout(una_bytes=una, nxt_bytes=120_000) == (1000, 50_000, 0)


def test_a_timeout_of_what_was_sent_after_the_halving_sets_a_new_threshold() -> None:
    cc = reno(100)
    cc.on_loss(una_bytes=0, nxt_bytes=100_000)
    assert cc.on_timeout(una_bytes=100_000, nxt_bytes=150_000) == (1000, 25_000, 0)
    # And a packet further on in slow start, as before: half of the window then.
    for una in range(101_000, 110_000, 1000):
        ack(cc, 1000, una=una, flags=IN_RECOVERY)
    assert cc.on_timeout(una_bytes=110_000, nxt_bytes=150_000) == (1000, 5000, 0)
