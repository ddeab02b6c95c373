# SPDX-License-Identifier: BSD-3-Clause
"""Policies of thresholds: from a file to decisions, and what does not fit."""

from pathlib import Path

import numpy as np
import pytest

from ncc.agents.policy import MlpPolicy, save_policy
from ncc.core.errors import ConfigError
from ncc.core.measurement import idle
from ncc.core.receivers import Decision
from ncc.envs.scenarios import make_scenario
from ncc.envs.thresholds import N_THRESHOLDS, OBS_DIM
from ncc.harness.controller import Controller, PolicyLimit
from ncc.harness.datapath import HostStack
from ncc.policies.thresholds import ThresholdLimiter
from ncc.run.limiters import LimiterFactory

SCENARIO = make_scenario("priorities", hosts=2)
CONSTANT = [(np.zeros((N_THRESHOLDS, OBS_DIM), np.float32), np.full(N_THRESHOLDS, 10, np.float32))]
STACK = {"transport": "dctcp", "tags": "pias"}


def test_a_file_decides_by_its_outputs_and_brings_its_stack(tmp_path: Path) -> None:
    save_policy(tmp_path / "own.ncc", CONSTANT, {"thresholds": 1, "stack": STACK})
    controller = Controller(name="own", limit=PolicyLimit(path=str(tmp_path / "own.ncc")))
    factory = LimiterFactory(None)
    assert factory.resolved(controller).stack == HostStack(tags="pias")
    limiter = factory(controller, SCENARIO)
    limiter.reset(SCENARIO, 1)
    decision = limiter.decide(idle(SCENARIO.n_agents, 1))
    assert isinstance(decision, Decision)
    assert np.isinf(decision.limits_bps).all()
    assert decision.grants is None
    assert decision.tag_params == tuple(10**k for k in range(3, 10)), "tanh(10) is 1"


def test_a_policy_of_another_shape_is_refused() -> None:
    layers = [(np.zeros((3, OBS_DIM), np.float32), np.zeros(3, np.float32))]
    with pytest.raises(ConfigError, match="it has 13 inputs and 3 outputs, and thresholds have 13 and 7"):
        ThresholdLimiter(MlpPolicy(layers), "it")


def test_a_scenario_without_classes_is_refused_before_it_runs(tmp_path: Path) -> None:
    save_policy(tmp_path / "own.ncc", CONSTANT, {"thresholds": 1, "stack": STACK})
    controller = Controller(name="own", limit=PolicyLimit(path=str(tmp_path / "own.ncc")))
    with pytest.raises(ConfigError, match=r"set scenario\.topology\.classes to 8"):
        LimiterFactory(None)(controller, make_scenario("rack"))
