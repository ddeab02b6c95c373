# SPDX-License-Identifier: BSD-3-Clause
"""BCC's thresholds on a shared pool, by the numbers of the paper and by exact arithmetic, and what it marks."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.baselines import _baselines as native
from ncc.baselines._baselines import (
    BCC_LAMBDA_MAX,
    BCC_LAMBDA_ONE,
    BCC_RATE_MAX,
    BCC_TIME_MAX_NS,
    DT_ALPHA_MAX,
    DT_ALPHA_ONE,
    DT_SHARED_MAX_BYTES,
    MARK,
    PASS,
    RED_ONE,
)

PAPER = {
    "private_bytes": 128_000,
    "shared_bytes": 3_000_000,
    "alpha": 4 * DT_ALPHA_ONE,
    "rate_bytes_per_s": 12_500_000_000,
    "rtt_ns": 80_000,
    "lambda_": 720,
    "ports": 8,
    "spread_ns": 8_000,
}
"""bai2020 sections III-C and V-A: 8 ports of 100 Gbit/s."""


def thresholds(**changes: int) -> tuple[int, int]:
    return native.bcc_thresholds(**(PAPER | changes))


def test_the_paper_s_thresholds() -> None:
    """B_R = 1000 KB x 1.72 - 128 KB = 1592 KB, Kmax = 3000 - 1592/4 = 2602 KB, Kmin = 2602 - 800 KB: 2.6 and 1.8 MB."""
    assert thresholds() == (1_802_000, 2_602_000)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"private_bytes": 0}, (1_770_000, 2_570_000)),  # 1720/4 = 430
        ({"private_bytes": 1_720_000}, (2_200_000, 3_000_000)),  # nothing needed of the pool
        ({"private_bytes": 9_000_000}, (2_200_000, 3_000_000)),
        ({"alpha": DT_ALPHA_ONE}, (608_000, 1_408_000)),
        ({"ports": 1}, (2_502_000, 2_602_000)),
        ({"spread_ns": 16_000}, (1_002_000, 2_602_000)),
        ({"rtt_ns": 0}, (2_200_000, 3_000_000)),
        ({"lambda_": 0}, (1_982_000, 2_782_000)),  # (1000 - 128)/4 = 218
        ({"alpha": 3 * DT_ALPHA_ONE}, (1_669_333, 2_469_333)),  # 1592000/3 = 530666.7, rounded up
        ({"shared_bytes": 1_198_000}, (0, 800_000)),  # just enough
    ],
)
def test_each_parameter_by_hand(changes: dict[str, int], expected: tuple[int, int]) -> None:
    assert thresholds(**changes) == expected


@pytest.mark.parametrize("changes", [{"shared_bytes": 1_197_999}, {"shared_bytes": 398_000}, {"shared_bytes": 397_999}])
def test_a_pool_that_leaves_no_room_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Kmin would be below 0"):
        thresholds(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"ports": 0},  # Kmin = Kmax
        {"spread_ns": 0},
        {"rate_bytes_per_s": 0},
        {"alpha": 0},
        {"alpha": DT_ALPHA_MAX + 1},
        {"shared_bytes": DT_SHARED_MAX_BYTES + 1},
        {"rate_bytes_per_s": BCC_RATE_MAX + 1},
        {"rtt_ns": BCC_TIME_MAX_NS + 1},
        {"lambda_": BCC_LAMBDA_MAX + 1},
        {"spread_ns": BCC_TIME_MAX_NS // 8 + 1},
        {"ports": 2**64 - 1},
        {"spread_ns": 50_000_000},  # Kmax - Kmin of 5 GB
    ],
)
def test_what_is_out_of_range_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="out of the range"):
        thresholds(**changes)


def exact(p: dict[str, Any]) -> tuple[int, int] | None:
    """Equations 2 and 3 in whole numbers of any size, rounded as bcc.h says; None where no room is left."""
    bdp = p["rate_bytes_per_s"] * p["rtt_ns"] // 10**9
    required = max(bdp + bdp * p["lambda_"] // BCC_LAMBDA_ONE - p["private_bytes"], 0)
    kept = -(-required * DT_ALPHA_ONE // p["alpha"])
    span = p["rate_bytes_per_s"] * p["ports"] * p["spread_ns"] // 10**9
    high = p["shared_bytes"] - kept
    return (high - span, high) if high >= span else None


@given(
    st.fixed_dictionaries(
        {
            "private_bytes": st.integers(0, 2**43),
            "shared_bytes": st.integers(1, DT_SHARED_MAX_BYTES),
            "alpha": st.integers(1, DT_ALPHA_MAX),
            "rate_bytes_per_s": st.integers(1, BCC_RATE_MAX),
            "rtt_ns": st.integers(0, BCC_TIME_MAX_NS),
            "lambda_": st.integers(0, BCC_LAMBDA_MAX),
            "ports": st.integers(1, 1024),
            "spread_ns": st.integers(1, BCC_TIME_MAX_NS // 1024),
        }
    )
)
def test_nothing_wraps_around_in_its_whole_range(p: dict[str, int]) -> None:
    span = p["rate_bytes_per_s"] * p["ports"] * p["spread_ns"] // 10**9
    if not 0 < span < 2**32:
        with pytest.raises(ValueError, match="out of the range"):
            native.bcc_thresholds(**p)
    elif (expected := exact(p)) is None:
        with pytest.raises(ValueError, match="below 0"):
            native.bcc_thresholds(**p)
    else:
        assert native.bcc_thresholds(**p) == expected


def test_400_gbit_s_over_200_ms() -> None:
    """A BDP of 10 GB: times 1 + lambda and 1024 it is beyond 2^53, and C RTT in byte-nanoseconds is 10^19."""
    p = PAPER | {"rate_bytes_per_s": 50_000_000_000, "rtt_ns": 200_000_000, "shared_bytes": 100_000_000_000}
    high = 100_000_000_000 - (17_200_000_000 - 128_000) // 4
    assert native.bcc_thresholds(**p) == (high - 3_200_000, high)


@given(st.integers(1, 200_000), st.integers(1_000, 100_000_000))
def test_at_kmax_a_queue_may_still_hold_what_it_needs(rtt_ns: int, shared_bytes: int) -> None:
    """Eq. 1 and 2: T = alpha (B - Kmax) is at least B_R, and would not be with alpha bytes less."""
    try:
        _, high = thresholds(rtt_ns=rtt_ns, shared_bytes=shared_bytes)
    except ValueError:
        return
    required = max(Fraction(rtt_ns * 125, 10) * 172 / 100 - 128_000, Fraction(0))
    assert required - 3 <= 4 * (shared_bytes - high) <= required + 4


def marked(used_bytes: int, random: int, *, ecn_capable: bool = True) -> int:
    """With the paper's thresholds and Pmax = 0.1."""
    return native.bcc(
        min_bytes=1_802_000,
        max_bytes=2_602_000,
        max_prob=RED_ONE // 10,
        used_bytes=used_bytes,
        ecn_capable=ecn_capable,
        random=random,
    )


def test_marks_by_how_full_the_pool_is() -> None:
    assert marked(1_802_000, 0) == PASS
    assert marked(1_802_001, 0) == MARK
    below = RED_ONE // 10 // 2  # half way between the two: 0.05
    assert [marked(2_202_000, draw) for draw in (below - 1, below + 1)] == [MARK, PASS]
    assert [marked(used, 2**32 - 1) for used in (2_601_999, 2_602_000, 3_000_000)] == [PASS, MARK, MARK]
    assert marked(3_000_000, 0, ecn_capable=False) == PASS


@pytest.mark.parametrize("wrong", [{"max_bytes": 1_802_000}, {"max_bytes": 1}, {"max_prob": RED_ONE + 1}])
def test_thresholds_that_are_none_are_refused(wrong: dict[str, int]) -> None:
    good = {"min_bytes": 1_802_000, "max_bytes": 2_602_000, "max_prob": RED_ONE}
    with pytest.raises(ValueError, match="max_bytes must be above min_bytes"):
        native.bcc(**(good | wrong), used_bytes=0, ecn_capable=True, random=0)
