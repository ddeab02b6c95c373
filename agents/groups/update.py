# SPDX-License-Identifier: BSD-3-Clause
"""The two ways to better weights: PPO on samples, and an evolution strategy on returns of candidates."""

import numpy as np
import numpy.typing as npt
import torch

from ncc.agents.a3c.adam import TrainState
from ncc.agents.groups.config import GroupsConfig
from ncc.agents.groups.network import Float, Shape
from ncc.agents.groups.play import Samples


def improve(
    config: GroupsConfig,
    shape: Shape,
    state: TrainState,
    samples: Samples,
    gained: Float,
    *,
    noise: float,
    rate: float,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Do PPO's passes over samples with advantages [n] (Schulman et al., 2017, eq. 7); return scalars for logs."""
    kept = rng.permutation(len(gained))[: config.max_samples]
    if not len(kept):
        return {}
    obs, taken, error, pay = (
        torch.from_numpy(np.ascontiguousarray(each[kept]))
        for each in (samples.obs, samples.taken, samples.error, gained)
    )
    before = -0.5 * error**2
    losses, norms, moved = [], [], []
    for _ in range(config.passes):
        for part in torch.from_numpy(rng.permutation(len(kept))).split(config.batch_size):  # type: ignore[no-untyped-call]
            weights = state.params.clone().requires_grad_()
            ratio = torch.exp(-0.5 * ((taken[part] - _numbers(shape, weights, obs[part])) / noise) ** 2 - before[part])
            bounded = ratio.clamp(1 - config.clip, 1 + config.clip)
            loss = -torch.minimum(ratio * pay[part], bounded * pay[part]).mean()
            (grads,) = torch.autograd.grad(loss, weights)
            norm = grads.norm().item()
            grads *= min(1.0, config.max_grad_norm / (norm + 1e-9))
            state.apply(grads, rate, 0)
            losses.append(loss.item())
            norms.append(norm)
            moved.append((ratio != bounded).float().mean().item())
    scalars = {"loss/policy": losses, "loss/gradient_norm": norms, "loss/clipped_frac": moved}
    return {name: float(np.mean(values)) for name, values in scalars.items()}


def _numbers(shape: Shape, weights: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
    for matrix, bias in shape.split(weights):
        obs = torch.tanh(obs @ matrix.T + bias)
    return obs[:, 0]


def candidates(mean: Float, noise: float, copies: int, rng: np.random.Generator) -> tuple[Float, Float]:
    """Return weights [copies, size] around `mean`, and their noise [copies, size]: some, and the same with minus."""
    half = rng.normal(size=(copies // 2, len(mean))).astype(np.float32)
    error: Float = np.concatenate([half, -half])
    weights: Float = mean + np.float32(noise) * error
    return weights, error


def evolve(
    config: GroupsConfig, state: TrainState, error: Float, returns: npt.NDArray[np.float64], rate: float
) -> None:
    """Move the weights towards the noise [copies, size] of candidates with larger returns [copies], by their ranks."""
    ranks = returns.argsort().argsort() / (len(returns) - 1) - 0.5
    grads = -(ranks[:, None] * error).mean(axis=0) / config.polish_noise
    state.params *= 1 - config.weight_decay
    state.apply(torch.from_numpy(grads.astype(np.float32)), rate, 0)
