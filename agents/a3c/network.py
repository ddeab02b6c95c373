# SPDX-License-Identifier: BSD-3-Clause
"""The policy and value networks, with all their weights in one vector so that an update is one vector operation."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ncc.agents.policy import Layer

POLICY_GAIN = 0.01
"""Gain of the policy's last layer: small, so that training starts near the intended action probabilities."""


@dataclass(frozen=True)
class NetShape:
    """Everything that decides how many weights there are and what they mean."""

    obs_dim: int
    hidden: tuple[int, ...]
    n_actions: int

    def __str__(self) -> str:
        return "-".join(str(size) for size in (self.obs_dim, *self.hidden, self.n_actions))


class ActorCritic(nn.Module):
    """Observations [..., obs_dim] -> logits [..., n_actions] and values [...].

    Policy and value share no layer: the value's errors, which are large at first, cannot upset the policy, and what is
    deployed is the policy alone.
    """

    def __init__(self, shape: NetShape) -> None:
        super().__init__()
        self.shape = shape
        self.actor = _mlp(shape.obs_dim, shape.hidden, shape.n_actions)
        self.critic = _mlp(shape.obs_dim, shape.hidden, 1)

    def logits(self, obs: Tensor) -> Tensor:
        """Logits [..., n_actions]."""
        logits: Tensor = self.actor(obs)
        return logits

    def value(self, obs: Tensor) -> Tensor:
        """Values [...] in units of the mean reward per epoch."""
        value: Tensor = self.critic(obs)
        return value.squeeze(-1)


class FlatModel:
    """An `ActorCritic` whose weights and gradients are views into two vectors of length `size`."""

    def __init__(self, shape: NetShape) -> None:
        self.net = ActorCritic(shape)
        weights = list(self.net.parameters())
        self.size = sum(weight.numel() for weight in weights)
        self.params = torch.cat([weight.detach().reshape(-1) for weight in weights])
        self.grads = torch.zeros_like(self.params)
        start = 0
        for weight in weights:
            end = start + weight.numel()
            weight.data = self.params[start:end].view_as(weight)
            weight.grad = self.grads[start:end].view_as(weight)
            start = end

    def policy_layers(self) -> list[Layer]:
        """The policy's weights and biases as numpy copies, for `ncc.agents.policy`."""
        linear = [module for module in self.net.actor if isinstance(module, nn.Linear)]
        return [(_numpy(module.weight), _numpy(module.bias)) for module in linear]


def initial_params(shape: NetShape, seed: int, unlimited_prob: float | None) -> Tensor:
    """Weights before training: orthogonal (Saxe et al., ICLR 2014), biases 0; equal seeds give equal weights.

    Args:
        shape: sizes.
        seed: any int >= 0; torch's global random state is neither read nor changed.
        unlimited_prob: probability of the last action whatever is observed, the others alike; None: all alike.
    """
    model = FlatModel(shape)
    generator = torch.Generator().manual_seed(seed)
    for mlp, last_gain in ((model.net.actor, POLICY_GAIN), (model.net.critic, 1.0)):
        linear = [module for module in mlp if isinstance(module, nn.Linear)]
        for module in linear:
            gain = last_gain if module is linear[-1] else math.sqrt(2)
            nn.init.orthogonal_(module.weight, gain, generator=generator)
            nn.init.zeros_(module.bias)
    if unlimited_prob is not None and shape.n_actions > 1:
        odds = unlimited_prob / (1 - unlimited_prob)
        with torch.no_grad():
            list(model.net.actor.parameters())[-1][-1] = math.log(odds * (shape.n_actions - 1))
    return model.params.clone()


def _mlp(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(inputs, size), nn.Tanh()]
        inputs = size
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def _numpy(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return tensor.detach().numpy().copy()
