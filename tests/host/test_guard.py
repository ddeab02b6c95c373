# SPDX-License-Identifier: BSD-3-Clause
"""Reasons for which a policy is suspended, hosts' limits meanwhile, and its return."""

import numpy as np
import pytest

from ncc.core.units import NS_PER_S
from ncc.host.guard import Guard, GuardSettings
from ncc.policies import RateBounds

LINK = np.array([1e9, 1e9])
SHARE = np.array([2e8, 2e8])
MS = NS_PER_S // 1000


def guard(**settings: float) -> tuple[Guard, list[str]]:
    said: list[str] = []
    bounds = RateBounds(min_rate_frac=0.01, max_rate_frac=1.0, rise_ratio=2.0)
    return Guard(GuardSettings(**settings), bounds, LINK, SHARE, said.append), said  # type: ignore[arg-type]


def active(one: Guard) -> bool:
    """`active` as it is now, which mypy does not narrow."""
    return one.active


def test_limits_are_clipped_and_rise_slowly() -> None:
    one, _ = guard()
    np.testing.assert_array_equal(one.hold(np.array([1e6, 5e8]), 1), [1e7, 5e8])
    np.testing.assert_array_equal(one.hold(np.array([9e8, 9e8]), 2), [2e7, 9e8])
    assert one.counters["clipped_limits"] == 2


@pytest.mark.parametrize("bad", [None, [np.nan, 1e8], [0.0, 1e8], [-1.0, 1e8]])
def test_the_last_good_limits_hold_for_so_many_periods_and_then_fair_shares(bad: list[float] | None) -> None:
    one, said = guard(bad_periods=2)
    good, nothing = np.array([3e8, 4e8]), None if bad is None else np.array(bad)
    one.hold(good, 1)
    for now in (2, 3):
        np.testing.assert_array_equal(one.hold(nothing, now), good)
    one.hold(good, 4)  # and the count begins anew
    for now in (5, 6):
        np.testing.assert_array_equal(one.hold(nothing, now), good)
    assert not said
    np.testing.assert_array_equal(one.hold(nothing, 7, "because"), SHARE)
    assert (one.active, one.counters["suspensions"], one.counters["bad_periods"]) == (False, 1, 5)
    assert said == [
        "the policy is suspended, and hosts have their fair share of the uplink: 3 periods in a row brought no usable "
        "decision (because)"
    ]
    np.testing.assert_array_equal(one.hold(good, 8), SHARE)  # whatever is decided meanwhile


@pytest.mark.parametrize(
    ("bounds", "share_bps"),
    [
        (RateBounds(min_rate_frac=0.01, max_rate_frac=0.1), 1e8),
        (RateBounds(min_rate_frac=0.3, max_rate_frac=1.0), 3e8),
        (RateBounds(min_rate_frac=0.01, max_rate_frac=4.0), 2e8),
    ],
)
def test_fair_shares_are_within_the_bounds_and_never_no_limit(bounds: RateBounds, share_bps: float) -> None:
    for fair, expected in ((SHARE, share_bps), (9 * LINK, min(bounds.max_rate_frac, 1) * LINK[0])):
        one = Guard(GuardSettings(), bounds, LINK, fair, lambda _: None)
        one.suspend("a reason", 0)
        np.testing.assert_array_equal(one.held_bps, [expected, expected])


def test_a_policy_returns_some_time_after_the_last_reason_as_often_as_it_takes() -> None:
    one, said = guard(hold_off_s=1)
    now = 0
    for turn in range(1, 9):
        one.suspend("a reason", now)
        one.suspend("the same one, a while later", now + NS_PER_S // 2)
        assert not one.may_return(now + NS_PER_S)
        assert one.may_return(now + 3 * NS_PER_S // 2)
        assert not one.may_return(now + 3 * NS_PER_S // 2)  # it is here
        now += 2 * NS_PER_S
        assert (one.counters["suspensions"], one.counters["returns"], len(said)) == (turn, turn, 2 * turn)
    np.testing.assert_array_equal(one.hold(np.array([9e8, 1e8]), now), [4e8, 1e8])  # it begins at the shares


@pytest.mark.attack("n3")
def test_too_many_missed_periods_of_the_last_suspend() -> None:
    one, said = guard(missed_frac=0.5, window_periods=10, hold_off_s=1)
    one.period(6, 1)
    assert active(one)  # three periods more, and it could be judged
    one.period(0, 2)
    one.period(0, 3)
    assert active(one)
    one.period(0, 4)
    assert not active(one)
    assert "60% of the last 10 periods were missed" in said[0]
    assert one.counters["missed_periods"] == 6
    assert one.may_return(2 * NS_PER_S)
    for period in range(20):
        one.period(1, 2 * NS_PER_S + period * MS)
    assert active(one)  # half is not more than half, and what was before its return does not count


@pytest.mark.parametrize(("connections", "pkts"), [(3, 0), (0, 7)])
def test_a_silence_that_the_kernel_has_noticed_suspends(connections: int, pkts: int) -> None:
    one, said = guard()
    one.fell_back(0, 0, 1)
    assert active(one)
    one.fell_back(connections, pkts, 2)
    assert not active(one)
    assert f"(packets that left outside the limit: {pkts}, connections that stopped obeying: {connections})" in said[0]
