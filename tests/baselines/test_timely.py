# SPDX-License-Identifier: BSD-3-Clause
"""TIMELY's rate, worked by hand."""

import pytest

from ncc.baselines._baselines import Connection
from ncc.baselines.registry import connect

MSS = 1000
LINE = 1_250_000_000
"""Bytes/s of 10 Gbit/s."""


def timely(**params: int) -> Connection:
    settings = {"segment_bytes": 1, "stretch_pct": 0, "start_permille": 500} | params
    return connect("timely", MSS, 10 * MSS, settings, line_bytes_per_s=LINE)


def rate(cc: Connection, *rtts_us: float) -> float:
    """Gbit/s after samples."""
    for rtt_us in rtts_us:
        cc.on_ack(rtt_ns=round(rtt_us * 1000), min_rtt_ns=20_000, delivered_bytes=MSS)
    return cc.out[2] * 8e-9


def test_timely_s_first_sample_decides_nothing() -> None:
    assert rate(timely(), 400) == 5.0


def test_timely_rises_below_t_low_whatever_the_gradient() -> None:
    assert rate(timely(), 20, 49) == pytest.approx(5.01)


def test_timely_falls_above_t_high_by_the_excess() -> None:
    """1 - 0.8 (1 - 500 / 1000), although the RTT falls."""
    assert rate(timely(), 2000, 1000) == pytest.approx(5.0 * 0.6, rel=1e-5)


def test_timely_cuts_by_the_gradient() -> None:
    """rtt_diff = 0.875 x 8 us; over 20 us 0.35; 1 - 0.8 x 0.35. Then 0.125 x 7 + 0.875 x 8 us."""
    cc = timely()
    assert rate(cc, 100, 108) == pytest.approx(5.0 * 0.72, rel=1e-5)
    assert rate(cc, 116) == pytest.approx(5.0 * 0.72 * (1 - 0.8 * 7.875 / 20), rel=1e-5)


def test_timely_rises_faster_after_five_decisions_without_a_rise() -> None:
    cc = timely()
    assert rate(cc, 100, 100, 100, 100, 100) == pytest.approx(5.04)
    assert rate(cc, 100) == pytest.approx(5.09)


def test_timely_decides_once_per_segment() -> None:
    cc = timely(segment_bytes=3 * MSS)
    assert rate(cc, 20, 20, 20, 20, 20) == 5.0
    assert rate(cc, 20) == pytest.approx(5.01)
