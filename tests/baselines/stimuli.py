# SPDX-License-Identifier: BSD-3-Clause
"""The six standard stimuli that every controller's golden curve answers."""

from tests.baselines.sender import Stimulus


def lost(packets: range, times: int = 1) -> frozenset[tuple[int, int]]:
    """These packets are dropped the first `times` times they are sent."""
    return frozenset((packet, nth) for packet in packets for nth in range(times))


STIMULI: dict[str, Stimulus] = {
    # A whole flight vanishes at cwnd = 40: slow start from one packet up to the new threshold, then avoidance.
    "slow_start": Stimulus(n_acks=260, drops=lost(range(30, 70))),
    # One packet lost in steady state: one reduction, one retransmission, growth by one packet a round afterwards.
    "single_loss": Stimulus(n_acks=240, drops=lost(range(40, 41))),
    # Nine holes in one window: still one reduction, held until the last hole is filled.
    "burst_loss": Stimulus(n_acks=240, drops=lost(range(40, 56, 2)) | lost(range(60, 61))),
    # The flight and the first two retransmissions of its head vanish: the timer backs off three times.
    "timeout": Stimulus(n_acks=160, drops=lost(range(30, 70)) | lost(range(30, 31), times=3)),
    # 5 % of the packets are marked.
    "marks": Stimulus(n_acks=400, marks=lambda packet: packet % 20 == 19),
    # One ACK for two packets, and six bursts of 8 packets that never fill the window of 10, before it is always full.
    "delayed_acks": Stimulus(n_acks=160, ack_every=2, burst_pkts=8, bursts=6),
}
