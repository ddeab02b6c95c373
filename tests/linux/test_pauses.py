# SPDX-License-Identifier: BSD-3-Clause
"""Gaps of a core in what the kernel's tracer says of it."""

import pytest

from ncc.host.pauses import WITHIN_S, gaps_of, summary

TRACE = """\
# tracer: nop
          <idle>-0       [001] d.h1. 100.000000: local_timer_entry: vector=236
          <idle>-0       [001] d..2. 100.000020: sched_switch: prev_comm=swapper/1 ==> next_comm=python
          python-77      [001] d..2. 100.000200: sched_switch: prev_comm=python ==> next_comm=swapper/1
          <idle>-0       [001] d.h1. 100.001000: local_timer_entry: vector=236
          <idle>-0       [001] d.h1. 100.004500: local_timer_entry: vector=236
    a b-c d:1-9876       [001] d.h.. 100.010000: local_timer_entry: vector=236
          <idle>-0       [001] d.h1. 100.900000: local_timer_entry: vector=236
"""


def test_a_gap_is_where_nothing_at_all_was_recorded() -> None:
    found = gaps_of(iter(TRACE.splitlines()), 99.0, 100.005)
    assert [gap[:2] for gap in found] == [pytest.approx((100.001, 0.0035)), pytest.approx((100.0045, 0.0055))]
    assert [gap[2] for gap in found] == [True, False], "what was interrupted after it"
    assert gaps_of(iter(TRACE.splitlines()), 100.002, 100.003) == []


def test_gaps_that_begin_at_the_same_time_of_a_cycle_are_counted() -> None:
    gaps = [(5.030, 0.002, True), (7.031, 0.004, False), (9.045, 0.002, True), (9.070, 0.002, True)]
    assert summary(gaps) == {"gaps": 4, "gaps_s": 0.01, "longest_s": 0.004, "idle": 3, "together": 3}
    around = [(1.099, 0.002, True), (2.001, 0.002, True), (3.001 + WITHIN_S, 0.002, True)]
    assert summary(around)["together"] == 2
    assert summary([]) == {"gaps": 0, "gaps_s": 0, "longest_s": 0, "idle": 0, "together": 0}
