# SPDX-License-Identifier: BSD-3-Clause
"""Settings that all learners have, and a learner made of them. Training frameworks are loaded when it begins."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from ncc.agents.checkpoints import Checkpoints
from ncc.core.errors import ConfigError
from ncc.core.plausible import usual
from ncc.core.value import Count, NonNegative, Positive, Value
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report

BATCHED_RACKS = 16
"""Racks per environment beyond which the cost per rack hardly falls any more (`ncc bench`) and updates become rare."""
CLIP = 0.2
"""Largest deviation from 1 of the ratio of new to old probability in PPO's loss."""


def scheduled(start: float, final: float | None, fraction: float) -> float:
    """Value of a setting after `fraction` of the training, linear from `start` to `final`; None keeps it at `start`."""
    return start if final is None else start + (final - start) * min(fraction, 1.0)


class LearnerSettings(Value, frozen=True):
    """Settings of a policy gradient for hosts that share one policy; each host of each rack is one sample.

    Rewards are scaled by 1 - gamma, so that values are in units of the mean reward per period whatever the horizon,
    and advantages to mean square 1 per update, so that `entropy_coef` means the same for every reward.
    """

    racks: Annotated[int, Meta(ge=1, le=1024)] | None = None
    """Racks in each environment: per worker or env runner if there are several, else in total. null: `BATCHED_RACKS`
    where the datapath steps many racks in one call (packetsim), else 1, because each rack then needs a process (ns-3).
    """
    epochs: Annotated[Count, usual(high=1e8)] = 200_000
    """Periods to train for, summed over racks and processes; rounded up to whole steps of all racks, or updates."""
    rollout: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """Periods between updates (t_max of A3C's paper). null: chosen by the number of racks."""
    gamma: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    learning_rate: Annotated[float, Meta(gt=0, le=1), usual(high=0.1)] = 1e-3
    """wang2021 uses 1e-3 to imitate and 1e-4 online."""
    learning_rate_final: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Value that `learning_rate` reaches linearly at the end of training; null: it stays constant."""
    entropy_coef: NonNegative = 0.01
    """Weight of the entropy of discrete actions; real-valued actions have `noise` instead."""
    entropy_coef_final: NonNegative | None = None
    """Value that `entropy_coef` reaches linearly at the end of training; null: it stays constant."""
    noise: Positive = 0.17
    """Standard deviation of actions that are numbers (`env.action.kind` residual, linear or log)."""
    noise_final: Positive | None = 0.08
    """Value that `noise` reaches linearly at the end of training; null: it stays constant."""
    value_coef: NonNegative = 0.5
    """Weight of the critic's error; 0: there is no critic. Rewards over copies (`env.pairs`) need none."""
    passes: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Passes of an update over its samples. In A3C, 1 has the loss of A3C's paper; more have PPO's."""
    max_advantage: Positive | None = None
    """Largest size of a normalised advantage; null: any."""
    max_grad_norm: Positive = 0.5
    hidden: tuple[Annotated[int, Meta(ge=1, le=4096)], ...] = (64, 64)
    """Sizes of the tanh layers, the same for the policy and the value network."""
    checkpoint_epochs: Count = 10_000
    """Periods between checkpoints. A2C then waits for the end of the episode, for at most as many periods again."""
    keep_checkpoints: Annotated[int, Meta(ge=1, le=1000)] = 3

    def check(self) -> None:
        if not self.hidden:
            raise ConfigError(f"{type(self).__name__}.hidden must name at least one layer, for instance [64, 64]")

    def check_env(self, n_actions: int, copies: int) -> None:
        """Check settings against an environment; see `ncc.harness.learner.Learner`."""

    def racks_each(self, *, batching: bool) -> int:
        """Racks in each environment; `batching`: the datapath steps many racks in one call."""
        return self.racks or (BATCHED_RACKS if batching else 1)


class PolicyLearner:
    """A learner made of settings, racks and rollout among them; see `ncc.harness.learner.Learner`.

    It writes into the run folder `policy_untrained.ncc` at the start (the weights before training), `checkpoints/`, and
    `policy.ncc` when training is complete. Policy files say what made them in `training` (learner, seed, periods).

    Args:
        config: `LearnerSettings` with `collectors` (environments stepped at a time), `made_by` (what a run must have in
            common with a checkpoint that it resumes from, beside the seed) and `fit`, which trains.
    """

    def __init__(self, config: Any) -> None:
        self.config = config
        self.racks_per_env = config.racks or 1
        self.processes = self.racks_per_env * config.collectors
        self.total_epochs = config.epochs

    def check_env(self, n_actions: int, copies: int) -> None:
        self.config.check_env(n_actions, copies)

    def train(
        self,
        make_env: EnvFactory,
        folder: Path,
        seed: int,
        *,
        resume: bool,
        report: Report,
        meta: Mapping[str, Any],
    ) -> Path:
        made_by = {**self.config.made_by, "seed": seed}
        checkpoints = Checkpoints(folder, self.config.keep_checkpoints, made_by, meta)
        policy: Path = self.config.fit(make_env, checkpoints, report, resume=resume)
        return policy
