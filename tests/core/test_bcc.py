# SPDX-License-Identifier: BSD-3-Clause
"""BCC on a network's pools: thresholds as the header computes them, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.baselines._baselines import bcc_thresholds
from ncc.core.bcc import Bcc
from ncc.core.errors import ConfigError
from ncc.core.topologies import Dumbbell, LeafSpine, ManyToOne, SingleSwitch
from ncc.core.topology import Pool, Red

TOMAHAWK: dict[str, Any] = {
    "buffer_bytes": 128_000,
    "shared_buffer_bytes": 3_000_000,
    "dt_alpha": 4.0,
    "ports_per_pool": 8,
    "mark_threshold_bytes": 720_000,
}
PAPER = Bcc(rtt_s=80e-6)
"""bai2020 section V-A; the rest are the defaults."""


def test_the_paper_s_pools() -> None:
    """Kmax about 2.6 MB and Kmin about 1.8 MB in every pool of leaves and spines alike (section V-A)."""
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


@given(
    st.integers(1, 1000),
    st.fixed_dictionaries(
        {
            "private_bytes": st.integers(0, 10**7),
            "shared_bytes": st.integers(1, 2**43),
            "alpha": st.integers(1, 2**20),
            "rtt_ns": st.integers(1, 10**10),
            "lambda_": st.integers(0, 10**4),
            "ports": st.integers(1, 64),
            "spread_ns": st.integers(1, 10**6),
        }
    ),
)
def test_thresholds_are_the_header_s_to_the_byte(gbps: int, header: dict[str, int]) -> None:
    bcc = Bcc(rtt_s=header["rtt_ns"] / 1e9, lambda_bdp=header["lambda_"] / 1000, spread_s=header["spread_ns"] / 1e9)
    pool = Pool(size_bytes=header["shared_bytes"], alpha=header["alpha"] / 1024)
    switch = (pool, header["private_bytes"], gbps * 1e9, header["ports"])
    try:
        expected = bcc_thresholds(rate_bytes_per_s=gbps * 125_000_000, **header)
    except ValueError:
        with pytest.raises(ConfigError):
            bcc.red(*switch)
    else:
        red = bcc.red(*switch)
        assert (red.min_bytes, red.max_bytes) == expected


def test_a_network_that_marks_by_its_pools_only_marks() -> None:
    plain = TOMAHAWK | {"mark_threshold_bytes": 0}
    assert not LeafSpine(**plain).build().marks
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
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ManyToOne(**(TOMAHAWK | changes))


def test_a_pool_too_small_for_its_ports_is_refused() -> None:
    switch = ManyToOne(rate_bps=100e9, bcc=PAPER, **(TOMAHAWK | {"shared_buffer_bytes": 1_100_000}))
    with pytest.raises(ConfigError, match="bcc leaves no room in a pool of 1100000 bytes that 8 ports of 100 Gbit/s"):
        switch.build()


@pytest.mark.parametrize("wrong", [{"rtt_s": 0.0}, {"spread_s": 0.0}, {"lambda_bdp": -0.1}, {"max_prob_frac": 1.1}])
def test_values_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    name = next(iter(wrong))
    with pytest.raises(ConfigError, match=f"Bcc.{name}"):
        Bcc(**({"rtt_s": 80e-6} | wrong))
