# SPDX-License-Identifier: BSD-3-Clause
"""The policy and value networks, with all their weights in one vector so that an update is one vector operation.

Both are tanh layers and share none: the value's errors, which are large at first, cannot disturb the policy, and only
the policy is deployed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ncc.agents.a3c.samples import Batch
from ncc.agents.policy import Layer
from ncc.harness.batch import ActionArray, ObsArray

Float = npt.NDArray[np.float32]

Net = list[tuple[Tensor, Tensor]]
"""Layers: W [outputs, inputs] and b [outputs] each."""

POLICY_GAIN = 0.01
"""Gain of the policy's last layer: small, so that training starts near the intended action probabilities."""


@dataclass(frozen=True)
class NetShape:
    """The sizes that determine the number and the meaning of the weights."""

    obs_dim: int
    hidden: tuple[int, ...]
    n_actions: int

    def __str__(self) -> str:
        return "-".join(str(size) for size in (self.obs_dim, *self.hidden, self.n_actions))

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(out * (inputs + 1) for outputs in (self.n_actions, 1) for inputs, out in self._layers(outputs))

    def split(self, params: Tensor) -> tuple[Net, Net]:
        """Views of the weight vector: the policy's and the value's layers, each W [outputs, inputs] and b [outputs]."""
        nets: list[Net] = []
        start = 0
        for outputs in (self.n_actions, 1):
            nets.append([])
            for inputs, out in self._layers(outputs):
                middle, end = start + out * inputs, start + out * (inputs + 1)
                nets[-1].append((params[start:middle].view(out, inputs), params[middle:end]))
                start = end
        return nets[0], nets[1]

    def _layers(self, outputs: int) -> list[tuple[int, int]]:
        return list(pairwise((self.obs_dim, *self.hidden, outputs)))


class Losses(NamedTuple):
    """Means over all samples of a rollout."""

    policy: float
    """-log pi(a) times the advantage"""
    value: float
    """(return - value)^2 / 2"""
    entropy: float
    kl: float = 0.0
    """KL(anchor || policy)"""


class ActorCritic:
    """Both networks, and the observations of the current rollout.

    Args:
        shape: sizes of the networks.
        anchor: layers of a policy of the same sizes near which `learn` can hold this one; they do not change.
    """

    def __init__(self, shape: NetShape, anchor: Sequence[Layer] | None = None) -> None:
        self._shape, self.n_actions = shape, shape.n_actions
        self._anchor: Net = [(torch.tensor(weight), torch.tensor(bias)) for weight, bias in anchor or ()]
        self._params = torch.zeros(shape.size, requires_grad=True)
        self.gradient = torch.zeros(shape.size)
        """Gradient [size] that `learn` or `imitate` computed last."""
        self._params.grad = self.gradient
        self.load(self._params.detach())

    def load(self, params: Tensor) -> None:
        """Copy the weights [size] and begin a rollout."""
        with torch.no_grad():
            self._params.copy_(params)
            self._policy, self._value = self._shape.split(self._params)
        self._obs: list[Tensor] = []

    def act(self, obs: ObsArray, uniform: npt.NDArray[np.float64], actions: ActionArray, values: Float) -> bool:
        """Draw actions for the next samples of the rollout; False if a logit is not finite.

        Args:
            obs: [rows, obs_dim]
            uniform: [rows] numbers in [0, 1); the action is the first at which the distribution function exceeds it.
            actions: [rows] filled.
            values: [rows] filled with the values of the observations, in units of the mean reward per epoch.
        """
        x = torch.tensor(obs)  # a copy, because the gradient needs it later and environments reuse their buffers
        self._obs.append(x)
        with torch.no_grad():
            upto = torch.softmax(_forward(self._policy, x), -1).cumsum_(-1).numpy()
            values[:] = _forward(self._value, x).squeeze(-1).numpy()
        if not np.isfinite(upto).all():
            return False
        # The last action takes the probability lost to rounding.
        actions[:] = (upto[:, :-1] <= uniform[:, None]).sum(-1)
        return True

    def value(self, obs: ObsArray) -> Float:
        """Values [...] of observations [..., obs_dim] for which no action is chosen."""
        with torch.no_grad():
            values: Float = _forward(self._value, torch.from_numpy(obs)).squeeze(-1).numpy()
        return values

    def observed(self) -> Tensor:
        """Observations [samples, obs_dim] of the rollout so far."""
        return torch.cat(self._obs)

    def log_probs(self, obs: Tensor) -> Tensor:
        """Log-probabilities [samples, n_actions] of the policy."""
        with torch.no_grad():
            return torch.log_softmax(_forward(self._policy, obs), -1)

    def imitate(self, batch: Batch, *, weights: Tensor | None, smoothing: float, value_coef: float) -> None:
        """Compute the gradient of the warm start's loss into `gradient`; the rollout is not changed.

        loss = cross-entropy to the expert's answers + value_coef (return - value)^2 / 2, means over the samples.

        Args:
            batch: the samples; only returns whose `counts` is 1 are used.
            weights: [n_actions] weight of a sample by its label; None: all weigh the same.
            smoothing: share of the target that is spread over all actions.
            value_coef: weight of the value's error; 0: the value does not learn.
        """
        policy_net, value_net = self._shape.split(self._params)
        logits = _forward(policy_net, batch.obs)
        loss = functional.cross_entropy(logits, batch.labels, weights, label_smoothing=smoothing)
        if value_coef > 0:
            errors = (batch.returns - _forward(value_net, batch.obs).squeeze(-1)).square() * batch.counts
            loss = loss + 0.5 * value_coef * errors.sum() / batch.counts.sum().clamp(min=1)
        self.gradient.zero_()
        torch.autograd.backward([loss])

    def learn(
        self,
        actions: ActionArray,
        advantages: Float,
        returns: Float,
        *,
        value_coef: float,
        entropy_coef: float,
        kl_coef: float = 0.0,
    ) -> Losses:
        """Compute the gradient of the actor-critic loss (Mnih et al., ICML 2016, Alg. S3) and end the rollout.

        loss = policy + value_coef value - entropy_coef entropy + kl_coef kl, over all samples of the rollout, with the
        weights that acted. Advantages and returns are constants in it.

        Args:
            actions: [...] actions taken, in the order of the samples.
            advantages: [...] in the same order.
            returns: [...] targets of the values, in the same order.
            value_coef: weight of the value's error.
            entropy_coef: weight of the entropy.
            kl_coef: weight of the distance from the anchor; ignored without an anchor.
        """
        taken, advantage, target = (torch.from_numpy(array).reshape(-1) for array in (actions, advantages, returns))
        obs = torch.cat(self._obs)
        policy_net, value_net = self._shape.split(self._params)
        log_probs = torch.log_softmax(_forward(policy_net, obs), -1)
        chosen = log_probs.gather(-1, taken[:, None]).squeeze(-1)
        policy = -(chosen * advantage).mean()
        value = 0.5 * (target - _forward(value_net, obs).squeeze(-1)).square().mean()
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        loss, kl = policy + value_coef * value - entropy_coef * entropy, 0.0
        if self._anchor:
            with torch.no_grad():
                anchor = torch.log_softmax(_forward(self._anchor, obs), -1)
            distance = (anchor.exp() * (anchor - log_probs)).sum(-1).mean()
            loss, kl = loss + kl_coef * distance, distance.item()
        self.gradient.zero_()
        torch.autograd.backward([loss])
        self.load(self._params.detach())
        return Losses(policy.item(), value.item(), entropy.item(), kl)


def _forward(net: Net, x: Tensor) -> Tensor:
    for weight, bias in net[:-1]:
        x = torch.tanh(functional.linear(x, weight, bias))
    return functional.linear(x, *net[-1])


def policy_layers(shape: NetShape, params: Tensor) -> list[Layer]:
    """Copy the policy's weights and biases to numpy, for `ncc.agents.policy`."""
    policy, _ = shape.split(params)
    return [(weight.numpy().copy(), bias.numpy().copy()) for weight, bias in policy]


def initial_params(shape: NetShape, seed: int, unlimited_prob: float | None) -> Tensor:
    """Weights before training: orthogonal (Saxe et al., ICLR 2014), biases 0; equal seeds give equal weights.

    Args:
        shape: sizes.
        seed: any int >= 0; torch's global random state is neither read nor changed.
        unlimited_prob: probability of the last action for any observation, the others equal; None: all equal.
    """
    params = torch.zeros(shape.size)
    policy, value = shape.split(params)
    generator = torch.Generator().manual_seed(seed)
    for layers, last_gain in ((policy, POLICY_GAIN), (value, 1.0)):
        for weight, _ in layers:
            gain = last_gain if weight is layers[-1][0] else math.sqrt(2)
            nn.init.orthogonal_(weight, gain, generator=generator)
    if unlimited_prob is not None and shape.n_actions > 1:
        odds = unlimited_prob / (1 - unlimited_prob)
        policy[-1][1][-1] = math.log(odds * (shape.n_actions - 1))
    return params
