# SPDX-License-Identifier: BSD-3-Clause
"""Vegas by hand. One packet is 1000 bytes, the base RTT 1 ms."""

import pytest

from ncc.baselines import _baselines
from ncc.baselines._baselines import APP_LIMITED
from ncc.baselines.registry import connect

PKT = 1000
BASE_NS = 1_000_000


class Rounds:
    """A connection that is acknowledged round by round; `avoidance` puts it past slow start at that window."""

    def __init__(self, cwnd_pkts: int, *, avoidance: bool = True, **params: int) -> None:
        self.una, self.min_rtt_ns = 0, BASE_NS
        self.cc: _baselines.Connection = connect("vegas", PKT, cwnd_pkts * PKT * (2 if avoidance else 1), params)
        if avoidance:  # by a loss
            self.una = 2 * cwnd_pkts * PKT
            self.cc.on_loss(una_bytes=0, nxt_bytes=self.una, min_rtt_ns=BASE_NS)
            assert self.cc.out[0] == cwnd_pkts * PKT
        self.ack(BASE_NS)  # the first ACK of a round of its own

    def ack(self, rtt_ns: int, flags: int = 0) -> int:
        self.una += PKT
        return self.cc.on_ack(
            rtt_ns=rtt_ns,
            min_rtt_ns=self.min_rtt_ns,
            acked_bytes=PKT,
            delivered_bytes=PKT,
            una_bytes=self.una,
            nxt_bytes=self.una + self.cc.out[0],
            flags=flags,
        )[0]

    def round(self, rtt_ns: int, flags: int = 0) -> float:
        """The window in packets after all that is in flight is acknowledged, and the ACK beyond that decides."""
        for _ in range(self.cc.out[0] // PKT):
            self.ack(rtt_ns, flags)
        return self.ack(rtt_ns, flags) / PKT


@pytest.mark.parametrize(("queued_pkts", "change"), [(0.0, 1), (1.9, 1), (2.1, 0), (3.9, 0), (4.1, -1), (10.0, -1)])
def test_a_round_moves_the_window_by_a_packet(queued_pkts: float, change: int) -> None:
    """diff = cwnd (1 - base_rtt / rtt) against alpha = 2 and beta = 4."""
    vegas = Rounds(20)
    before = vegas.cc.out[0] / PKT
    rtt_ns = round(BASE_NS * before / (before - queued_pkts))
    assert vegas.round(rtt_ns) == before + change


def test_the_smallest_sample_of_the_round_counts() -> None:
    vegas = Rounds(20)
    before = vegas.cc.out[0] / PKT
    vegas.ack(BASE_NS)
    assert vegas.round(10 * BASE_NS) == before + 1


def test_slow_start_ends_at_what_the_path_carries() -> None:
    """More than gamma = 1 packet waits: cwnd = cwnd base_rtt / rtt + 1."""
    vegas = Rounds(16, avoidance=False)
    for _ in range(16):  # doubling: without a queue nothing holds it back
        vegas.ack(BASE_NS)
    before = vegas.cc.out[0]
    assert before == 33 * PKT
    while vegas.cc.out[1] > 10**9:
        before = vegas.cc.out[0]
        vegas.ack(2 * BASE_NS)
        assert before < 150 * PKT, "no decision"
    # Every sample of the round said that half of the window waits.
    assert vegas.cc.out[:2] == (before // 2 + PKT, before // 2 + PKT)
    assert vegas.round(BASE_NS) <= before / PKT / 2 + 2  # avoidance: a packet a round


def test_slow_start_goes_on_with_a_packet_queued() -> None:
    vegas = Rounds(50, avoidance=False)
    for _ in range(200):
        vegas.ack(BASE_NS + BASE_NS // 500)  # below one packet of up to 250
    assert vegas.cc.out[0] == (50 + 201) * PKT


def test_too_few_samples_leave_it_to_reno() -> None:
    vegas = Rounds(20)
    cwnd = vegas.cc.out[0]
    una = vegas.una + cwnd + PKT
    event = {"min_rtt_ns": BASE_NS, "una_bytes": una, "nxt_bytes": una + cwnd}
    # One ACK for the whole window, of a queue of 10 packets: it may be a delayed one.
    assert vegas.cc.on_ack(rtt_ns=2 * BASE_NS, acked_bytes=cwnd, delivered_bytes=cwnd, **event)[0] == cwnd + PKT


def test_an_unused_window_does_not_grow_but_shrinks() -> None:
    vegas = Rounds(20)
    before = vegas.cc.out[0] / PKT
    assert vegas.round(BASE_NS, APP_LIMITED) == before
    assert vegas.round(2 * BASE_NS, APP_LIMITED) == before - 1


def test_two_packets_are_the_least() -> None:
    vegas = Rounds(4, alpha_pkts=1, beta_pkts=1)
    windows = [vegas.round(10 * BASE_NS) for _ in range(30)]
    assert min(windows) == 2
    assert max(windows) <= 4


def test_beta_below_alpha_counts_as_alpha() -> None:
    vegas = Rounds(20, alpha_pkts=6, beta_pkts=1)
    before = vegas.cc.out[0] / PKT
    assert vegas.round(round(BASE_NS * before / (before - 5))) == before + 1
    assert vegas.round(round(BASE_NS * (before + 1) / (before - 6))) == before


def test_only_full_packets_set_the_base_rtt() -> None:
    """A handshake and a small packet were twice as fast: packets in queues are still counted from full ones."""
    vegas = Rounds(20)
    small = {"acked_bytes": PKT // 20, "delivered_bytes": PKT // 20, "una_bytes": vegas.una, "nxt_bytes": vegas.una}
    vegas.cc.on_ack(rtt_ns=BASE_NS // 2, min_rtt_ns=BASE_NS // 2, **small)
    before = vegas.cc.out[0] / PKT
    vegas.una, vegas.min_rtt_ns = vegas.una + PKT // 20, BASE_NS // 2
    for _ in range(int(before)):
        vegas.ack(BASE_NS)
    assert vegas.ack(BASE_NS) / PKT >= before


def test_a_pause_forgets_the_base_rtt() -> None:
    """The path may be a longer one now."""
    vegas = Rounds(20)
    vegas.cc.on_restart(una_bytes=vegas.una, nxt_bytes=vegas.una, idle_rtos=0)
    before = vegas.ack(2 * BASE_NS) / PKT  # ends the round before the pause
    assert vegas.round(2 * BASE_NS) == before + 1
