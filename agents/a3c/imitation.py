# SPDX-License-Identifier: BSD-3-Clause
"""The warm start: imitates the environment's expert and leaves a checkpoint for reinforcement learning."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.config import A3cConfig, scheduled
from ncc.agents.a3c.network import ActorCritic
from ncc.agents.a3c.rollout import Collector, Float
from ncc.agents.a3c.run import TrainingRun
from ncc.agents.a3c.samples import Batch, Samples
from ncc.agents.a3c.update import Scalars, clip_gradient, explained_variance, returns_of
from ncc.agents.a3c.warm_start import WarmStart
from ncc.agents.progress import Meter
from ncc.core.errors import ConfigError
from ncc.core.seeding import generator
from ncc.harness.batch import ActionArray, Advising, BatchedEnv, ObsArray
from ncc.harness.learner import Report

MAX_WEIGHT = 20.0
"""Largest weight of a sample under `WarmStart.balance`. The mean weight is 1, and without a bound an answer seen once
would outweigh all others."""


def warm_up(run: TrainingRun, warm: WarmStart, env: BatchedEnv, report: Report) -> None:
    """Imitate the expert of `env`, and set ``run.loaded`` to the checkpoint from which to continue.

    Equal seeds give bit-equal weights on one thread. An interruption leaves the checkpoint of the untrained state, so
    a resumed run repeats the warm start.

    Raises:
        ConfigError: the environment knows no expert, or its advice contradicts its sizes.
        InvalidRunError: rewards, logits or gradients that are not finite.
    """
    if not isinstance(env, Advising):
        raise ConfigError(
            f"agent.warm_start needs an environment that knows an expert, and {type(env).__name__} offers none; set "
            "`expert` of the environment, or leave out agent.warm_start"
        )
    shape = run.shape(env)
    state = run.begin(shape)
    if run.loaded is None:
        run.save_start(shape, state)
    rng = generator(run.seed, "a3c", "warm")
    model = ActorCritic(shape)
    model.load(state.params)
    pupil = _Pupil(run.config, warm, model, TrainState.fresh(state.params.clone()), env.obs_dim, rng)
    taught = _Taught(model, env, (env.n_racks, env.n_agents), env.n_actions, warm.every)
    collector = Collector(env, rng, warm.rollout, 0)
    meter = Meter(report, 0, run.config.total_epochs)
    epochs, handover = 0, warm.driven_frac * warm.epochs
    while epochs < warm.epochs:
        drove, taught.expert_drives = taught.expert_drives, epochs < handover
        if drove and not taught.expert_drives:
            pupil.samples.forget_returns()
        until = handover if taught.expert_drives else warm.epochs
        rollout = collector.collect(taught, min(warm.rollout, math.ceil((until - epochs) / env.n_racks)))
        advantage, returns = returns_of(model, rollout, run.config, gae_lambda=1.0)
        asked = taught.take_asked()
        scalars: Scalars = {"imitation/expert_drives": float(taught.expert_drives)}
        if asked.epochs:
            obs = model.observed().view(len(returns), -1, env.obs_dim)[asked.epochs].reshape(-1, env.obs_dim)
            kept = returns[asked.epochs]
            new = Batch(obs, asked.labels, torch.from_numpy(kept).reshape(-1), torch.ones(kept.size))
            scalars |= pupil.examine(new, advantage[asked.epochs])
            scalars |= pupil.learn(new, epochs / warm.epochs)
        else:
            model.load(pupil.state.params)  # also begins the next rollout
        epochs += rollout.epochs
        meter.add(rollout.epochs, rollout.returns, {**scalars, **rollout.metrics})
    meter.flush()
    run.finish_warm_start(shape, pupil.state.params, epochs, collector.next_episode)


class _Asked(NamedTuple):
    """The epochs of a rollout for which the expert was asked."""

    epochs: list[int]
    labels: Tensor
    """[len(epochs) * racks * agents]"""


class _Taught:
    """An actor that uses the policy's or the expert's actions, and asks the expert in one epoch out of `every`."""

    def __init__(
        self, model: ActorCritic, expert: Advising, agents: tuple[int, int], n_actions: int, every: int
    ) -> None:
        self.expert_drives = False
        self._model, self._expert, self._agents, self._n_actions = model, expert, agents, n_actions
        self._every, self._now, self._taken = every, 0, 0
        self._epochs: list[int] = []
        self._labels: list[Tensor] = []

    def act(self, obs: ObsArray, uniform: npt.NDArray[np.float64], actions: ActionArray, values: Float) -> bool:
        """Fill `actions` and `values` as `ActorCritic.act` does; `obs` must be what the environment returned last."""
        # Run the policy first even if the expert drives: its value is needed, and the model keeps the observations.
        if not self._model.act(obs, uniform, actions, values):
            return False
        due, epoch = self._now % self._every == 0, self._now - self._taken
        self._now += 1
        if not due and not self.expert_drives:
            return True  # asking the expert takes longer than the epoch
        advice = self._expert.advice()
        for what, indices in (("label", advice.label), ("drive", advice.drive)):
            if indices.shape != self._agents or indices.min() < 0 or indices.max() >= self._n_actions:
                raise ConfigError(
                    f"advice().{what} must be actions from 0 to {self._n_actions - 1} of shape {list(self._agents)}, "
                    f"got {indices.min()} to {indices.max()} of shape {list(indices.shape)}"
                )
        if due:
            self._epochs.append(epoch)
            self._labels.append(torch.tensor(advice.label, dtype=torch.int64).reshape(-1))
        if self.expert_drives:
            actions[:] = advice.drive.reshape(-1)
        return True

    def take_asked(self) -> _Asked:
        """Return what was recorded since the last call, in the order of `ActorCritic.observed`."""
        labels = torch.cat(self._labels) if self._labels else torch.zeros(0, dtype=torch.int64)
        asked = _Asked(self._epochs, labels)
        self._epochs, self._labels, self._taken = [], [], self._now
        return asked


@dataclass
class _Pupil:
    """The networks that imitate, and the samples that they learn from."""

    config: A3cConfig
    warm: WarmStart
    model: ActorCritic
    state: TrainState
    obs_dim: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.samples = Samples(self.warm.memory_samples, self.obs_dim)

    def examine(self, new: Batch, advantage: Float) -> Scalars:
        """Measure how well the model answers new samples before it learns from them."""
        log_probs, labels = self.model.log_probs(new.obs), new.labels
        right = (log_probs.argmax(-1) == labels).float()
        n_actions = log_probs.shape[-1]
        counts = torch.bincount(labels, minlength=n_actions)
        hits = torch.bincount(labels, weights=right, minlength=n_actions)
        scalars = {
            "loss/imitation": -log_probs.gather(-1, labels[:, None]).mean().item(),
            "imitation/accuracy": right.mean().item(),
            "imitation/recall": (hits[counts > 0] / counts[counts > 0]).mean().item(),
            "policy/entropy": -(log_probs.exp() * log_probs).sum(-1).mean().item(),
        }
        if self.warm.value:
            scalars["loss/value"] = 0.5 * float(np.square(advantage).mean())
            scalars["value/explained_variance"] = explained_variance(advantage, new.returns.numpy())
        return scalars

    def learn(self, new: Batch, fraction: float) -> Scalars:
        """Keep new samples and make the Adam steps that are due for them."""
        self.samples.add(new)
        warm, rows = self.warm, min(self.warm.batch_size, len(self.samples))
        weights = self._weights()
        learning_rate = scheduled(warm.learning_rate, warm.learning_rate_final, fraction)
        steps, norms = max(1, round(warm.passes * len(new.labels) / rows)), 0.0
        self.model.load(self.state.params)
        for _ in range(steps):
            self.model.imitate(
                self.samples.draw(self.rng, rows),
                weights=weights,
                smoothing=warm.label_smoothing,
                value_coef=self.config.value_coef if warm.value else 0.0,
            )
            norms += clip_gradient(self.model, self.config.max_grad_norm, f"{fraction:.0%} of the warm start")
            self.state.apply(self.model.gradient, learning_rate, 0)
            self.model.load(self.state.params)
        return {"update/grad_norm": norms / steps, "update/learning_rate": learning_rate}

    def _weights(self) -> Tensor | None:
        """Weight of a sample by its label, [n_actions]; None if all weigh the same."""
        if self.warm.balance == 0:
            return None
        share = self.samples.frequencies(self.model.n_actions)
        weights = torch.where(share > 0, share.clamp(min=1e-12) ** -self.warm.balance, torch.zeros(()))
        return (weights / (share * weights).sum()).clamp(max=MAX_WEIGHT)
