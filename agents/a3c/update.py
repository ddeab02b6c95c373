# SPDX-License-Identifier: BSD-3-Clause
"""From a rollout to a clipped gradient."""

import math

import numpy as np

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.network import ActorCritic
from ncc.agents.a3c.returns import advantages
from ncc.agents.a3c.rollout import Float, Rollout
from ncc.core.errors import InvalidRunError

Scalars = dict[str, float]


def scheduled(start: float, final: float | None, fraction: float) -> float:
    """A setting after `fraction` of the training: linear from `start` to `final`, constant without `final`."""
    return start if final is None else start + (final - start) * min(fraction, 1.0)


def compute_gradient(model: ActorCritic, rollout: Rollout, config: A3cConfig, fraction: float) -> Scalars:
    """Leave the gradient of the loss over `rollout` in ``model.gradient``, its norm clipped to `max_grad_norm`.

    Raises:
        InvalidRunError: the gradient is not finite.
    """
    known = rollout.values
    advantage, returns = advantages(
        rollout.rewards * np.float32(1 - config.gamma),
        known,
        _next_values(model, rollout, known),
        terminated=rollout.terminated,
        truncated=rollout.truncated,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
    )
    scaled = advantage
    if config.normalize_advantage:
        # By the root mean square and not around the mean: a rollout of a single sample keeps its sign.
        scaled = advantage / (np.sqrt(np.mean(advantage**2)) + np.float32(1e-8))
    entropy_coef = scheduled(config.entropy_coef, config.entropy_coef_final, fraction)
    losses = model.learn(rollout.actions, scaled, returns, value_coef=config.value_coef, entropy_coef=entropy_coef)
    norm = float(model.gradient.norm())
    if not math.isfinite(norm):
        raise InvalidRunError(f"the gradient is {norm} after {fraction:.0%} of the training; lower agent.learning_rate")
    if norm > config.max_grad_norm:
        model.gradient.mul_(config.max_grad_norm / norm)
    variance = float(returns.var())
    return {
        "loss/policy": losses.policy,
        "loss/value": losses.value,
        "policy/entropy": losses.entropy,
        "policy/entropy_coef": entropy_coef,
        "value/mean": float(known.mean()),
        "value/explained_variance": 1 - float(advantage.var()) / variance if variance > 0 else 0.0,
        "update/grad_norm": norm,
        "update/learning_rate": scheduled(config.learning_rate, config.learning_rate_final, fraction),
    }


def _next_values(model: ActorCritic, rollout: Rollout, values: Float) -> Float:
    """[T, n_racks, n_agents] value of what followed each step in the same episode."""
    following = np.empty_like(values)
    following[:-1] = values[1:]
    following[-1] = model.value(rollout.last_obs)
    if rollout.cut:
        final = model.value(np.stack(rollout.cut_obs))
        for (t, rack), value in zip(rollout.cut, final, strict=True):
            following[t, rack] = value
    return following
