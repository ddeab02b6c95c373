# SPDX-License-Identifier: BSD-3-Clause
"""NewReno by hand. One packet is 1000 bytes."""

from collections.abc import Callable
from typing import Any

import pytest

from ncc.baselines._baselines import APP_LIMITED, CWND_MAX_BYTES, ECE, IN_RECOVERY, Connection
from ncc.baselines.registry import connect
from tests.support.tables import table

PKT = 1000
FAR = 10**6
Step = Callable[[Connection], None]


def reno(cwnd_pkts: int, **params: int) -> Connection:
    return connect("newreno", PKT, cwnd_pkts * PKT, params)


def ack(acked: int, cwnd: int, una: int = FAR, flags: int = 0, nxt: int = 0) -> Step:
    """An ACK of `acked` bytes that ends at `una` leaves the window `cwnd`; by default a megabyte is in flight."""

    def step(cc: Connection) -> None:
        event = {"acked_bytes": acked, "delivered_bytes": acked, "una_bytes": una, "nxt_bytes": nxt or una + FAR}
        assert cc.on_ack(**event, flags=flags)[0] == cwnd

    return step


def loss(una: int, nxt: int, cwnd: int) -> Step:
    """A loss leaves window and threshold at `cwnd`."""
    return lambda cc: _same(cc.on_loss(una_bytes=una, nxt_bytes=nxt), (cwnd, cwnd, 0))


def timeout(una: int, nxt: int, ssthresh: int) -> Step:
    """A timeout leaves a window of one packet and the threshold at `ssthresh`."""
    return lambda cc: _same(cc.on_timeout(una_bytes=una, nxt_bytes=nxt), (PKT, ssthresh, 0))


def mark(una: int, nxt: int, cwnd: int) -> Step:
    """An ACK of a packet with an echo of congestion."""
    return ack(PKT, cwnd, una, ECE, nxt)


def repairs(first: int, last: int) -> Step:
    """An ACK a packet in slow start from one packet on, up to a window of `last` packets."""

    def step(cc: Connection) -> None:
        for i in range(last - 1):
            ack(PKT, (2 + i) * PKT, first + i * PKT, IN_RECOVERY)(cc)

    return step


def _same(got: tuple[int, int, int], wanted: tuple[int, int, int]) -> None:
    assert got == wanted


FLAGS = {"recovery": IN_RECOVERY, "ece": ECE, "recovery|ece": IN_RECOVERY | ECE, "limited": APP_LIMITED, "none": 0}
STEPS: dict[str, Callable[..., Step]] = {"ack": ack, "loss": loss, "timeout": timeout, "mark": mark, "repairs": repairs}
STORIES: dict[str, list[Any]] = table(__file__, "newreno.yaml")


@pytest.mark.parametrize("title", STORIES)
def test_by_hand(title: str) -> None:
    cwnd_pkts, *steps = STORIES[title]
    cc = reno(cwnd_pkts)
    assert cc.out == (cwnd_pkts * PKT, CWND_MAX_BYTES, 0)
    for kind, *values in steps:
        STEPS[kind](*(FLAGS.get(value, value) for value in values))(cc)


def test_slow_start_s_limit_is_a_parameter() -> None:
    ack(5000, 11_000)(reno(10, abc_limit_pkts=1))  # RFC 5681: min(N, SMSS)


def test_the_window_stops_at_its_ceiling() -> None:
    mss = 2**32 - 1
    cc = connect("newreno", mss, mss, {"abc_limit_pkts": 65535})
    cwnd = mss
    for _ in range(20):
        cwnd = cc.on_ack(acked_bytes=cwnd, una_bytes=1, nxt_bytes=2)[0]
    assert cwnd == CWND_MAX_BYTES
