# SPDX-License-Identifier: BSD-3-Clause
"""NewReno by hand. One packet is 1000 bytes."""

from collections.abc import Callable

import pytest

from ncc.baselines._baselines import APP_LIMITED, CWND_MAX_BYTES, ECE, IN_RECOVERY, Connection
from ncc.baselines.registry import connect

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


def repairs(first: int, last: int, flags: int = IN_RECOVERY) -> list[Step]:
    """An ACK a packet in slow start from one packet on, up to a window of `last` packets."""
    return [ack(PKT, (2 + i) * PKT, una=first + i * PKT, flags=flags) for i in range(last - 1)]


def _same(got: tuple[int, int, int], wanted: tuple[int, int, int]) -> None:
    assert got == wanted


AVOIDANCE_4 = [loss(0, 8000, 4000)]
"""A window of 8 packets is at 4 packets = ssthresh after it."""
STORIES: dict[str, tuple[int, list[Step]]] = {
    "slow start adds what was acknowledged, up to two packets": (
        10, [ack(700, 10_700), ack(2000, 12_700), ack(5000, 14_700)],
    ),
    # 1500 x 3 = 4500 >= 4000: 5000, 500 left. 1500 x 3 + 500 = 5000 >= 5000: 6000, 0 left.
    "avoidance adds one packet per window and loses no byte": (
        8, [*AVOIDANCE_4, *(ack(1500, cwnd) for cwnd in (4000, 4000, 5000, 5000, 5000, 6000))],
    ),
    # Of the second ACK 500 bytes go to the threshold and 500 are credit, of the third all 1000.
    "what slow start does not need counts for avoidance": (
        4, [timeout(0, 4000, 2000), ack(500, 1500), ack(1000, 2000), ack(1000, 2000), ack(500, 3000)],
    ),
    "a loss halves at once, and the window rests until newer data is acknowledged": (
        10, [loss(5000, 15_000, 5000), ack(2000, 5000, 7000, IN_RECOVERY), ack(8000, 5000, 15_000),
             ack(5000, 6000, 20_000)],
    ),
    "recovery holds the window even past the mark": (10, [loss(0, 10_000, 5000), ack(5000, 5000, 20_000, IN_RECOVERY)]),
    "ECN during recovery is ignored": (10, [loss(0, 10_000, 5000), ack(5000, 5000, 20_000, IN_RECOVERY | ECE)]),
    # ECN at one packet must not lift the window to the threshold's minimum.
    "the threshold is two packets at least": (3, [loss(0, 3000, 2000), timeout(0, 3000, 2000), mark(4000, FAR, 1000)]),
    # Repairs count, one packet per ACK (RFC 3465 section 2.3: L = 1 after a timeout).
    "a timeout halves the threshold and restarts from one packet": (
        16, [timeout(4000, 20_000, 8000), ack(3000, 2000, 7000, IN_RECOVERY), ack(3000, 3000, 10_000, IN_RECOVERY),
             ack(2000, 5000, 21_000)],
    ),
    # Another packet: max(2000 / 2, 2 packets).
    "the same packet that times out again leaves the threshold": (
        16, [timeout(4000, 20_000, 8000), timeout(4000, 20_000, 8000), ack(1000, 2000, 5000, IN_RECOVERY),
             timeout(5000, 20_000, 2000)],
    ),
    # The receiver repeats ECE until it sees CWR: una up to 9000 is the same window.
    "an echo halves once per window": (
        8, [mark(1000, 9000, 4000), mark(5000, 9000, 4000), mark(9000, 12_000, 4000), mark(10_000, 12_000, 2000)],
    ),
    "an echo does not shrink what a loss has shrunk": (8, [loss(0, 8000, 4000), mark(1000, FAR, 4000),
                                                           mark(8000, FAR, 4000)]),
    "an unused window does not grow": (10, [ack(2000, 10_000, flags=APP_LIMITED)]),
    "nor in avoidance": (8, [*AVOIDANCE_4, *[ack(4000, 4000, flags=APP_LIMITED)] * 3]),
    "a duplicate ACK does not grow the window": (10, [ack(0, 10_000, 0)]),
    "a timeout forgets the credit of avoidance": (
        8, [*AVOIDANCE_4, ack(3900, 4000), timeout(FAR, 2 * FAR, 2000), ack(1000, 2000, FAR + 1000, IN_RECOVERY),
            ack(1900, 2000, 3 * FAR), ack(100, 3000, 3 * FAR)],
    ),
    "one ACK is worth one window at most": (8, [*AVOIDANCE_4, ack(20_000, 5000), ack(4999, 5000)]),
    "after a timeout echoes of older marks neither grow nor shrink": (
        16, [timeout(0, 20_000, 8000), ack(1000, 1000, 1000, IN_RECOVERY | ECE), *repairs(2000, 4),
             mark(20_000, FAR, 4000), mark(21_000, FAR, 2000)],
    ),
    "a loss after a timeout holds the window again": (
        16, [timeout(0, 16_000, 8000), *repairs(1000, 8), loss(17_000, 30_000, 4000),
             ack(8000, 4000, 31_000, IN_RECOVERY)],
    ),
    # The lost packet left before the window was halved; the window rests until the data that is out by now has arrived.
    "a mark and a loss in one window halve it once": (
        100, [mark(1000, 101_000, 50_000), loss(60_000, 120_000, 50_000), ack(60_000, 50_000, 120_000),
              ack(50_000, 51_000, 170_000)],
    ),
    "a loss of data sent after the halving halves again": (
        100, [mark(1000, 101_000, 50_000), loss(101_000, 150_000, 25_000), loss(150_000, 175_000, 12_500)],
    ),
    # A retransmission was lost: of the 100 packets in flight the threshold is half already.
    "a timeout during recovery keeps the threshold": (
        100, [loss(0, 100_000, 50_000), ack(20_000, 50_000, 20_000, IN_RECOVERY),
              *[timeout(20_000, 110_000, 50_000)] * 2],
    ),
    "a timeout after a mark keeps the threshold": (
        100, [mark(1000, 101_000, 50_000), ack(0, 50_000, 60_000), timeout(60_000, 120_000, 50_000)],
    ),
    "a timeout after a mark and a loss keeps the threshold": (
        100, [mark(1000, 101_000, 50_000), loss(60_000, 120_000, 50_000), ack(50_000, 50_000, 110_000, IN_RECOVERY),
              timeout(110_000, 120_000, 50_000)],
    ),
    # And a packet further on in slow start, half of the window then.
    "a timeout of data sent after the halving sets a new threshold": (
        100, [loss(0, 100_000, 50_000), timeout(100_000, 150_000, 25_000), *repairs(101_000, 10),
              timeout(110_000, 150_000, 5000)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", STORIES)
def test_by_hand(title: str) -> None:
    cwnd_pkts, steps = STORIES[title]
    cc = reno(cwnd_pkts)
    assert cc.out == (cwnd_pkts * PKT, CWND_MAX_BYTES, 0)
    for step in steps:
        step(cc)


def test_slow_start_s_limit_is_a_parameter() -> None:
    ack(5000, 11_000)(reno(10, abc_limit_pkts=1))  # RFC 5681: min(N, SMSS)


def test_the_window_stops_at_its_ceiling() -> None:
    mss = 2**32 - 1
    cc = connect("newreno", mss, mss, {"abc_limit_pkts": 65535})
    cwnd = mss
    for _ in range(20):
        cwnd = cc.on_ack(acked_bytes=cwnd, una_bytes=1, nxt_bytes=2)[0]
    assert cwnd == CWND_MAX_BYTES
