# SPDX-License-Identifier: BSD-3-Clause
"""BBR by hand (draft-cardwell-iccrg-bbr-congestion-control-00). One packet is 1000 bytes; rates are in 64 bytes/s."""

import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.baselines._baselines import APP_LIMITED, CWND_MAX_BYTES, IN_RECOVERY, RATE_APP_LIMITED
from ncc.baselines.registry import connect

PKT = 1000
US = 1000
RTT = 100 * US
STARTUP, DRAIN, PROBE_BW, PROBE_RTT = range(4)


@dataclass
class Path:
    """ACKs of a path of 10 packets per RTT of 100 us: 100 MB/s, a bandwidth-delay product of 10 packets."""

    params: dict[str, int] = field(default_factory=dict)
    now: int = 0
    total: int = 0
    inflight: int = 10 * PKT

    def __post_init__(self) -> None:
        self.cc = connect("bbr", PKT, 10 * PKT, self.params)

    def ack(self, packets: int = 10, rtt: int = RTT, rate: float = 1.0, flags: int = 0, lost: int = 0) -> int:
        """A whole round in one ACK: `packets` at `rate` times 100 MB/s. Returns the window."""
        self.now += RTT
        before, self.total = self.total, self.total + packets * PKT
        interval = round(packets * PKT / (rate * 1e8) * 1e9)
        return self.cc.on_ack(
            now_ns=self.now,
            rtt_ns=rtt,
            srtt_ns=rtt,
            min_rtt_ns=RTT,
            delivered_bytes=packets * PKT,
            acked_bytes=packets * PKT,
            inflight_bytes=self.inflight,
            total_delivered_bytes=self.total,
            prior_delivered_bytes=before,
            interval_ns=interval,
            lost_bytes=lost * PKT,
            flags=flags,
        )[0]

    @property
    def mode(self) -> int:
        return self.cc.state[100]

    @property
    def bandwidth(self) -> int:
        rate: int = struct.unpack_from("=I", self.cc.state, 60)[0]
        return rate * 64

    @property
    def gain(self) -> float:
        """Pacing over 99 % of the estimate."""
        return self.cc.out[2] / self.bandwidth / 0.99

    def steady(self) -> "Path":
        """In PROBE_BW: ten rounds at the path's rate."""
        for _ in range(10):
            self.ack()
        assert self.mode == PROBE_BW
        return self


def test_the_first_window_is_paced_by_a_guess_of_the_rtt() -> None:
    # 10 packets in 1 ms are 156,250 x 64 bytes/s; x 739 / 256 = 451,049; x 99 / 100 = 446,538.
    cc = connect("bbr", PKT, 10 * PKT)
    assert cc.out == (10 * PKT, CWND_MAX_BYTES, 446_538 * 64)
    assert connect("bbr", PKT, 10 * PKT, {"init_rtt_us": 100}).out[2] == 4_465_393 * 64


def test_the_first_rtt_replaces_the_guess() -> None:
    path = Path()
    path.ack(packets=1, rate=0.01)
    assert path.cc.out[2] == 4_465_393 * 64  # 10 packets in 100 us


def test_startup_grows_by_what_is_delivered_to_the_target() -> None:
    # 100 MB/s x 100 us = 10,000 bytes; x 739 / 256 = 28,867.2, rounded up; 3 packets; to an even number: 32 packets.
    path = Path()  # application-limited: no round says that the pipe is full
    windows = [path.ack(flags=RATE_APP_LIMITED) // PKT for _ in range(5)]
    assert windows == [20, 30, 40, 40, 40]  # 30 was below the target
    assert path.mode == STARTUP


def test_the_pipe_is_full_after_three_rounds_without_a_quarter_more() -> None:
    path = Path()
    path.inflight = 100 * PKT
    for rate in (0.5, 0.7, 0.9, 1.0, 1.1):  # 0.9 is more than 1.25 x 0.7; 1.0 and 1.1 are less than 1.25 x 0.9
        path.ack(rate=rate)
    assert path.mode == STARTUP
    path.ack(rate=1.12)
    assert path.mode == DRAIN
    assert path.gain == pytest.approx(88 / 256, rel=1e-4)


def test_drain_lasts_until_the_queue_is_gone() -> None:
    path = Path()
    path.inflight = 28 * PKT
    for _ in range(8):
        path.ack()
    assert path.mode == DRAIN
    path.inflight = 15 * PKT  # 10 packets, 3 for the hosts, rounded up to an even number: 14
    path.ack()
    assert path.mode == DRAIN
    path.inflight = 14 * PKT
    path.ack()
    assert path.mode == PROBE_BW


def test_the_cycle_of_gains() -> None:
    path = Path().steady()
    path.now += 1  # a phase is over when more than min_rtt has gone by
    gains = []
    for _ in range(24):
        path.now += 1
        path.inflight = 8 * PKT  # with 10 delivered: 18 before the ACK, enough for 5/4 (12.5 + 3, even, + 2 = 18)
        path.ack()
        gains.append(round(path.gain, 3))
    start = gains.index(1.25)
    assert start < 8
    assert (gains[start:] + gains[:start])[:8] == [1.25, 0.75, 1, 1, 1, 1, 1, 1]
    assert gains[start : start + 8] == gains[start + 8 : start + 16]


def test_probing_goes_on_until_the_pipe_is_full_or_something_is_lost() -> None:
    for lost in (0, 1):
        path = Path().steady()
        path.inflight = 4 * PKT  # 14 before the ACK
        while path.gain < 1.2:
            path.now += 1
            path.ack()
        path.now += 1
        path.ack(lost=lost)
        assert (path.gain > 1.2) == (lost == 0)


def test_application_limited_samples_count_only_upwards() -> None:
    path = Path().steady()
    for _ in range(30):
        path.ack(rate=0.5, flags=RATE_APP_LIMITED)
    assert path.bandwidth == 100_000_000
    path.ack(rate=2.0, flags=RATE_APP_LIMITED)
    assert path.bandwidth == 200_000_000


def test_an_old_min_rtt_is_measured_anew_with_four_packets() -> None:
    path = Path({"min_rtt_window_us": 2000, "probe_rtt_us": 1000}).steady()
    before = path.cc.out[0]
    while path.mode == PROBE_BW:
        path.ack(rtt=RTT + 1)
    assert path.mode == PROBE_RTT
    assert path.cc.out[0] == 4 * PKT
    entered = path.now
    path.ack(rtt=RTT + 1)  # 10 packets are still in flight
    path.inflight = 4 * PKT
    begun = path.now + RTT
    while path.mode == PROBE_RTT:
        assert path.ack(packets=4, rtt=RTT + 1, rate=0.4) >= 4 * PKT
    assert path.now - begun == pytest.approx(1_000_000, abs=RTT + 1)
    assert path.now > entered
    assert path.cc.out[0] >= before - 2 * PKT  # the window as before, up to the target
    assert path.bandwidth == 100_000_000  # four packets a round are no measure of the path


def test_no_probe_rtt_without_its_parameter_nor_while_equal_rtts_come() -> None:
    path = Path({"min_rtt_window_us": 2000, "probe_rtt_us": 0}).steady()
    for _ in range(100):
        path.ack(rtt=RTT + 1)
        assert path.mode == PROBE_BW
    path = Path({"min_rtt_window_us": 2000}).steady()
    for _ in range(100):
        path.ack()
        assert path.mode == PROBE_BW


def test_a_loss_keeps_as_much_in_flight_as_arrives_for_a_round_and_is_forgotten_after() -> None:
    path = Path().steady()
    before = path.cc.out[0]
    out = path.cc.on_loss(now_ns=path.now, inflight_bytes=9 * PKT, total_delivered_bytes=path.total)
    assert out[0] == 10 * PKT
    path.inflight = 9 * PKT
    sent_before = path.total
    path.total += PKT
    out = path.cc.on_ack(
        now_ns=path.now + 10 * US,
        delivered_bytes=PKT,
        inflight_bytes=9 * PKT,
        total_delivered_bytes=path.total,
        prior_delivered_bytes=sent_before - 10 * PKT,
        interval_ns=RTT,
        lost_bytes=PKT,
        flags=IN_RECOVERY,
    )
    assert out[0] == 10 * PKT  # 10 less the lost one is 9; 9 in flight and 1 delivered make 10
    assert path.ack(packets=2, flags=IN_RECOVERY) == 12 * PKT  # the next round: towards the target again
    assert path.ack(packets=1) >= before - 2 * PKT
    assert path.mode == PROBE_BW


def test_a_timeout_restarts_from_one_packet_with_the_model_kept() -> None:
    path = Path().steady()
    before = path.cc.out[0]
    assert path.cc.on_timeout(now_ns=path.now, total_delivered_bytes=path.total)[0] == PKT
    path.inflight = PKT
    assert path.ack(packets=1, flags=IN_RECOVERY) == 4 * PKT
    assert path.bandwidth == 100_000_000
    assert path.ack(packets=1) >= before - 2 * PKT


def test_idle_restarts_at_the_estimated_rate() -> None:
    path = Path().steady()
    path.inflight = 4 * PKT
    while path.gain < 1.2:
        path.now += 1
        path.ack()
    path.inflight = 0
    path.ack(packets=4, flags=APP_LIMITED | RATE_APP_LIMITED)
    assert path.gain == pytest.approx(1, rel=1e-4)


def test_a_flow_on_an_open_connection_starts_at_the_estimated_rate() -> None:
    path = Path().steady()
    path.inflight = 4 * PKT
    while path.gain < 1.2:
        path.now += 1
        path.ack()
    window = path.cc.out[0]
    assert path.cc.on_restart(now_ns=path.now + 10**9, idle_rtos=9)[0] == window
    assert path.gain == pytest.approx(1, rel=1e-4)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=80), st.sampled_from([1, 2, 4, 10]))
def test_the_estimate_is_a_recent_peak(rates: list[int], window: int) -> None:
    """One of the rates of the last `window` rounds and this one, and none below this one's."""
    path = Path({"rate_rounds": window})
    for n, rate in enumerate(rates):
        path.ack(rate=rate / 100)
        units = [round(r * 1e6) for r in rates[max(n - window, 0) : n + 1]]
        assert any(path.bandwidth == pytest.approx(unit, rel=1e-4) for unit in units)
        assert path.bandwidth >= units[-1] * (1 - 1e-4)


def test_the_first_phase_differs_between_connections_and_is_never_the_draining_one() -> None:
    phases = set()
    for start in range(60):
        path = Path(now=start * 12_345)
        while path.mode != PROBE_BW:
            path.ack()
        phases.add(path.cc.state[101])
    assert phases == {0, 2, 3, 4, 5, 6, 7}
