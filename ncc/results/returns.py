# SPDX-License-Identifier: BSD-3-Clause
"""Returns of an evaluation's runs: the learner's reward on flows that it has never met."""

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Epochs, Measurement
from ncc.envs.reward import AnyReward
from ncc.harness.results import Evaluation
from ncc.harness.run import Run


def evaluation_returns(evaluation: Evaluation, reward: AnyReward, episode_s: float) -> dict[str, FloatArray]:
    """Mean reward per host and period over the first `episode_s` seconds of each run, by controller: [n_seeds].

    With the length of a training episode from an empty network, the numbers can be compared with a learning curve.
    """
    return {
        name: np.array([_return(run.load(), reward, episode_s) for run in evaluation.of(name)])
        for name in evaluation.controllers
    }


def _return(run: Run, spec: AnyReward, episode_s: float) -> float:
    scenario, epochs, reward = run.scenario, run.epochs, spec.build()
    reward.reset(scenario)
    shown = np.flatnonzero(epochs.time_s <= episode_s + scenario.period_s / 2)
    return float(np.mean([reward.reward(_measurement(epochs, int(i))).mean() for i in shown]))


def _measurement(epochs: Epochs, i: int) -> Measurement:
    """Measurement `i` of the stacked ones."""
    columns = {name: column[i] for name, column in epochs.columns.items() if name != "time_s"}
    return Measurement(time_s=float(epochs.time_s[i]), **columns)
