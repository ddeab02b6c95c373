# SPDX-License-Identifier: BSD-3-Clause
"""The trials of a sweep as command lines, and what cannot be compared or is said twice."""

from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution

from ncc.core.errors import ConfigError
from ncc.run.compose import composed
from ncc.study.sweep.spec import Sweep


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return composed("sweep")


def test_a_grid_is_every_combination_and_trials_are_command_lines_of_ncc_train(plain: dict[str, Any]) -> None:
    train = ["agent=a2c", "agent.epochs=7000"]
    sweep = Sweep.from_plain({**plain, "train": train}, {"agent.gamma": [0.5, 0.9], "seed": [3, 4]})
    assert sweep.n_trials == 4
    assert sweep.grid() == [{"agent.gamma": gamma, "seed": seed} for gamma in ("0.5", "0.9") for seed in "34"]
    assert sweep.overrides(sweep.grid()[1]) == ("agent=a2c", "agent.epochs=7000", "agent.gamma=0.5", "seed=4")
    plan, total_epochs = sweep.plan(sweep.grid()[3])
    assert (plan.learner.gamma, plan.seed, total_epochs) == (0.9, 4, 7000)
    assert sweep.datapath == "ns3", "the reference of those that trainings are judged on by default"


def test_a_sampler_that_goes_on_draws_others(plain: dict[str, Any]) -> None:
    asked = {**plain, "n_trials": 5, "sampler": {"name": "TPESampler", "n_startup_trials": 3}}
    spec = Sweep.from_plain(asked, {"agent.gamma": {"low": 0.5, "high": 0.9}}).spec
    drawn = [
        optuna.create_study(sampler=spec.made_sampler(before)).ask({"a": FloatDistribution(0, 1)}).params["a"]
        for before in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("changes", "space", "said"),
    [
        ({}, {"agent.gamma": [0.5, 2.0]}, "at agent.gamma=2.0: agent.gamma must be"),
        ({"n_trials": 3}, {"agent.gamma": {"low": 0.5, "high": 2.0}}, "at agent.gamma=2.0: agent.gamma must be"),
        ({}, {"agent.gamma": {"low": 0.5, "high": 0.9}}, "space.agent.gamma is a range: say how often"),
        ({"pruner": "MedianPrunr"}, {"seed": [1]}, "Did you mean 'MedianPruner'?"),
        ({"pruner": {"name": "MedianPruner", "steps": 3}}, {"seed": [1]}, "pruner=MedianPruner cannot be made ("),
        ({"sampler": "GridSampler"}, {"seed": [1]}, "sampler=GridSampler cannot be made ("),
        ({"train": ["seed=2"]}, {"seed": [1]}, "seed is both in space and in train"),
        ({"train": ["out=x"]}, {"seed": [1]}, "out of each trial is set by the sweep"),
        (
            {},
            {"env/reward": ["backlog", "utility"]},
            "differ in env.reward by space.env/reward, so",
        ),
        ({}, {"evaluation.seeds": [2, 3]}, "differ in evaluation by"),
        ({}, {"scenario.duration_s": [0.1, 0.2]}, "differ in scenario by"),
        ({"train": ["evaluation.controllers=[dctcp]"]}, {"seed": [1]}, "evaluation.controllers must have trained"),
        ({"concurrent": 0}, {"seed": [1]}, "concurrent"),
        ({"space": [1]}, {}, "space must be a mapping"),
        ({}, {"agent": [1]}, "at agent=1: Config group override must be a string or a list. Got int; give a group"),
        (
            {"train": ["agent.epochs=10"]},
            {"agent.gamma": [0.5, 0.9]},
            "at agent.gamma=0.5: agent.epochs must be",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    plain: dict[str, Any], changes: dict[str, Any], space: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        Sweep.from_plain({**plain, **changes}, space)
    assert said in str(error.value)
