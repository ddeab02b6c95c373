# SPDX-License-Identifier: BSD-3-Clause
"""Returns of an evaluation's runs: the mean reward on flows that the learner has never met."""

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Epochs, Measurement
from ncc.envs.reward import AnyReward, Reward
from ncc.harness.results import Evaluation
from ncc.harness.run import Run


def evaluation_returns(evaluation: Evaluation, reward: AnyReward, episode_s: float) -> dict[str, FloatArray]:
    """Compute the return of each run, [n_seeds] by controller: the mean reward per host and period.

    Only the first `episode_s` seconds count. If they are as long as an episode of the training, the numbers can be
    compared with its learning curve, because both begin with an empty network.
    """
    return {
        name: np.array([_return(run.load(), reward, episode_s) for run in evaluation.of(name)])
        for name in evaluation.controllers
    }


def _return(run: Run, spec: AnyReward, episode_s: float) -> float:
    scenario, epochs, reward = run.scenario, run.epochs, Reward(spec)
    reward.reset(scenario)
    shown = np.flatnonzero(epochs.time_s <= episode_s + scenario.period_s / 2)
    return float(np.mean([reward.reward(_measurement(epochs, int(i))).mean() for i in shown]))


def _measurement(epochs: Epochs, i: int) -> Measurement:
    """Take the measurement of period `i` out of the columns of all periods."""
    columns = {name: column[i] for name, column in epochs.columns.items() if name != "time_s"}
    return Measurement(time_s=float(epochs.time_s[i]), **columns)
