# SPDX-License-Identifier: BSD-3-Clause
"""The actor-critic loss, the same for the asynchronous and the synchronous learner."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LossTerms:
    """Means over all samples; `total` is what is differentiated."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor


def actor_critic_loss(
    logits: Tensor,
    values: Tensor,
    *,
    actions: Tensor,
    advantages: Tensor,
    returns: Tensor,
    value_coef: float,
    entropy_coef: float,
) -> LossTerms:
    """Policy gradient with entropy bonus, and squared error of the value (Mnih et al., ICML 2016, Alg. S3).

    total = mean(-log pi(a) advantage) + value_coef mean((return - value)^2 / 2) - entropy_coef mean(H(pi)).
    Advantages and returns are constants here: no gradient flows through them.

    Args:
        logits: [..., n_actions]
        values: [...]
        actions: [...] int64 indices taken.
        advantages: [...]
        returns: [...] targets of `values`.
        value_coef: weight of the value's error.
        entropy_coef: weight of the entropy.
    """
    log_probs = torch.log_softmax(logits, dim=-1)
    chosen = log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    policy = -(chosen * advantages.detach()).mean()
    value = 0.5 * (returns.detach() - values).square().mean()
    entropy = -(log_probs.exp() * log_probs).sum(dim=-1).mean()
    return LossTerms(policy + value_coef * value - entropy_coef * entropy, policy, value, entropy)
