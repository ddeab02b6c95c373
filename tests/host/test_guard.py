# SPDX-License-Identifier: BSD-3-Clause
"""Reasons for which the policy loses its hosts, and gets them back."""

import numpy as np
import pytest

from ncc.core.units import NS_PER_S
from ncc.host.guard import Guard, GuardSettings
from ncc.policies import RateBounds

LINK = np.array([1e9, 1e9])
MS = NS_PER_S // 1000


def guard(**settings: float) -> tuple[Guard, list[str]]:
    said: list[str] = []
    bounds = RateBounds(min_rate_frac=0.01, max_rate_frac=1.0, rise_ratio=2.0)
    return Guard(GuardSettings(**settings), bounds, LINK, said.append), said  # type: ignore[arg-type]


def active(one: Guard) -> bool:
    """`active` as it is now, which mypy does not narrow."""
    return one.active


def test_limits_are_clipped_and_rise_slowly() -> None:
    one, _ = guard()
    np.testing.assert_array_equal(one.hold(np.array([1e6, 5e8]), 1), [1e7, 5e8])
    np.testing.assert_array_equal(one.hold(np.array([9e8, 9e8]), 2), [2e7, 9e8])
    assert one.counters["clipped_limits"] == 2


@pytest.mark.parametrize("bad", [None, [np.nan, 1e8], [0.0, 1e8], [-1.0, 1e8]])
def test_the_last_good_limits_hold_for_so_many_periods(bad: list[float] | None) -> None:
    one, said = guard(bad_periods=2)
    good, nothing = np.array([3e8, 4e8]), None if bad is None else np.array(bad)
    one.hold(good, 1)
    for now in (2, 3):
        np.testing.assert_array_equal(one.hold(nothing, now), good)
    one.hold(good, 4)  # and the count begins anew
    for now in (5, 6):
        np.testing.assert_array_equal(one.hold(nothing, now), good)
    assert not said
    np.testing.assert_array_equal(one.hold(nothing, 7, "because"), [np.inf, np.inf])
    assert (one.active, one.counters["hand_backs"], one.counters["bad_periods"]) == (False, 1, 5)
    assert said == [
        "handed back to the classical controller for 1 s: 3 periods in a row brought no usable decision (because)"
    ]
    np.testing.assert_array_equal(one.hold(good, 8), [np.inf, np.inf])  # whatever is decided meanwhile


def test_the_policy_gets_so_many_tries_and_no_more() -> None:
    one, said = guard(tries=2, hold_off_s=1, well_s=100)
    now = 0
    for turn in (1, 2):
        one.hand_back("once", now)
        one.hand_back("twice is once", now)
        assert not one.may_return(now + NS_PER_S - 1)
        assert one.may_return(now + NS_PER_S)
        assert not one.may_return(now + NS_PER_S)  # it is here
        now += 2 * NS_PER_S
        assert one.counters["returns"] == turn
        assert not one.given_up
    one.hand_back("a third time", now)
    assert one.given_up
    assert not one.may_return(now + 1000 * NS_PER_S)
    assert said[-1] == "handed back to the classical controller for good, after 3 times: a third time"


def test_a_policy_that_has_done_well_has_all_its_tries_again() -> None:
    one, _ = guard(tries=1, hold_off_s=1, well_s=10)
    one.hand_back("once", 0)
    assert one.may_return(NS_PER_S)
    one.period(0, 12 * NS_PER_S)
    one.hand_back("much later", 12 * NS_PER_S)
    assert not one.given_up


def test_too_many_missed_periods_of_the_last_hand_back() -> None:
    one, said = guard(missed_frac=0.5, window_periods=10)
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


def test_a_silence_that_the_kernel_has_noticed_hands_back() -> None:
    one, said = guard()
    one.fell_back(0, 1)
    assert active(one)
    one.fell_back(3, 2)
    assert not active(one)
    assert "3 connections stopped obeying" in said[0]


def test_connections_that_have_data_and_report_nothing_hand_back_until_they_do() -> None:
    one, said = guard(silent_s=2, hold_off_s=1)
    one.note_reports(busy=True, any_new=True, now_ns=1)
    one.note_reports(busy=True, any_new=False, now_ns=2 * NS_PER_S)
    assert active(one)
    one.note_reports(busy=True, any_new=False, now_ns=3 * NS_PER_S)
    assert not active(one)
    assert "reported nothing for 2 s" in said[0]
    assert not one.may_return(100 * NS_PER_S)  # it waits for a report, and not for a while
    one.note_reports(busy=True, any_new=True, now_ns=100 * NS_PER_S)
    assert one.may_return(100 * NS_PER_S)


def test_hosts_without_connections_are_never_silent() -> None:
    one, _ = guard(silent_s=2)
    for second in range(1, 20):
        one.note_reports(busy=False, any_new=False, now_ns=second * NS_PER_S)
    one.note_reports(busy=True, any_new=False, now_ns=20 * NS_PER_S)
    assert active(one)
