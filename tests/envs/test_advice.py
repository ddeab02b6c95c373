# SPDX-License-Identifier: BSD-3-Clause
"""Whom a learner may ask: experts' limits as action indices."""

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.receivers import parts
from ncc.envs.action import ActionSpec, RateTable
from ncc.envs.expert import AnyExpert, TransportExpert
from ncc.envs.observation import ObservationSpec
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.batch import Advising
from ncc.harness.controller import MaxMinLimit, ShortestFirstLimit
from tests.envs.cases import rack

VIEW = EnvView(observation=ObservationSpec(neighbours="ranked"), action=ActionSpec(kind="shares"))


def batch(expert: AnyExpert | None, n_racks: int) -> RackBatch:
    spec = EnvSpec(scenario=rack(), view=VIEW, expert=expert)
    return RackBatch(spec, PacketsimDatapath, seed=1, n_racks=n_racks)


@pytest.mark.parametrize("n_racks", [1, 3])
@pytest.mark.parametrize("expert", [MaxMinLimit(), ShortestFirstLimit()])
def test_advice_is_the_action_nearest_to_the_experts_limit(expert: AnyExpert, n_racks: int) -> None:
    env = batch(expert, n_racks)
    assert isinstance(env, Advising)
    obs = env.reset()
    oracle = expert.build()
    oracle.reset(rack(), 0)
    table = RateTable(VIEW.action, VIEW.observation)
    table.reset(rack())
    limited = 0
    for _ in range(100):
        advice = env.advice()
        for row, m in enumerate(env._racks.each()):
            np.testing.assert_array_equal(advice.label[row], table.nearest(parts(oracle.decide(m))[0], obs[row]))
        np.testing.assert_array_equal(advice.label, advice.drive)
        limited += int((advice.label < env.n_actions - 1).sum())
        obs = env.step(advice.drive).obs
    assert limited > 0
    env.close()


def test_a_transport_is_followed_and_never_limited() -> None:
    env = batch(TransportExpert(), 2)
    env.reset()
    labels = []
    for _ in range(50):
        advice = env.advice()
        assert (advice.drive == env.n_actions - 1).all()
        labels.append(advice.label)
        env.step(advice.drive)
    assert (np.stack(labels) < env.n_actions - 1).any()
    env.close()


def test_who_has_no_expert_says_so() -> None:
    env = batch(None, 1)
    env.reset()
    with pytest.raises(ConfigError, match="given no expert to ask; set expert"):
        env.advice()
