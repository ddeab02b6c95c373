# SPDX-License-Identifier: BSD-3-Clause
"""What is written for the kernel, worked out by hand: limits, and what is due to hosts. Needs no privileges."""

import numpy as np
import pytest

from ncc.envs.linux import layout
from ncc.envs.linux.limits import BELOW, HORIZON_S, MEMORY_S, Limits

PERIOD_S = 0.001
MBPS = 1e6


class Hosts:
    """The map of hosts as memory, and limits that are put there."""

    def __init__(self, n: int = 1, trim_frac: float = 0.1) -> None:
        self.hosts = np.zeros(layout.HOSTS_MAX, layout.HOST)
        self._limits, self._n = Limits(self, n, trim_frac), n  # type: ignore[arg-type]

    def put(
        self, limit_bps: object, sent_bps: object = 0.0, waiting: object = 1.0, *, decided: bool = False
    ) -> list[int]:
        """Bytes per second that are written."""
        columns = [np.broadcast_to(np.asarray(x, float), self._n).copy() for x in (limit_bps, sent_bps, waiting)]
        self._limits.put(columns[0], decided=decided, interval_s=PERIOD_S, sent_bps=columns[1], waiting=columns[2])
        return [int(rate) for rate in self.hosts["rate_bytes_per_s"][: self._n]]


def test_the_first_rate_is_the_limit_and_no_limit_is_zero() -> None:
    hosts = Hosts(3)
    assert hosts.put([8 * MBPS, np.inf, 4.0], decided=True) == [1_000_000, 0, 1]
    assert hosts.hosts["decision"][:4].tolist() == [1, 1, 1, 0]
    hosts.put([8 * MBPS, np.inf, 80 * MBPS])
    assert hosts.hosts["decision"][:4].tolist() == [1, 1, 1, 0]  # the same decision, whatever is corrected


def test_what_was_not_sent_is_due_within_the_horizon() -> None:
    hosts = Hosts()
    hosts.put(80 * MBPS)
    # 5 % of 10 MB/s for a millisecond are 500 bytes, over 10 ms 50 KB/s.
    assert hosts.put(80 * MBPS, sent_bps=76 * MBPS) == [10_000_000 + round(500 / HORIZON_S)]
    assert hosts.put(80 * MBPS, sent_bps=80 * MBPS) == [10_000_000 + round(500 / HORIZON_S)]
    assert hosts.put(80 * MBPS, sent_bps=88 * MBPS) == [10_000_000 - round(500 / HORIZON_S)]


def test_a_constant_loss_is_made_up_for() -> None:
    hosts, sent, allowed = Hosts(), 0.0, 0.0
    rate = hosts.put(40 * MBPS)[0]
    for period in range(300):
        now = 0.95 * rate * 8
        rate = hosts.put(40 * MBPS, sent_bps=now)[0]
        if period >= 100:
            sent, allowed = sent + now, allowed + 40 * MBPS
    assert sent / allowed == pytest.approx(1, abs=1e-3)


def test_corrections_are_bounded_and_forgotten_beyond_the_bound() -> None:
    hosts = Hosts(trim_frac=0.1)
    rate = hosts.put(80 * MBPS)
    for _ in range(100):
        rate = hosts.put(80 * MBPS, sent_bps=0)
    assert rate == [11_000_000]
    # Who was held back by something else exceeds its limit by 10 % of 20 ms in all, and not by more.
    excess = 0.0
    for _ in range(200):
        excess += (rate[0] - 10_000_000) * PERIOD_S
        rate = hosts.put(80 * MBPS, sent_bps=rate[0] * 8)
    assert excess == pytest.approx(0.1 * MEMORY_S * 10_000_000, rel=0.05)
    for _ in range(100):
        rate = hosts.put(80 * MBPS, sent_bps=800 * MBPS)
    assert rate == [round(10_000_000 * (1 - 0.1 * BELOW))]
    # A lower limit bounds it anew.
    assert hosts.put(8 * MBPS, sent_bps=80 * MBPS) == [round(1_000_000 * (1 - 0.1 * BELOW))]


def test_a_host_that_falls_idle_has_nothing_due_and_pays_by_silence() -> None:
    hosts = Hosts(2)
    hosts.put(80 * MBPS)
    assert hosts.put(80 * MBPS, sent_bps=[40 * MBPS, 84 * MBPS]) == [
        10_000_000 + round(5000 / HORIZON_S),
        10_000_000 - round(500 / HORIZON_S),
    ]
    assert hosts.put(80 * MBPS, waiting=0) == [10_000_000, 10_000_000]
    assert hosts.put(80 * MBPS, sent_bps=80 * MBPS) == [10_000_000, 10_000_000]


def test_a_limit_that_is_lifted_ends_it() -> None:
    hosts = Hosts()
    hosts.put(80 * MBPS)
    hosts.put(80 * MBPS, sent_bps=160 * MBPS)
    assert hosts.put(np.inf, sent_bps=160 * MBPS) == [0]
    assert hosts.put(80 * MBPS, sent_bps=800 * MBPS) == [10_000_000]


def test_without_corrections_limits_are_rates() -> None:
    hosts = Hosts(trim_frac=0)
    for sent in (0, 160 * MBPS, 1.0):
        assert hosts.put(80 * MBPS, sent_bps=sent) == [10_000_000]


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="more hosts than rows"):
        Hosts(layout.HOSTS_MAX + 1)
    hosts = Hosts(2)
    with pytest.raises(ValueError, match="differ in length"):
        hosts._limits.put(np.ones(3), decided=True, interval_s=0.0, sent_bps=np.ones(2), waiting=np.ones(2))
