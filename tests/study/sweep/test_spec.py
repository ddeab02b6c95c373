# SPDX-License-Identifier: BSD-3-Clause
"""The trials of a sweep as command lines, and what cannot be compared or is said twice."""

from typing import Any

import pytest

from ncc.core.errors import ConfigError
from ncc.run.compose import composed
from ncc.study.sweep.spec import Sweep


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return composed("sweep")


def test_trials_are_command_lines_of_ncc_train(plain: dict[str, Any]) -> None:
    train = ["agent=a2c", "agent.epochs=7000"]
    sweep = Sweep.from_plain({**plain, "train": train}, {"agent.gamma": [0.5, 0.9], "seed": [3]})
    assert [(trial.name, trial.overrides) for trial in sweep.trials] == [
        ("gamma-0.5_seed-3", ("agent=a2c", "agent.epochs=7000", "agent.gamma=0.5", "seed=3")),
        ("gamma-0.9_seed-3", ("agent=a2c", "agent.epochs=7000", "agent.gamma=0.9", "seed=3")),
    ]
    assert [trial.setting for trial in sweep.trials] == [{"agent.gamma": 0.5}, {"agent.gamma": 0.9}]
    assert [trial.total_epochs for trial in sweep.trials] == [7000, 7000]
    assert [trial.plan.learner.gamma for trial in sweep.trials] == [0.5, 0.9]
    assert sweep.datapath == "ns3", "the reference of those that trainings are judged on by default"


@pytest.mark.parametrize("agent", ["a3c", "rllib_impala"])
def test_agents_of_each_kind_can_be_swept(plain: dict[str, Any], agent: str) -> None:
    sweep = Sweep.from_plain({**plain, "train": [f"agent={agent}"]}, {"agent.learning_rate": [1e-4, 1e-3]})
    assert [trial.plan.learner.learning_rate for trial in sweep.trials] == [1e-4, 1e-3]


@pytest.mark.parametrize(
    ("changes", "space", "said"),
    [
        ({}, {"agent.gamma": [0.5, 2.0]}, "trial gamma-2.0: agent.gamma must be"),
        ({"scheduler": "asia"}, {"seed": [1]}, "Unknown scheduler 'asia'; known: asha, null. Did you mean 'asha'?"),
        ({"train": ["seed=2"]}, {"seed": [1]}, "seed is both in space and in train"),
        ({"train": ["out=x"]}, {"seed": [1]}, "out of each trial is set by the sweep"),
        ({}, {"env/reward": ["backlog", "utility"]}, "differ in env.reward, so that their returns cannot be compared"),
        ({}, {"evaluation.seeds": [2, 3]}, "differ in evaluation,"),
        ({}, {"scenario.duration_s": [0.1, 0.2]}, "differ in scenario,"),
        ({"train": ["evaluation.controllers=[dctcp]"]}, {"seed": [1]}, "evaluation.controllers must have trained"),
        ({"wheel": "ncc.whl"}, {"seed": [1]}, "wheel is for the workers of a cluster"),
        ({"concurrent": 0}, {"seed": [1]}, "concurrent"),
        ({"space": [1]}, {}, "space must be a mapping"),
        ({}, {"agent": [1]}, "trial agent-1: Config group override must be a string or a list. Got int; give a group"),
        ({"train": ["agent.epochs=10"]}, {"agent.gamma": [0.5, 0.9]}, "trial gamma-0.5: agent.epochs must be at least"),
        ({"address": ""}, {"seed": [1]}, "address must be auto or host:port of a Ray cluster's head"),
    ],
)
def test_what_cannot_be_is_refused(
    plain: dict[str, Any], changes: dict[str, Any], space: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        Sweep.from_plain({**plain, **changes}, space)
    assert said in str(error.value)
