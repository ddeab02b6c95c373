# SPDX-License-Identifier: BSD-3-Clause
"""An update: a rollout, its advantages and n-step returns for all racks and hosts at once, and clipped gradients."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.network import ActorCritic, NetShape
from ncc.agents.a3c.rollout import Bool, Collector, Float, Rollout
from ncc.agents.a3c.run import TrainState
from ncc.agents.settings import scheduled
from ncc.core.errors import InvalidRunError
from ncc.harness.batch import ObsArray

Scalars = dict[str, float]


@dataclass(frozen=True)
class Update:
    """Results of an update for progress reports."""

    epochs: int
    """Periods collected for it, summed over racks."""
    returns: tuple[float, ...]
    """Mean reward per host and period of each episode that ended."""
    scalars: Scalars
    """Losses and other numbers by name."""


class Updater:
    """A worker that collects from its environment, and updates weights that it may share with other workers.

    Args:
        collector: collector of the worker's environment.
        config: settings.
        shape: sizes of the networks.
        state: weights, moments and counts, which each update changes.
        held: makes a context in which this worker alone reads and changes `state`, for instance by a lock.
    """

    def __init__(
        self,
        collector: Collector,
        config: A3cConfig,
        shape: NetShape,
        state: TrainState,
        held: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._collector, self._config, self._state, self._held = collector, config, state, held
        self._model, self._params = ActorCritic(shape, critic=config.value_coef > 0), torch.empty_like(state.params)

    def update(self, *, stop_at_boundary: bool = False) -> Update | None:
        """Collect a rollout and apply its gradients; return None if no periods are left to collect.

        Args:
            stop_at_boundary: as in `Collector.collect`.
        """
        config, state, model = self._config, self._state, self._model
        with self._held():
            steps = state.claim(config.steps, self._collector.n_racks, config.gradient_epochs)
            self._params.copy_(state.params)
        if not steps:
            return None
        model.load(self._params)
        model.deviation = config.deviation(state.epochs)
        rollout = self._collector.collect(model, steps, stop_at_boundary=stop_at_boundary)
        left = rollout.epochs
        for scalars in gradients(model, rollout, config, state.epochs / config.gradient_epochs):
            with self._held():
                state.apply(model.gradient, scalars["update/learning_rate"], left)
                self._params.copy_(state.params)
            model.load(self._params)
            left = 0
        return Update(rollout.epochs, rollout.returns, {**scalars, **rollout.metrics})


def gradients(model: ActorCritic, rollout: Rollout, config: A3cConfig, fraction: float) -> Iterator[Scalars]:
    """Compute each gradient of `rollout` into ``model.gradient``, clipped to `max_grad_norm`; yield numbers for logs.

    There is one gradient per pass. The caller applies it and loads the new weights before it asks for the next.
    `fraction` is the part of the training that is done, from which scheduled settings follow.

    Raises:
        InvalidRunError: the gradient is not finite.
    """
    advantage, returns = returns_of(model.value, rollout, config.gamma)
    explained = 1 - float(advantage.var()) / variance if (variance := float(returns.var())) > 0 else 0.0
    logged = {"value/mean": float(rollout.values.mean()), "value/explained_variance": explained}
    entropy_coef = scheduled(config.entropy_coef, config.entropy_coef_final, fraction)
    learning_rate = scheduled(config.learning_rate, config.learning_rate_final, fraction)
    scaled = normalized(advantage, config.max_advantage, (0, 2) if config.normalize_per_rack else None).ravel()
    taken, target = rollout.actions.ravel(), returns.ravel()
    # With a single pass, the network still has the rollout, and the loss is A3C's.
    again = None if config.passes == 1 else (model.observed(), model.chosen(taken))
    for number in range(config.passes):
        if again is not None and number:
            model.replay(again[0])
        losses = model.learn(
            taken,
            scaled,
            target,
            value_coef=config.value_coef,
            entropy_coef=entropy_coef,
            before=None if again is None else again[1],
        )
        norm = float(torch.linalg.vector_norm(model.gradient))
        if not math.isfinite(norm):
            raise InvalidRunError(
                f"the gradient is {norm} after {fraction:.0%} of the training; lower the learning rate"
            )
        if norm > config.max_grad_norm:
            model.gradient.mul_(config.max_grad_norm / norm)
        yield logged | {
            "loss/policy": losses.policy,
            "loss/value": losses.value,
            "policy/entropy": losses.entropy,
            "policy/entropy_coef": entropy_coef,
            "update/grad_norm": norm,
            "update/learning_rate": learning_rate,
        }


def normalized(advantage: Float, at_most: float | None, axes: tuple[int, ...] | None = None) -> Float:
    """Divide advantages by their root mean square over `axes` (None: all), and clip them to [-at_most, at_most].

    Without `at_most` nothing is clipped. The mean is not subtracted, so that a rollout of one sample keeps its sign.
    """
    advantage = advantage / (np.sqrt(np.mean(advantage**2, axis=axes, keepdims=True)) + np.float32(1e-8))
    return advantage if at_most is None else np.clip(advantage, -at_most, at_most)


def returns_of(value: Callable[[ObsArray], Float], rollout: Rollout, gamma: float) -> tuple[Float, Float]:
    """Return advantages and returns, each [T, n_racks, n_agents], in units of the mean reward per period.

    Args:
        value: function from observations [..., obs_dim] to their values [...].
        rollout: the periods collected.
        gamma: discount per period.
    """
    following = np.concatenate([rollout.values[1:], value(rollout.last_obs)[None]])
    if rollout.cut:
        for (t, rack), each in zip(rollout.cut, value(np.stack(rollout.cut_obs)), strict=True):
            following[t, rack] = each
    return advantages(
        rollout.rewards * np.float32(1 - gamma),
        rollout.values,
        following,
        terminated=rollout.terminated,
        truncated=rollout.truncated,
        gamma=gamma,
    )


def advantages(
    rewards: Float, values: Float, next_values: Float, *, terminated: Bool, truncated: Bool, gamma: float
) -> tuple[Float, Float]:
    """Compute n-step returns (Mnih et al., 2016) and advantages, which are returns less values.

    A return sums the discounted rewards up to the end of the rollout or the episode, and the discounted value of the
    observation after that. Where an episode terminated, this last value is 0; where it was truncated, it is not.

    Args:
        rewards: [T, n_racks, n_agents] reward of step t.
        values: [T, n_racks, n_agents] value of the observation acted on in step t.
        next_values: [T, n_racks, n_agents] value of the observation after step t *in the same episode*, that is of
            `final_obs` where the episode ended; ignored where it terminated.
        terminated: [T, n_racks] the episode reached its end in step t.
        truncated: [T, n_racks] time was up in step t.
        gamma: discount per period.

    Returns:
        Advantages and returns (advantage + value), each [T, n_racks, n_agents].
    """
    following_values: Float = np.where(terminated[..., None], np.float32(0), next_values)
    goes_on = np.where(terminated | truncated, np.float32(0), np.float32(1))[..., None]
    deltas: Float = rewards + np.float32(gamma) * following_values - values
    decay = np.float32(gamma) * goes_on
    result = np.empty_like(deltas)
    following = np.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        following = deltas[t] + decay[t] * following
        result[t] = following
    return result, result + values
