# SPDX-License-Identifier: BSD-3-Clause
"""Settings that all learners have. Training frameworks are loaded when training begins."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from ncc.agents.checkpoints import Checkpoints
from ncc.core.errors import ConfigError
from ncc.core.value import AbstractValue, Count, NonNegative, Positive, Value, usual
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report

BATCHED_RACKS = 16
"""Racks per environment beyond which the cost per rack hardly falls any more (`ncc bench`) and updates become rare."""
CLIP = 0.2
"""Largest deviation from 1 of the ratio of new to old probability in PPO's loss."""


def scheduled(start: float, final: float | None, fraction: float) -> float:
    """Value of a setting after `fraction` of the training, linear from `start` to `final`; None keeps it at `start`."""
    return start if final is None else start + (final - start) * min(fraction, 1.0)


class LearnerSettings(Value, metaclass=AbstractValue, frozen=True):
    """Settings of a policy gradient for hosts that share one policy; each host gives one sample per period.

    With `racks` and `rollout` set, as `build` of a subclass returns them, they are a `ncc.harness.learner.Learner`.
    Training writes three things into the run folder: `policy_untrained.ncc` (the initial weights) at its start,
    `checkpoints/` on the way, and `policy.ncc` at its end. Both policy files record learner, seed and number of periods
    in `training`.

    Rewards are multiplied by 1 - gamma, so that values are in units of the mean reward per period whatever the horizon.
    Advantages are scaled to mean square 1 in each update, so that `entropy_coef` means the same for every reward.
    """

    racks: Annotated[int, Meta(ge=1, le=1024)] | None = None
    """Racks in each environment: per worker or env runner if there are several, else in total. null: `BATCHED_RACKS`
    where the datapath steps many racks in one call (packetsim), else 1, because each rack then needs a process (ns-3).
    """
    epochs: Annotated[Count, usual(high=1e8)] = 200_000
    """Periods to train for, summed over racks and processes; rounded up to whole steps of all racks, or updates."""
    rollout: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """Periods of each rack between updates (t_max of A3C's paper). null: chosen by the number of racks."""
    gamma: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    learning_rate: Annotated[float, Meta(gt=0, le=1), usual(high=0.1)] = 1e-3
    """Step size of Adam. Wang (PhD thesis 2021) uses 1e-3 for imitation and 1e-4 online."""
    learning_rate_final: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Value that `learning_rate` reaches linearly at the end of training; null: it stays constant."""
    entropy_coef: NonNegative = 0.01
    """Weight of the entropy of discrete actions; real-valued actions have `noise` instead."""
    entropy_coef_final: NonNegative | None = None
    """Value that `entropy_coef` reaches linearly at the end of training; null: it stays constant."""
    noise: Positive = 0.17
    """Standard deviation of real-valued actions (`env.action.kind` residual, linear or log)."""
    noise_final: Positive | None = 0.08
    """Value that `noise` reaches linearly at the end of training; null: it stays constant."""
    value_coef: NonNegative = 0.5
    """Weight of the critic's error; 0: no critic. Rewards that compare copies of a network (`env.pairs`) need none."""
    passes: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Passes of an update over its samples. With 1, A3C uses the loss of its paper; with more, PPO's."""
    max_advantage: Positive | None = None
    """Size to which normalised advantages are clipped; null: they are not clipped."""
    max_grad_norm: Positive = 0.5
    hidden: tuple[Annotated[int, Meta(ge=1, le=4096)], ...] = (64, 64)
    """Sizes of the tanh layers, the same for the policy and the value network."""
    checkpoint_epochs: Count = 10_000
    """Periods between checkpoints. A2C then waits for the end of the episode, for at most as many periods again."""
    keep_checkpoints: Annotated[int, Meta(ge=1, le=1000)] = 3

    def check(self) -> None:
        if not self.hidden:
            raise ConfigError(f"{type(self).__name__}.hidden must name at least one layer, for instance [64, 64]")

    @property
    def racks_per_env(self) -> int:
        return self.racks or 1

    @property
    def processes(self) -> int:
        return self.racks_per_env * self.collectors

    @property
    def total_epochs(self) -> int:
        return self.epochs

    def check_env(self, n_actions: int, copies: int) -> None:
        """Check settings against an environment; see `ncc.harness.learner.Learner`."""

    @property
    @abstractmethod
    def collectors(self) -> int:
        """Environments stepped at a time."""

    @property
    @abstractmethod
    def made_by(self) -> dict[str, Any]:
        """Values, beside the seed, in which a run must equal a checkpoint that it resumes from."""

    def train(
        self, make_env: EnvFactory, folder: Path, seed: int, *, resume: bool, report: Report, meta: Mapping[str, Any]
    ) -> Path:
        checkpoints = Checkpoints(folder, self.keep_checkpoints, {**self.made_by, "seed": seed}, meta)
        return self.fit(make_env, checkpoints, report, resume=resume)

    @abstractmethod
    def fit(self, make_env: EnvFactory, checkpoints: Checkpoints, report: Report, *, resume: bool) -> Path:
        """Train, and return the policy's file; see `ncc.harness.learner.Learner`."""

    def racks_each(self, *, batching: bool) -> int:
        """Return the number of racks in each environment; `batching`: the datapath steps many racks in one call."""
        return self.racks or (BATCHED_RACKS if batching else 1)
