# SPDX-License-Identifier: BSD-3-Clause
"""The networks and the loss once more, in PyTorch, whose derivatives are its own."""

from itertools import pairwise

import torch
from torch import Tensor

from ncc.agents.a3c.network import NetShape


def mlp(layers: list[tuple[Tensor, Tensor]], obs: Tensor) -> Tensor:
    """Outputs [..., outputs] of tanh layers and a last one without tanh."""
    for (weight, bias), _ in pairwise(layers):
        obs = torch.tanh(obs @ weight.T + bias)
    weight, bias = layers[-1]
    return obs @ weight.T + bias


def logits_and_values(shape: NetShape, params: Tensor, obs: Tensor) -> tuple[Tensor, Tensor]:
    """[..., n_actions] and [...]"""
    policy, value = shape.split(params)
    return mlp(policy, obs), mlp(value, obs).squeeze(-1)


def loss_terms(
    logits: Tensor, values: Tensor, actions: Tensor, advantages: Tensor, returns: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Policy, value and entropy, each the mean over samples (Mnih et al., ICML 2016, Alg. S3)."""
    log_probs = torch.log_softmax(logits, dim=-1)
    chosen = log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
    return -(chosen * advantages).mean(), 0.5 * (returns - values).square().mean(), entropy.mean()
