# SPDX-License-Identifier: BSD-3-Clause
"""Conversions, by worked arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core import units
from ncc.core.errors import ConfigError
from ncc.core.scenario import Nic
from ncc.core.value import from_dict


def test_bandwidth_delay_product() -> None:
    # 10 Gbit/s x 80 us = 800 000 bits = 100 000 bytes (the base RTT of bai2020's testbed).
    assert units.bdp_bytes(10 * units.GBPS, 80 * units.US) == pytest.approx(100_000)


def test_nanoseconds_are_rounded_to_nearest() -> None:
    assert units.to_ns(1.4e-9) == 1
    assert units.to_ns(1.6e-9) == 2
    assert units.to_ns(0.1 + 0.2) == 300_000_000


@given(st.integers(0, 10**12))
def test_whole_nanoseconds_survive_seconds(ns: int) -> None:
    assert units.to_ns(ns / units.NS_PER_S) == ns


@pytest.mark.parametrize(
    ("key", "text", "number"),
    [
        ("rate_bps", "10Gbps", 1e10),
        ("rate_bps", "25Gbit/s", 2.5e10),
        ("rate_bps", "2.5 gbps", 2.5e9),
        ("period_s", "1ms", 0.001),
        ("period_s", "100us", 0.0001),
        ("duration_s", "2min", 120.0),
        ("jitter_s", "0.3us", 3e-7),
        ("buffer_bytes", "512KB", 512_000),
        ("buffer_bytes", "512KiB", 524_288),
        ("buffer_bytes", "1.5e2kB", 150_000),
        ("k_pkts", "65pkts", 65),
        ("load_frac", "80%", 0.8),
        ("bytes_per_server", "40KB", 40_000),
        ("workload.queries.bytes_per_server", "32KiB", 32_768),
        ("capacity_mbps", "10Gbps", 10_000),
        ("timeout_ns", "2ms", 2_000_000),
        ("period_us", "1500ns", 1.5),
        ("scenario.topology.delay_s", "10us", 1e-5),
    ],
)
def test_a_quantity_becomes_a_number_in_si(key: str, text: str, number: float) -> None:
    read = units.without_units({key: text}, "")[key]
    assert read == number
    assert type(read) is type(number)


def test_units_are_read_in_lists_in_mappings_and_in_pairs() -> None:
    plain = {
        "axes": {"scenario.topology.mark_threshold_bytes": ["30KB", "60KB"], "controller": ["ncc", "10ms"]},
        "varies": {"scenario.period_s": {"low": "1ms", "high": 0.01}},
        "params": [["min_rto_s", "5ms"], ["name", "5ms"]],
        "events_per_s": "50ms",
        "rate_bytes_per_s": "50KB",
        "rate_bytes_per_ms": "50KB",
        "pkts_per_us": "5pkts",
        "bytes_per_ns": "50KB",
        "duration_s": "many",
        "size_bytes": None,
    }
    assert units.without_units(plain, "") == {
        "axes": {"scenario.topology.mark_threshold_bytes": [30_000, 60_000], "controller": ["ncc", "10ms"]},
        "varies": {"scenario.period_s": {"low": 0.001, "high": 0.01}},
        "params": [["min_rto_s", 0.005], ["name", "5ms"]],
        "events_per_s": "50ms",
        "rate_bytes_per_s": "50KB",
        "rate_bytes_per_ms": "50KB",
        "pkts_per_us": "5pkts",
        "bytes_per_ns": "50KB",
        "duration_s": "many",
        "size_bytes": None,
    }


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("host_rate_bps", "10ms", "topology.host_rate_bps is a rate and cannot be '10ms', a time; its units are bps"),
        ("buffer_bytes", "10Gbps", "is a size and cannot be '10Gbps', a rate"),
        ("host_rate_bps", "10GBps", "is in bits per second: 10GBps is bytes per second; write 80Gbps"),
        ("host_rate_bps", "2.5 MB/s", "2.5 MB/s is bytes per second; write 20Mbps"),
        ("host_rate_bps", "1e3B/s", "1e3B/s is bytes per second; write 8000bps"),
        ("host_rate_bps", "10Gbit", "cannot be '10Gbit'. Did you mean 'Gbit/s'? Its units are bps, kbps"),
        ("bytes_per_server", "5ms", "topology.bytes_per_server is a size and cannot be '5ms', a time"),
        ("delay_s", "10parsec", "is a time and cannot be '10parsec'; its units are ns, us"),
        ("load_frac", "1ms", "is a fraction and cannot be '1ms', a time; its units are %"),
    ],
)
def test_a_unit_that_does_not_fit_is_one_sentence(key: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        units.without_units({"topology": {key: text}}, "")
    assert said in str(refused.value)


def test_values_take_units_wherever_they_are_made_of_plain_data() -> None:
    assert from_dict(Nic, {"bucket_bytes": "18KB"}, "nic").bucket_bytes == 18_000
    assert Nic().replace(bucket_bytes="18KiB").bucket_bytes == 18_432
    with pytest.raises(ConfigError, match=r"^nic\.bucket_bytes is a size and cannot be '18ms', a time"):
        from_dict(Nic, {"bucket_bytes": "18ms"}, "nic")


@given(st.decimals(0, 10**6, allow_nan=False, places=6))
def test_a_decimal_number_of_milliseconds_is_the_nearest_float(number: object) -> None:
    assert units.without_units({"x_s": f"{number}ms"}, "")["x_s"] == float(f"{number}e-3")
