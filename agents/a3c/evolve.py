# SPDX-License-Identifier: BSD-3-Clause
"""An evolution strategy in pairs, which continues from the final weights of A3C.

A3C optimises actions with noise, and its discount limits its horizon. An evolution strategy (Salimans et al., 2017)
puts the noise on the weights instead. Two copies of a simulated network play a whole episode, one with the mean weights
plus noise, the other with the mean weights less the same noise. The mean moves towards the weights of the copy with the
higher reward.
"""

import numpy as np
import numpy.typing as npt
import torch

from ncc.agents.a3c.network import NetShape
from ncc.agents.a3c.rollout import Float
from ncc.core.errors import InvalidRunError
from ncc.harness.batch import BatchedEnv, ObsArray


def numbers(shape: NetShape, weights: Float, obs: ObsArray) -> Float:
    """Return the policy's actions [n_racks, n_agents], numbers in [-1, 1]. Each rack has weights of its own.

    Args:
        shape: sizes of the networks; its policy has one output.
        weights: [n_racks, policy_size] weights of the policy in each rack.
        obs: [n_racks, n_agents, obs_dim] observations without noise.
    """
    inner, at = obs, 0
    for inputs, outputs in shape.policy_layers:
        end = at + outputs * inputs
        matrix, bias = weights[:, at:end].reshape(-1, outputs, inputs), weights[:, None, end : end + outputs]
        inner, at = np.tanh(inner @ matrix.swapaxes(1, 2) + bias), end + outputs
    actions: Float = inner[..., 0]
    return actions


def evolve(
    env: BatchedEnv, episode: int, shape: NetShape, params: torch.Tensor, *, noise: float, rng: np.random.Generator
) -> tuple[torch.Tensor, int, float]:
    """Play an episode with noise on the weights, and return the direction in which the weights should move.

    The direction is a weighted sum of the noise of all pairs. The weight of a pair is the rank, among all pairs, of the
    relative difference between its two rewards, with the sign of that difference. Because only ranks count, one network
    with many flows, or one unlucky timeout, does not decide alone.

    Args:
        env: racks in groups of `BatchedEnv.copies`; the second half of a group gets the negated noise of the first.
        episode: number of the episode.
        shape: sizes of the networks.
        params: [size] weights; those of the policy come first.
        noise: standard deviation of the noise.
        rng: draws the noise.

    Returns:
        The direction [size], of root mean square 1 over the policy's weights, or 0 if the rewards of no pair differ;
        the number of periods played, summed over racks; the mean reward per host and period.

    Raises:
        InvalidRunError: a reward is not finite.
    """
    half, groups = env.copies // 2, env.n_racks // env.copies
    drawn = rng.standard_normal((groups, half, shape.policy_size), np.float32)
    both = np.concatenate([drawn, -drawn], axis=1).reshape(env.n_racks, -1)
    weights = params.numpy()[: shape.policy_size] + np.float32(noise) * both
    obs, earned, epochs, over = env.reset(episode), np.zeros(env.n_racks), 0, False
    while not over:
        moved = env.step(numbers(shape, weights, obs[..., : shape.obs_dim]))  # type: ignore[arg-type] # numbers
        earned += (moved.reward if moved.earned is None else moved.earned).mean(axis=-1)
        obs, epochs, over = moved.obs, epochs + env.n_racks, bool(moved.truncated.all())
    if not np.isfinite(earned).all():
        raise InvalidRunError(f"rewards of episode {episode} are not finite; check env.reward")
    first, second = np.moveaxis(earned.reshape(groups, 2, half), 1, 0)
    scores = ranked((first - second) / np.maximum(np.abs(first + second), 1e-9))
    step = np.zeros(len(params), np.float32)
    step[: shape.policy_size] = np.tensordot(scores, drawn, 2)
    size = np.sqrt(np.mean(step[: shape.policy_size] ** 2))
    return torch.from_numpy(step / max(size, np.float32(1e-9))), epochs, float(earned.mean() * env.n_racks / epochs)


def ranked(differences: npt.NDArray[np.float64]) -> Float:
    """Rank differences [...] by their size; return the ranks in (0, 1] with the signs of the differences, 0 for 0."""
    sizes = np.abs(differences).ravel()
    ranks = (sizes.argsort().argsort() + 1) / sizes.size
    signed: Float = (np.sign(differences) * ranks.reshape(differences.shape)).astype(np.float32)
    return signed
