# SPDX-License-Identifier: BSD-3-Clause
"""Advantages and n-step returns of a rollout, for all racks and hosts at once, and the clipped gradient of its loss."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from ncc.agents.a3c.config import A3cConfig, scheduled
from ncc.agents.a3c.network import ActorCritic
from ncc.agents.a3c.rollout import Bool, Float, Rollout
from ncc.core.errors import InvalidRunError

Scalars = dict[str, float]


def gradients(model: ActorCritic, rollout: Rollout, config: A3cConfig, fraction: float) -> Iterator[Scalars]:
    """Compute each gradient of `rollout` into ``model.gradient``, clipped to `max_grad_norm`; yield numbers for logs.

    The caller applies the gradient and loads the new weights before it asks for the next.

    Raises:
        InvalidRunError: the gradient is not finite.
    """
    advantage, returns = returns_of(model, rollout, config)
    explained = 1 - float(advantage.var()) / variance if (variance := float(returns.var())) > 0 else 0.0
    logged = {"value/mean": float(rollout.values.mean()), "value/explained_variance": explained}
    entropy_coef = scheduled(config.entropy_coef, config.entropy_coef_final, fraction)
    learning_rate = scheduled(config.learning_rate, config.learning_rate_final, fraction)
    scaled, taken, target = _scaled(advantage, config).ravel(), rollout.actions.ravel(), returns.ravel()
    # With a single pass, the network still has the rollout, and the loss is A3C's.
    again = None if config.passes == 1 else (model.observed().clone(), model.chosen(taken))
    for _ in range(config.passes):
        if again is not None:
            model.replay(again[0])
        losses = model.learn(
            taken,
            scaled,
            target,
            value_coef=config.value_coef,
            entropy_coef=entropy_coef,
            before=None if again is None else again[1],
            clip=config.clip,
        )
        norm = float(model.gradient.norm())
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


def _scaled(advantage: Float, config: A3cConfig) -> Float:
    # Divide by the root mean square without subtracting the mean, so that a rollout of a single sample keeps its sign.
    over = (0, 2) if config.normalize_per_rack else None
    advantage = advantage / (np.sqrt(np.mean(advantage**2, axis=over, keepdims=True)) + np.float32(1e-8))
    if config.max_advantage is not None:
        advantage = np.clip(advantage, -config.max_advantage, config.max_advantage)
    return advantage


def returns_of(model: ActorCritic, rollout: Rollout, config: A3cConfig) -> tuple[Float, Float]:
    """Advantages and returns, each [T, n_racks, n_agents], in units of the mean reward per period."""
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


def following_values(values: Float, last: Float, cut: Iterable[tuple[int, int]], cut_values: Iterable[Float]) -> Float:
    """Values [T, n_racks, n_agents] of the observation after each step in the same episode.

    Args:
        values: [T, n_racks, n_agents] value of the observation acted on in each step.
        last: [n_racks, n_agents] value of the observation after the last step.
        cut: (t, rack) of episodes that were truncated.
        cut_values: [n_agents] value of the last observation of each of them.
    """
    following = np.concatenate([values[1:], last[None]])
    for (t, rack), value in zip(cut, cut_values, strict=True):
        following[t, rack] = value
    return following


def advantages(
    rewards: Float,
    values: Float,
    next_values: Float,
    *,
    terminated: Bool,
    truncated: Bool,
    gamma: float,
    gae_lambda: float,
) -> tuple[Float, Float]:
    """Estimate generalised advantages (Schulman et al., ICLR 2016, eq. 16) up to the ends of episodes.

    With ``gae_lambda=1`` the returns are the n-step returns of Mnih et al. (2016): rewards up to the end of the rollout
    or the episode, then the value of the next observation. Truncated episodes are bootstrapped; terminated ones are
    not.

    Args:
        rewards: [T, n_racks, n_agents] reward of step t.
        values: [T, n_racks, n_agents] value of the observation acted on in step t.
        next_values: [T, n_racks, n_agents] value of the observation after step t *in the same episode*, that is of
            `final_obs` where the episode ended; ignored where it terminated.
        terminated: [T, n_racks] the episode reached its end in step t.
        truncated: [T, n_racks] time was up in step t.
        gamma: discount per period.
        gae_lambda: 1 for n-step returns, 0 for one-step ones.

    Returns:
        Advantages and returns (advantage + value), each [T, n_racks, n_agents].
    """
    following_values: Float = np.where(terminated[..., None], np.float32(0), next_values)
    goes_on = np.where(terminated | truncated, np.float32(0), np.float32(1))[..., None]
    deltas: Float = rewards + np.float32(gamma) * following_values - values
    decay = np.float32(gamma * gae_lambda) * goes_on
    result = np.empty_like(deltas)
    following = np.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        following = deltas[t] + decay[t] * following
        result[t] = following
    return result, result + values
