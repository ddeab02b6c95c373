# SPDX-License-Identifier: BSD-3-Clause
"""Jain's index, over hosts that compete."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.topologies import LeafSpine
from ncc.metrics.fairness import jain_index, windowed_jain
from tests.metrics.examples import epochs, rack


def test_by_hand() -> None:
    assert jain_index([5, 5, 5, 5]) == 1
    assert jain_index([1, 0, 0, 0]) == 0.25
    assert jain_index([1, 3]) == pytest.approx(16 / 20)
    assert math.isnan(jain_index([]))
    assert math.isnan(jain_index([0, 0]))


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=30).filter(any), st.floats(1e-6, 1e6))
def test_bounds_and_scale(shares: list[float], factor: float) -> None:
    index = jain_index(shares)
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9
    assert jain_index([x * factor for x in shares]) == pytest.approx(index)


def test_windows_average_over_time_and_count_backlogged_hosts_only() -> None:
    scenario = rack(hosts=3)
    goodput = np.zeros((40, 3))
    queued = np.ones((40, 3))
    # Window 1: hosts 0 and 1 take turns, equal over 20 ms; host 2 has nothing to send in one epoch of it.
    goodput[:20:2, 0] = goodput[1:20:2, 1] = 1e9
    queued[7, 2] = 0
    # Window 2: 1 : 3 : 0, all backlogged: 16 / (3 * 10).
    goodput[20:] = [1e8, 3e8, 0]
    run = epochs(scenario, 40, goodput_bps=goodput, queued_bytes=queued)
    assert windowed_jain(scenario, run) == pytest.approx((1 + 16 / 30) / 2)


def test_undefined_without_two_backlogged_hosts_or_a_whole_window() -> None:
    scenario = rack(hosts=2)
    assert math.isnan(windowed_jain(scenario, epochs(scenario, 40, goodput_bps=1e9, queued_bytes=[1, 0])))
    assert math.isnan(windowed_jain(scenario, epochs(scenario, 19, goodput_bps=1e9, queued_bytes=1)))
    assert windowed_jain(scenario, epochs(scenario, 20, goodput_bps=1e9, queued_bytes=1)) == 1


def test_hosts_are_compared_with_their_neighbours_only() -> None:
    scenario = rack().replace(topology=LeafSpine(leaves=2, spines=1, hosts_per_leaf=2))
    run = epochs(scenario, 20, goodput_bps=[1e9, 1e9, 2e9, 6e9], queued_bytes=1)
    assert windowed_jain(scenario, run) == pytest.approx((1 + 0.8) / 2)
