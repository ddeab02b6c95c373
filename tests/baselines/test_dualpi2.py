# SPDX-License-Identifier: BSD-3-Clause
"""DualPI2 (RFC 9332, appendix A), worked by hand."""

from itertools import pairwise

import pytest

from tests.baselines.ports import CE, DROP, ECT, ECT1, MARK, PASS, Program

MS, MTU = 1_000_000, 1500
TARGET = UPDATE = 15 * MS
CLASSIC, L4S = 0, 1


class Port:
    def __init__(self, alpha_mhz: int = 150, beta_mhz: int = 3000, coupling: int = 2, classic_pct: int = 10) -> None:
        params = [TARGET, UPDATE, alpha_mhz, beta_mhz, coupling, 800_000, 400_000, classic_pct]
        self.program = Program("dualpi2", params, size_bytes=10**7, mtu_bytes=MTU)
        self.now = 10**9

    def update(self, classic_ns: int, l4s_ns: int = 0) -> None:
        """An update while the first packets have waited so long; 0: there is none."""
        for queue, wait_ns in ((CLASSIC, classic_ns), (L4S, l4s_ns)):
            held = MTU * bool(wait_ns)
            self.program.hold(queue=queue, bytes=held, head_bytes=held, head_ns=self.now - wait_ns)
        assert self.program.timer(now_ns=self.now) == UPDATE

    def send(self, queue: int, flags: int = ECT, *, wait_ns: int = 0, left: int = 10, both: bool = False) -> int:
        """The verdict on the first packet of a queue, which leaves so many others behind."""
        packets = {queue: [MTU] * (left + 1)} | ({1 - queue: [MTU]} if both else {})
        assert both or self.program.next(packets) == queue
        self.program.hold(queue=queue, bytes=left * MTU, head_bytes=MTU if left else 0)
        return int(
            self.program.dequeue(payload_bytes=MTU - 40, flags=flags, now_ns=self.now, queued_ns=self.now - wait_ns)
        )

    def marks(self, queue: int, flags: int = ECT, packets: int = 10_000) -> float:
        """Share of packets that are marked or dropped while the queue itself marks nothing."""
        return sum(self.send(queue, flags) != PASS for _ in range(packets)) / packets


def test_ect_1_and_ce_are_for_the_low_latency_queue() -> None:
    classify = Port().program.classify
    assert [classify(flags=flags) for flags in (0, ECT, ECT | ECT1, ECT | CE, ECT | ECT1 | CE)] == [0, 0, 1, 1, 1]


def test_the_controller_integrates_the_excess_and_follows_the_change() -> None:
    """p' = 0.15 x 0.010 + 3 x 0.025 = 0.0765 after one wait of 25 ms, then 0.0015 more."""
    port = Port()
    port.update(25 * MS)
    assert port.marks(L4S, ECT | ECT1) == pytest.approx(2 * 0.0765, abs=1e-4)
    assert port.marks(CLASSIC) == pytest.approx(0.0765**2, abs=1e-4)
    port.update(25 * MS)
    assert port.marks(L4S, ECT | ECT1) == pytest.approx(2 * 0.078, abs=1e-4)


def test_the_probability_falls_to_nothing_where_no_classic_packet_waits() -> None:
    port = Port()
    port.update(25 * MS)
    port.update(0)  # -0.00225 - 0.075
    assert port.marks(L4S, ECT | ECT1) == 0
    port.update(5 * MS)  # -0.0015 + 0.015
    assert port.marks(L4S, ECT | ECT1) == pytest.approx(0.027, abs=1e-4)


def test_the_longer_of_both_waits_counts() -> None:
    port = Port()
    port.update(5 * MS, 25 * MS)
    assert port.marks(L4S, ECT | ECT1) == pytest.approx(2 * 0.0765, abs=1e-4)


def test_a_long_wait_counts_as_268_ms() -> None:
    one, other = Port(), Port()
    one.update(2**28 - 1)
    other.update(900 * MS)
    assert one.marks(CLASSIC) == other.marks(CLASSIC) > 0.5


def test_classic_packets_without_ecn_are_dropped() -> None:
    port = Port(alpha_mhz=0, beta_mhz=30_000)
    port.update(10 * MS)  # p' = 0.3
    verdicts = [port.send(CLASSIC, 0) for _ in range(1000)]
    assert verdicts.count(DROP) == pytest.approx(90, abs=1)
    assert verdicts.count(MARK) == 0
    verdicts = [port.send(CLASSIC, ECT) for _ in range(1000)]
    assert verdicts.count(MARK) == pytest.approx(90, abs=1)


def test_marks_are_evenly_spaced() -> None:
    port = Port(alpha_mhz=0, beta_mhz=10_000)
    port.update(10 * MS)  # p' = 0.1, p of L4S 0.2
    marked = [i for i in range(100) if port.send(L4S, ECT | ECT1) == MARK]
    assert {after - before for before, after in pairwise(marked)} <= {5, 6}


@pytest.mark.parametrize(("wait_us", "share"), [(800, 0.0), (900, 0.25), (1000, 0.5), (1199, 0.9975), (1200, 1.0)])
def test_the_low_latency_queue_marks_by_a_ramp(wait_us: int, share: float) -> None:
    port = Port()
    marked = [port.send(L4S, ECT | ECT1, wait_ns=wait_us * 1000) for _ in range(4000)].count(MARK)
    assert marked / 4000 == pytest.approx(share, abs=1e-3)


def test_a_lone_packet_is_not_marked_for_its_wait() -> None:
    port = Port()
    assert [port.send(L4S, ECT | ECT1, wait_ns=5 * MS, left=left) for left in (0, 1, 2, 2)][:2] == [PASS, PASS]
    assert port.send(L4S, ECT | ECT1, wait_ns=5 * MS, left=2) == MARK


def test_the_larger_of_both_probabilities_counts() -> None:
    port = Port(alpha_mhz=0, beta_mhz=10_000)
    port.update(20 * MS)  # coupled: 0.4
    for wait_ns, share in ((900_000, 0.4), (1_000_000, 0.5)):
        marked = [port.send(L4S, ECT | ECT1, wait_ns=wait_ns) for _ in range(4000)].count(MARK)
        assert marked / 4000 == pytest.approx(share, abs=1e-3)


def test_overload_drops_in_both_queues() -> None:
    """k p' reaches 1 at p' = 0.5: a quarter is dropped, and the rest of L4S is marked."""
    port = Port(alpha_mhz=0, beta_mhz=25_000)
    port.update(20 * MS)
    low = [port.send(L4S, ECT | ECT1) for _ in range(1000)]
    assert low.count(DROP) == pytest.approx(250, abs=1)
    assert low.count(PASS) == 0
    assert [port.send(CLASSIC) for _ in range(1000)].count(DROP) == pytest.approx(250, abs=1)


@pytest.mark.parametrize("classic_pct", [10, 50])
def test_classic_has_its_share_while_both_wait(classic_pct: int) -> None:
    port = Port(classic_pct=classic_pct)
    of = {CLASSIC: [MTU] * 3, L4S: [500] * 3}
    served = {CLASSIC: 0, L4S: 0}
    for _ in range(3000):
        queue = port.program.next(of)
        served[queue] += of[queue][0]
        port.program.dequeue(payload_bytes=of[queue][0] - 40, flags=ECT | ECT1, now_ns=port.now, queued_ns=port.now)
    assert served[CLASSIC] / sum(served.values()) == pytest.approx(classic_pct / 100, abs=0.01)


def test_low_latency_goes_first_after_a_while_alone() -> None:
    port = Port()
    for _ in range(50):
        assert port.send(CLASSIC) == PASS
    assert port.program.next({CLASSIC: [MTU], L4S: [MTU]}) == L4S
