# SPDX-License-Identifier: BSD-3-Clause
"""Decisions of receivers on whether new flows may start without a grant: worked arithmetic."""

from typing import Any

import numpy as np
import pytest

from ncc.core.receivers import Edges
from ncc.core.scenario import Transport
from ncc.harness.receivers import FADE, Admission
from tests.harness.bursts import HOSTS, scenario


def known(*pairs: tuple[int, int, float, float]) -> Edges:
    """Edges to the last host: sender, flows, missing payload, and age in periods."""
    src, flows, waiting, age = np.array(pairs, float).reshape(-1, 4).T
    dst = np.full(len(src), HOSTS[-1])
    return Edges(src.astype(int), dst, flows.astype(int), waiting, waiting, np.zeros(len(src)), age * 1e-4)


def admission(**changes: Any) -> Admission:
    """One of eight hosts. 0.6 of 100 KB may lie ahead, and a first window has two packets of 1460 bytes."""
    return Admission(scenario(transport=Transport(recovery="modern", initial_window_pkts=2)), 0.6, **changes)


FIRST = 2 * 1460


def test_new_flows_begin_at_once_if_their_first_windows_fit_beside_what_is_missing() -> None:
    made, to = admission(), HOSTS[-1]
    assert made.at_once(known())[to], "one flow of each of 7 hosts: 20 KB"
    assert made.at_once(known((HOSTS[0], 1, 12_000, 9), (HOSTS[1], 3, 27_000, 9)))[to]
    assert not made.at_once(known((HOSTS[0], 1, 13_000, 9), (HOSTS[1], 3, 27_000, 9)))[to]
    assert not made.at_once(known((HOSTS[0], 1, 1e9, 9)))[to]
    others = made.at_once(known((HOSTS[0], 1, 1e9, 9)))[list(HOSTS[:-1])]
    assert others.all(), "each receiver speaks for itself"
    assert made.at_once(known())[to]


def test_the_largest_burst_is_remembered_and_fades() -> None:
    made, to = admission(), HOSTS[-1]
    assert made.at_once(known((HOSTS[0], 15, 16_000, 0)))[to], "43.8 KB of first windows"
    assert made.at_once(known((HOSTS[0], 18, 0, 0)))[to], "3 of them are new"
    made = admission()
    assert not made.at_once(known((HOSTS[0], 21, 0, 0)))[to]
    assert not made.at_once(known((HOSTS[0], 21, 0, 1)))[to]
    waited = next(i for i in range(5000) if made.at_once(known())[to])
    assert waited == pytest.approx(np.log(21 * FIRST / 60_000) / -np.log(FADE), abs=3)


def test_a_burst_is_counted_over_the_time_until_senders_know_of_it() -> None:
    """10 and 11 flows are within two periods, then 11 and 5; 20 first windows fit."""
    made, to = admission(delay_periods=2), HOSTS[-1]
    assert made.at_once(known((HOSTS[0], 10, 0, 0)))[to]
    assert not made.at_once(known((HOSTS[0], 10, 0, 1), (HOSTS[1], 11, 0, 0)))[to]
    made = admission()
    assert made.at_once(known((HOSTS[0], 10, 0, 0)))[to]
    assert made.at_once(known((HOSTS[0], 10, 0, 1), (HOSTS[1], 11, 0, 0)))[to]
    assert made.at_once(known((HOSTS[0], 15, 0, 0), (HOSTS[1], 11, 0, 1)))[to]
