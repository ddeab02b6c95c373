# SPDX-License-Identifier: BSD-3-Clause
"""The clipped gradient of a rollout."""

import math
from collections.abc import Iterator

import numpy as np
from torch import Tensor

from ncc.agents.a3c.config import A3cConfig, scheduled
from ncc.agents.a3c.network import ActorCritic
from ncc.agents.a3c.returns import advantages, following_values
from ncc.agents.a3c.rollout import Float, Rollout
from ncc.core.errors import InvalidRunError
from ncc.harness.batch import ActionArray

Scalars = dict[str, float]


def compute_gradient(model: ActorCritic, rollout: Rollout, config: A3cConfig, fraction: float) -> Scalars:
    """Compute the gradient of the loss over `rollout` into ``model.gradient`` and clip its norm to `max_grad_norm`.

    Raises:
        InvalidRunError: the gradient is not finite.
    """
    advantage, returns = returns_of(model, rollout, config)
    scalars = _learn(model, rollout.actions, _scaled(advantage, config), returns, config=config, fraction=fraction)
    return scalars | _said(rollout, advantage, returns)


def gradients(model: ActorCritic, rollout: Rollout, config: A3cConfig, fraction: float) -> Iterator[Scalars]:
    """Yield numbers for logs whenever ``model.gradient`` has another gradient of `rollout`.

    The caller applies it, and loads the new weights, before it asks for the next.

    Raises:
        InvalidRunError: as `compute_gradient`.
    """
    if config.passes == 1:
        yield compute_gradient(model, rollout, config, fraction)
        return
    advantage, returns = returns_of(model, rollout, config)
    scaled, taken, target = _scaled(advantage, config).ravel(), rollout.actions.ravel(), returns.ravel()
    obs, before = model.observed().clone(), model.chosen(taken)
    for _ in range(config.passes):
        model.replay(obs)
        scalars = _learn(model, taken, scaled, target, config=config, fraction=fraction, before=before)
        yield scalars | _said(rollout, advantage, returns)


def _scaled(advantage: Float, config: A3cConfig) -> Float:
    if config.normalize_advantage:
        # Divide by the root mean square without subtracting the mean, so that a rollout of a single sample keeps its
        # sign.
        over = (0, 2) if config.normalize_per_rack else None
        advantage = advantage / (np.sqrt(np.mean(advantage**2, axis=over, keepdims=True)) + np.float32(1e-8))
    if config.max_advantage is not None:
        advantage = np.clip(advantage, -config.max_advantage, config.max_advantage)
    return advantage


def _learn(
    model: ActorCritic,
    actions: ActionArray,
    advantage: Float,
    returns: Float,
    *,
    config: A3cConfig,
    fraction: float,
    before: Tensor | None = None,
) -> Scalars:
    entropy_coef = scheduled(config.entropy_coef, config.entropy_coef_final, fraction)
    losses = model.learn(
        actions,
        advantage,
        returns,
        value_coef=config.value_coef,
        entropy_coef=entropy_coef,
        before=before,
        clip=config.clip,
    )
    norm = clip_gradient(model, config.max_grad_norm, f"{fraction:.0%} of the training")
    return {
        "loss/policy": losses.policy,
        "loss/value": losses.value,
        "policy/entropy": losses.entropy,
        "policy/entropy_coef": entropy_coef,
        "update/grad_norm": norm,
        "update/learning_rate": scheduled(config.learning_rate, config.learning_rate_final, fraction),
    }


def _said(rollout: Rollout, advantage: Float, returns: Float) -> Scalars:
    variance = explained_variance(advantage, returns)
    return {"value/mean": float(rollout.values.mean()), "value/explained_variance": variance}


def returns_of(model: ActorCritic, rollout: Rollout, config: A3cConfig) -> tuple[Float, Float]:
    """Advantages and returns, each [T, n_racks, n_agents], in units of the mean reward per epoch."""
    cut_values = model.value(np.stack(rollout.cut_obs)) if rollout.cut else ()
    values = rollout.values
    following = following_values(values, model.value(rollout.last_obs), rollout.cut, cut_values)
    return advantages(
        rollout.rewards * np.float32(1 - config.gamma),
        values,
        following,
        terminated=rollout.terminated,
        truncated=rollout.truncated,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
    )


def explained_variance(advantage: Float, returns: Float) -> float:
    """Share of the returns' variance that the value predicted, at most 1; 0 if all returns are equal."""
    variance = float(returns.var())
    return 1 - float(advantage.var()) / variance if variance > 0 else 0.0


def clip_gradient(model: ActorCritic, max_norm: float, moment: str) -> float:
    """Clip the norm of ``model.gradient`` and return its norm before clipping.

    Raises:
        InvalidRunError: the norm is not finite; `moment` says when, for the message.
    """
    norm = float(model.gradient.norm())
    if not math.isfinite(norm):
        raise InvalidRunError(f"the gradient is {norm} after {moment}; lower the learning rate")
    if norm > max_norm:
        model.gradient.mul_(max_norm / norm)
    return norm
