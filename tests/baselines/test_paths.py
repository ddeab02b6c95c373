# SPDX-License-Identifier: BSD-3-Clause
"""HPCC, PowerTCP and its delay form, worked by hand."""

from typing import Any

import pytest

from ncc.baselines._baselines import Connection
from ncc.baselines.registry import connect

MSS = 1000
LINE = 1_250_000_000
"""Bytes/s of 10 Gbit/s."""
T_NS = 20_000
BDP = 25_000
"""Bytes of the line in T."""

Hop = tuple[int, int, int, int]


class Path:
    """A connection whose ACKs bring telemetry of one port of 10 Gbit/s: what was sent in each step, and the queue."""

    def __init__(self, name: str, **params: int) -> None:
        self.cc: Connection = connect(name, MSS, 10 * MSS, {"base_rtt_ns": T_NS} | params, line_bytes_per_s=LINE)
        self.now = self.sent = self.una = 0
        self.window = self.cc.out[0]

    def ack(self, load: float = 0.0, queue: int = 0, step_ns: int = T_NS, **event: Any) -> int:
        """The window after an ACK that ends a round, if `nxt_bytes` does not say otherwise."""
        self.now += step_ns
        self.sent += round(load * LINE * step_ns / 1e9)
        self.una += MSS
        hops: list[Hop] = [(LINE, queue, self.sent % 2**32, self.now)]
        event = {"nxt_bytes": self.una, "una_bytes": self.una, "hops": hops, "now_ns": self.now} | event
        self.window = self.cc.on_ack(acked_bytes=MSS, delivered_bytes=MSS, **event)[0]
        return self.window


def test_hpcc_starts_with_the_line_s_rate_over_the_base_rtt() -> None:
    path = Path("hpcc")
    assert path.cc.out == (BDP, 1 << 40, LINE)
    assert path.ack(1.0) == BDP, "one record of a port says nothing about its rate"


def test_hpcc_divides_by_the_load_and_adds_its_growth() -> None:
    """U = txRate / B + qlen / (B T): 1 + 5000 / 25000. W = Wc / (U / eta) + W_AI."""
    path = Path("hpcc")
    path.ack(0.0, 5000)
    wanted = BDP * 0.95 / 1.2 + 80
    assert path.ack(1.0, 5000) == pytest.approx(wanted, abs=1)
    assert path.cc.out[2] == pytest.approx(wanted / T_NS * 1e9, rel=1e-3)
    # The smaller of both queues counts: this one has been there for a moment only.
    assert path.ack(0.8, 0) == pytest.approx(wanted + 80, abs=1), "0.8 is below eta: growth"


def test_hpcc_reacts_to_each_ack_by_the_same_reference() -> None:
    """Within a round a half of T smooths the load to (1 + 1.2) / 2, and the window is computed from Wc again."""
    path = Path("hpcc")
    path.ack(1.0, 5000, nxt_bytes=10**6)
    reference = path.ack(1.0, 5000, T_NS // 2, nxt_bytes=10**6)
    assert reference == pytest.approx(BDP * 0.95 / 1.1 + 80, abs=1)
    for load, step_ns in ((1.15, T_NS // 2), (1.175, T_NS // 2), (1.2, T_NS)):
        assert path.ack(1.0, 5000, step_ns, nxt_bytes=10**6) == pytest.approx(reference * 0.95 / load + 80, abs=1)


def test_hpcc_grows_by_rounds_and_then_goes_to_its_target() -> None:
    path = Path("hpcc")
    path.ack(1.0, 100_000)
    low = path.ack(1.0, 100_000)  # U = 5
    assert low == pytest.approx(BDP * 0.95 / 5 + 80, abs=1)
    for n in range(1, 6):
        assert path.ack(0.475) == pytest.approx(low + 80 * n, abs=1)
    assert path.ack(0.475) == pytest.approx((low + 400) * 2 + 80, abs=5), "the sixth round doubles: 0.95 / 0.475"


def test_hpcc_counts_on_when_the_bytes_sent_wrap() -> None:
    path = Path("hpcc")
    path.sent = 2**32 - 10_000
    path.ack(0.0, 5000)
    assert path.ack(1.0, 5000) == pytest.approx(BDP * 0.95 / 1.2 + 80, abs=1)


def test_hpcc_looks_at_the_fullest_port() -> None:
    cc = connect("hpcc", MSS, 10 * MSS, {"base_rtt_ns": T_NS}, line_bytes_per_s=LINE)
    cc.on_ack(una_bytes=1, nxt_bytes=1, hops=[(LINE, 0, 0, 0), (LINE, 5000, 0, 0)])
    wanted = BDP * 0.95 / 1.2 + 80
    both = [(LINE, 0, BDP // 2, T_NS), (LINE, 5000, BDP, T_NS)]
    assert cc.on_ack(una_bytes=2, nxt_bytes=2, hops=both)[0] == pytest.approx(wanted, abs=1)
    # Another way has another number of ports: what it says is kept, and not compared.
    assert cc.on_ack(una_bytes=3, nxt_bytes=3, hops=[(LINE, 0, 0, 2 * T_NS)])[0] == pytest.approx(wanted, abs=1)
    with pytest.raises(ValueError, match="at most 8 ports"):
        cc.on_ack(hops=[(LINE, 0, 0, 0)] * 9)


@pytest.mark.parametrize("name", ["hpcc", "powertcp", "powertcp_delay"])
def test_a_timeout_s_window_grows_until_the_losses_are_repaired(name: str) -> None:
    path = Path(name)
    before = path.cc.out[0]
    assert path.cc.on_loss()[0] == before
    assert path.cc.on_timeout()[0] == MSS
    assert path.cc.on_ack(delivered_bytes=MSS, flags=2)[0] == 2 * MSS
    assert path.cc.on_ack(delivered_bytes=10**9, flags=2)[0] == before
    assert path.cc.on_ack(delivered_bytes=MSS)[0] == before


@pytest.mark.parametrize("name", ["hpcc", "powertcp", "powertcp_delay"])
def test_without_a_base_rtt_it_is_measured_with_full_packets(name: str) -> None:
    cc = connect(name, MSS, 10 * MSS, {}, line_bytes_per_s=LINE)
    assert cc.out == (10 * MSS, 1 << 40, 0)
    assert cc.on_ack(rtt_ns=1000, delivered_bytes=1)[2] == 0, "a small packet"
    assert cc.on_ack(rtt_ns=T_NS, delivered_bytes=MSS)[2] == 10 * MSS * 10**9 // T_NS


def test_powertcp_multiplies_current_and_voltage() -> None:
    """Current: 1 was sent, and the queue grew by 5000 of 25000, so 1.2. Voltage: 1 + 0.2. A new window weighs 0.9."""
    path = Path("powertcp", flows=10)
    path.ack()
    wanted = 0.9 * (BDP / 1.44 + BDP / 10) + 0.1 * BDP
    assert path.ack(1.0, 5000) == pytest.approx(wanted, abs=2)


def test_powertcp_sees_that_a_queue_drains() -> None:
    """The voltage is 1.2 yet, but the queue fell from 10000 to 5000: a current of 0.8."""
    path = Path("powertcp")
    path.ack(1.0, 10_000)
    assert path.ack(1.0, 5000) == pytest.approx(0.9 * (BDP / 0.96 + BDP / 10) + 0.1 * BDP, abs=2)


def test_powertcp_settles_where_beta_is_what_power_takes() -> None:
    """w (1 - 1 / power) = beta: with a queue of beta beside a full line, the window is BDP + beta."""
    path = Path("powertcp", flows=10, gradient=0)
    for _ in range(400):
        queue = max(path.window - BDP, 0)
        path.ack(min(path.window / BDP, 1.0), queue)
    assert path.window == pytest.approx(BDP * 1.1, rel=0.01)


def test_powertcp_s_window_does_not_grow_while_it_is_not_full() -> None:
    path = Path("powertcp")
    path.ack()
    assert path.ack(0.5, flags=4) == BDP
    assert path.ack(0.5) > BDP


def test_powertcp_s_delay_form_reads_the_rtt_and_its_gradient() -> None:
    """RTT 1.2 T, up by 0.2 T in T: (1 + 0.2) 1.2, once per round."""
    path = Path("powertcp_delay", flows=10)
    path.ack(rtt_ns=T_NS)
    assert path.window == BDP
    wanted = 0.9 * (BDP / 1.44 + BDP / 10) + 0.1 * BDP
    assert path.ack(rtt_ns=T_NS * 6 // 5, nxt_bytes=10**6) == pytest.approx(wanted, abs=2)
    assert path.ack(rtt_ns=T_NS * 10, nxt_bytes=10**6) == pytest.approx(wanted, abs=2), "no second time in a round"
