# SPDX-License-Identifier: BSD-3-Clause
"""BCC on a network's pools: thresholds by the numbers of the paper and by exact arithmetic, and errors."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.bcc import Bcc
from ncc.core.errors import ConfigError
from ncc.core.topologies import Dumbbell, LeafSpine, ManyToOne, SingleSwitch
from ncc.core.topology import Pool, Program, Red

TOMAHAWK: dict[str, Any] = {
    "buffer_bytes": 128_000,
    "shared_buffer_bytes": 3_000_000,
    "dt_alpha": 4.0,
    "ports_per_pool": 8,
    "mark_threshold_bytes": 720_000,
}
PAPER = Bcc(rtt_s=80e-6)
"""bai2020 sections III-C and V-A; the rest are the defaults."""


def test_the_paper_s_pools() -> None:
    """B_R = 1000 KB x 1.72 - 128 KB = 1592 KB, Kmax = 3000 - 1592/4 = 2602 KB, Kmin = 2602 - 800 KB."""
    network = LeafSpine(host_rate_bps=100e9, spine_rate_bps=100e9, bcc=PAPER, **TOMAHAWK).build()
    expected = Red(min_bytes=1_802_000, max_bytes=2_602_000, max_prob_frac=0.1)
    assert {pool.red for pool in network.pools} == {expected}
    assert len(network.pools) == 8 * 3 + 8


def test_rate_and_ports_are_those_of_the_pool() -> None:
    """24 ports of 40 Gbit/s fill three pools of 10; the last holds 4, and spreads its thresholds by that much less."""
    small = TOMAHAWK | {"ports_per_pool": 10}
    network = SingleSwitch(senders=20, receivers=4, rate_bps=40e9, bcc=PAPER, **small).build()
    spans = [pool.red.max_bytes - pool.red.min_bytes for pool in network.pools if pool.red]
    assert spans == [400_000, 400_000, 160_000]
    two_rates = Dumbbell(pairs=3, host_rate_bps=10e9, bottleneck_rate_bps=40e9, bcc=PAPER, **TOMAHAWK).build()
    assert [pool.red.max_bytes - pool.red.min_bytes for pool in two_rates.pools if pool.red] == [160_000, 160_000]


whole = st.integers
switches = st.tuples(whole(1, 1000), whole(0, 10**7), whole(1, 2**43), whole(1, 2**20), whole(1, 64))
paths = st.tuples(whole(1, 10**10), whole(0, 10**4), whole(1, 10**6))


@given(switches, paths)
def test_thresholds_are_exact_to_the_byte(switch: tuple[int, ...], path: tuple[int, ...]) -> None:
    """Equations 2 and 3 as fractions, with each line's bytes rounded down and B_R / alpha rounded up."""
    (gbps, private, size, alpha, ports), (rtt_ns, lambda_, spread_ns) = switch, path
    rate = Fraction(gbps * 125_000_000, 10**9)
    bdp, span = int(rate * rtt_ns), int(rate * ports * spread_ns)
    required = max(bdp + int(bdp * Fraction(lambda_, 1000)) - private, 0)
    high = size + int(-required / Fraction(alpha, 1024) // 1)
    bcc = Bcc(rtt_s=rtt_ns / 1e9, lambda_bdp=lambda_ / 1000, spread_s=spread_ns / 1e9)
    pool = (Pool(size_bytes=size, alpha=alpha / 1024), private, gbps * 1e9, ports)
    if 0 < span <= high and span < 2**32:
        red = bcc.red(*pool)
        assert (red.min_bytes, red.max_bytes) == (high - span, high)
    else:
        with pytest.raises(ConfigError):
            bcc.red(*pool)


def test_a_network_that_marks_by_its_pools_only_marks() -> None:
    plain = TOMAHAWK | {"mark_threshold_bytes": 0}
    assert not LeafSpine(**plain).build().marks
    assert LeafSpine(programs=(Program(name="codel"),), **plain).build().marks
    assert LeafSpine(**TOMAHAWK).build().marks
    assert LeafSpine(bcc=PAPER, **plain).build().marks
    assert LeafSpine(shared_red=Red(min_bytes=1, max_bytes=2), **plain).build().marks


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shared_buffer_bytes": 0, "ports_per_pool": 0, "bcc": PAPER}, "ManyToOne.bcc marks by a shared buffer: set "),
        (
            {"shared_buffer_bytes": 0, "ports_per_pool": 0, "shared_red": Red(min_bytes=1, max_bytes=2)},
            "ManyToOne.shared_red marks by a shared buffer: set shared_buffer_bytes",
        ),
        (
            {"bcc": PAPER, "shared_red": Red(min_bytes=1, max_bytes=2)},
            "ManyToOne.bcc and ManyToOne.shared_red must not both be set",
        ),
        (
            {"shared_red": Red(min_bytes=1, max_bytes=3_000_001)},
            r"Pool.red.max_bytes must be at most size_bytes \(3000000\), .* got 3000001",
        ),
        (
            {"rate_bps": 100e9, "bcc": PAPER, "shared_buffer_bytes": 1_100_000},
            "bcc leaves no room in a pool of 1100000 bytes that 8 ports of 100 Gbit/s",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ManyToOne(**(TOMAHAWK | changes)).build()
