# SPDX-License-Identifier: BSD-3-Clause
"""Conversions, by worked arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core import units


def test_transmission_of_a_full_packet() -> None:
    # 1500 bytes = 12 000 bits; at 1 Gbit/s one bit takes a nanosecond.
    assert units.transmission_s(1500, 1 * units.GBPS) == pytest.approx(12 * units.US)


def test_bandwidth_delay_product() -> None:
    # 10 Gbit/s x 80 us = 800 000 bits = 100 000 bytes (the base RTT of bai2020's testbed).
    assert units.bdp_bytes(10 * units.GBPS, 80 * units.US) == pytest.approx(100_000)


@given(st.floats(1e3, 1e13), st.floats(1e-9, 10))
def test_a_bdp_takes_one_rtt_to_send(rate_bps: float, rtt_s: float) -> None:
    assert units.transmission_s(units.bdp_bytes(rate_bps, rtt_s), rate_bps) == pytest.approx(rtt_s)


def test_nanoseconds_are_rounded_to_nearest() -> None:
    assert units.to_ns(1.4e-9) == 1
    assert units.to_ns(1.6e-9) == 2
    assert units.to_ns(0.1 + 0.2) == 300_000_000


@given(st.integers(0, 10**12))
def test_whole_nanoseconds_survive_seconds(ns: int) -> None:
    assert units.to_ns(ns / units.NS_PER_S) == ns
