# SPDX-License-Identifier: BSD-3-Clause
"""DCTCP by hand (RFC 8257 section 3.3). One packet is 1000 bytes; alpha is read from the state, in 2^-20."""

import struct

from ncc.baselines import _baselines
from ncc.baselines._baselines import ECE, IN_RECOVERY
from ncc.baselines.registry import connect

PKT = 1000
ONE = 1 << 20


def dctcp(cwnd_pkts: int, **params: int) -> _baselines.Connection:
    return connect("dctcp", PKT, cwnd_pkts * PKT, params)


def alpha(cc: _baselines.Connection) -> int:
    value: int = struct.unpack_from("=I", cc.state, 72)[0]  # after the Reno window (48) and three counters (24)
    return value


def ack(cc: _baselines.Connection, una: int, nxt: int, acked: int = PKT, flags: int = 0) -> int:
    """The window after an ACK."""
    return cc.on_ack(acked_bytes=acked, delivered_bytes=acked, una_bytes=una, nxt_bytes=nxt, flags=flags)[0]


def test_alpha_is_the_moving_average_of_the_marked_fraction() -> None:
    cc = dctcp(4)
    # The first window ends with the first ACK (WindowEnd starts at una). F = 0: alpha = 15/16.
    ack(cc, 1000, 5000)
    assert alpha(cc) == ONE * 15 // 16
    # The next ends when una reaches 5000; 1 of its 4 packets is marked. alpha = 15/16 x 15/16 + 1/16 x 1/4.
    ack(cc, 2000, 6000)
    ack(cc, 3000, 7000, flags=ECE)
    ack(cc, 4000, 7000)
    assert alpha(cc) == ONE * 15 // 16
    ack(cc, 5000, 7000)
    assert alpha(cc) == ONE * 225 // 256 + ONE // 64


def test_the_window_shrinks_by_half_of_alpha() -> None:
    # alpha = 1/4, F of the first window = 1: alpha = 15/64 + 4/64 = 19/64; 64 packets x (1 - 19/128) = 54.5.
    cc = dctcp(64, alpha_init=256)
    assert ack(cc, 1000, 65_000, flags=ECE) == 54_500
    assert cc.out[1] == 54_500


def test_alpha_without_marks_reaches_zero() -> None:
    cc = dctcp(10)
    seen = [alpha(cc)]
    for window in range(1, 300):
        ack(cc, window * PKT, window * PKT)
        seen.append(alpha(cc))
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == 0


def test_loss_halves_whatever_alpha_is() -> None:
    """RFC 8257 section 3.5; ns-3's own model returns (1 - alpha/2) cwnd here and keeps its window at alpha = 0."""
    cc = dctcp(64, alpha_init=0)
    assert cc.on_loss(una_bytes=0, nxt_bytes=64_000) == (32_000, 32_000, 0)
    assert alpha(cc) == 0


def test_a_loss_halves_also_what_marks_have_shrunk() -> None:
    """Section 3.5 answers a loss as conventional TCP does, however little the marks of that window took."""
    cc = dctcp(64, alpha_init=256)
    assert ack(cc, 1000, 65_000, flags=ECE) == 54_500
    assert cc.on_loss(una_bytes=1000, nxt_bytes=65_000)[:2] == (27_250, 27_250)
    assert cc.on_loss(una_bytes=2000, nxt_bytes=65_000)[:2] == (27_250, 27_250)  # but a loss once per window
    assert ack(cc, 1000, 66_000, flags=ECE) == 27_250


def test_a_timeout_keeps_the_threshold_after_a_loss_and_not_after_a_mark() -> None:
    cc = dctcp(64, alpha_init=256)
    assert ack(cc, 1000, 65_000, flags=ECE) == 54_500
    assert cc.on_timeout(una_bytes=1000, nxt_bytes=65_000) == (1000, 27_250, 0)
    cc = dctcp(64, alpha_init=256)
    cc.on_loss(una_bytes=0, nxt_bytes=64_000)
    assert cc.on_timeout(una_bytes=10_000, nxt_bytes=64_000) == (1000, 32_000, 0)


def test_alpha_keeps_learning_during_recovery() -> None:
    cc = dctcp(64, alpha_init=0)
    cc.on_loss(una_bytes=0, nxt_bytes=64_000)
    assert ack(cc, 1000, 64_000, flags=ECE | IN_RECOVERY) == 32_000
    assert alpha(cc) == ONE // 16


def test_selectively_acknowledged_bytes_count_when_they_arrive() -> None:
    cc = dctcp(10, alpha_init=0)
    ack(cc, 1000, 11_000)
    cc.on_ack(delivered_bytes=4000, una_bytes=1000, nxt_bytes=11_000, flags=ECE)  # past a hole
    cc.on_ack(acked_bytes=10_000, delivered_bytes=6000, una_bytes=11_000, nxt_bytes=11_000)  # the hole is filled
    assert alpha(cc) == (4 * ONE // 10) >> 4
