# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of their networks that environments give the log."""

from dataclasses import replace

import numpy as np
import pytest

from ncc.agents.a3c.rollout import Collector
from ncc.core.seeding import generator
from ncc.envs.rack import RackBatch
from ncc.envs.tally import EVERY, Tally, means
from ncc.harness.batch import ActionArray, ObsArray
from tests.envs.cases import FLOWS, measured, poisson, rack, spec

RATE = 1e9


def test_every_number_by_hand() -> None:
    """One of 10 epochs of 1 ms: 7 flows under way, 2 more finished."""
    scenario = rack()
    tally = Tally(scenario, 1)
    limits = np.array([[RATE / 2, RATE, np.inf, RATE / 4]])
    now = replace(
        measured(scenario, EVERY, goodput_bps=1e8, uplink_queue_delay_s=3e-5), flows_started=9, flows_finished=2
    )
    for _ in range(EVERY):
        tally.add(now, limits)
    metrics = means(tally.sums)
    assert metrics["network/fct_s"] == pytest.approx(7 * EVERY * scenario.period_s / 2)
    assert metrics["network/goodput_bps"] == pytest.approx(4e8)
    assert metrics["network/queue_delay_s"] == pytest.approx(3e-5)
    assert metrics["network/limit_frac"] == pytest.approx((0.5 + 1 + 1 + 0.25) / 4)


def test_no_epochs_have_no_metrics() -> None:
    assert means(Tally(rack(), 1).sums) == {}
    tally = Tally(rack(), 1)
    for _ in range(EVERY):
        tally.add(replace(measured(rack(), EVERY), flows_started=3), np.full((1, 4), np.inf))
    assert "network/fct_s" not in means(tally.sums), "no flow has finished"


class Last:
    """Chooses one action."""

    def act(self, obs: ObsArray, uniform: np.ndarray, actions: ActionArray, values: np.ndarray) -> bool:
        actions[:], values[:] = 0, 0
        return True


def test_a_rollout_hands_it_on() -> None:
    env = RackBatch(spec(rack(poisson(), periods=50)), FLOWS, seed=1, n_racks=2)
    collector = Collector(env, generator(1, "test"), 40, 0)
    assert set(collector.collect(Last(), 40).metrics) >= {"network/goodput_bps", "network/queue_delay_s"}  # type: ignore[arg-type]
    assert collector.collect(Last(), 40).metrics["network/limit_frac"] < 0.2  # type: ignore[arg-type]
    env.close()
