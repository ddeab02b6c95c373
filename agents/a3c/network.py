# SPDX-License-Identifier: BSD-3-Clause
"""The policy and value networks, with all their weights in one vector so that an update is one vector operation.

Both have tanh layers and share none. The value's errors, which are large at first, cannot disturb the policy, and only
the policy is deployed.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ncc.agents.policy import Layer
from ncc.agents.settings import CLIP
from ncc.harness.batch import ActionArray, BatchedEnv, ObsArray
from ncc.harness.native.network import Float, network

Net = list[tuple[Tensor, Tensor]]
"""Weights W [outputs, inputs] and bias b [outputs] of every layer of a network."""

POLICY_GAIN = 0.01
"""Gain of the policy's last layer: small, so that an untrained policy draws all actions with nearly equal odds."""


@dataclass(frozen=True)
class NetShape:
    """Sizes of the policy and the value network, which determine the number of weights and the meaning of each."""

    obs_dim: int
    hidden: tuple[int, ...]
    n_actions: int
    """Number of discrete actions; 0: the policy has one output u, and its action is the number tanh(u)."""

    @classmethod
    def of(cls, env: BatchedEnv, hidden: tuple[int, ...]) -> "NetShape":
        """Return the shape of the networks for an environment with hidden layers of these sizes."""
        return cls(env.obs_dim - env.n_noise, hidden, env.n_actions)

    def __str__(self) -> str:
        return "-".join(str(size) for size in (self.obs_dim, *self.hidden, self.n_outputs))

    @property
    def n_outputs(self) -> int:
        """Outputs of the policy's network."""
        return self.n_actions or 1

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(out * (inputs + 1) for outputs in (self.n_outputs, 1) for inputs, out in self._layers(outputs))

    @property
    def policy_layers(self) -> list[tuple[int, int]]:
        """Inputs and outputs of the policy's layers, whose weights come first."""
        return self._layers(self.n_outputs)

    @property
    def policy_size(self) -> int:
        """Number of the policy's weights."""
        return sum(out * (inputs + 1) for inputs, out in self.policy_layers)

    def split(self, params: Tensor) -> tuple[Net, Net]:
        """Return views of the weight vector [size]: the layers of the policy, and those of the value network."""
        nets: list[Net] = []
        start = 0
        for outputs in (self.n_outputs, 1):
            nets.append([])
            for inputs, out in self._layers(outputs):
                middle, end = start + out * inputs, start + out * (inputs + 1)
                nets[-1].append((params[start:middle].view(out, inputs), params[middle:end]))
                start = end
        return nets[0], nets[1]

    def _layers(self, outputs: int) -> list[tuple[int, int]]:
        return list(pairwise((self.obs_dim, *self.hidden, outputs)))


class Losses(NamedTuple):
    """Losses and entropy, as means over all samples of a rollout."""

    policy: float
    """-log pi(a) times the advantage"""
    value: float
    """(return - value)^2 / 2"""
    entropy: float


class ActorCritic:
    """The policy and the value network, in C++ (`ncc.harness.native`), with the samples of the current rollout.

    The loss and its gradient with respect to the networks' outputs are computed here. The C++ networks propagate that
    gradient back to the weights.

    Args:
        shape: sizes of the networks.
        critic: False leaves the value network as it is; all values are 0.
    """

    def __init__(self, shape: NetShape, *, critic: bool = True) -> None:
        sizes, self.n_actions = (shape.obs_dim, *shape.hidden), shape.n_actions
        self._critic = critic
        self.deviation = 1.0
        """Standard deviation of real-valued actions around the policy's; it is not learnt."""
        self._policy, self._value = network([*sizes, shape.n_outputs]), network([*sizes, 1])
        self.gradient = torch.zeros(shape.size)
        """Gradient [size] that `learn` computed last."""

    def load(self, params: Tensor) -> None:
        """Copy the weights [size] and begin a rollout."""
        weights: Float = params.numpy()
        self._policy.load(weights[: self._policy.size])
        self._value.load(weights[self._policy.size :])

    def act(self, obs: ObsArray, drawn: npt.NDArray[np.float64], actions: ActionArray, values: Float) -> bool:
        """Draw actions for the next samples of the rollout; return False if a logit or an action is not finite.

        Args:
            obs: [rows, obs_dim]
            drawn: [rows] numbers in [0, 1): the action is the first whose cumulative probability exceeds it. For
                real-valued actions: noise in standard deviations.
            actions: [rows] array to which the actions are written.
            values: [rows] array for the values of the observations, in units of the mean reward per period.
        """
        values[:] = self._value.forward(obs)[:, 0] if self._critic else 0
        if self.n_actions:
            return self._policy.act(obs, drawn, actions)
        actions[:] = np.tanh(self._policy.forward(obs)[:, 0]) + self.deviation * drawn
        return bool(np.isfinite(actions).all())

    def value(self, obs: ObsArray) -> Float:
        """Return values [...] of observations [..., obs_dim] that are not samples, such as the one after a rollout."""
        if not self._critic:
            return np.zeros(obs.shape[:-1], np.float32)
        rows = np.ascontiguousarray(obs.reshape(-1, obs.shape[-1]))
        return self._value.look(rows).reshape(obs.shape[:-1])

    def observed(self) -> Float:
        """Return a copy of the observations [samples, obs_dim] of the rollout so far."""
        return self._policy.inputs()

    def learn(
        self,
        actions: ActionArray,
        advantages: Float,
        returns: Float,
        *,
        value_coef: float,
        entropy_coef: float,
        before: Float | None = None,
    ) -> Losses:
        """Compute the gradient of the actor-critic loss (Mnih et al., ICML 2016, Alg. S3) and end the rollout.

        loss = policy + value_coef * value - entropy_coef * entropy, each a mean over all samples of the rollout, with
        the weights loaded last. Advantages and returns are constants in it. Real-valued actions have no entropy term,
        because they follow a Gaussian whose deviation is given.

        Args:
            actions: [...] actions taken, in the order of the samples.
            advantages: [...] in the same order.
            returns: [...] targets of the values, in the same order.
            value_coef: weight of the value's error.
            entropy_coef: weight of the entropy.
            before: [samples] log-probabilities of the actions by the policy that took them, for the loss of PPO
                (Schulman et al., 2017, eq. 7) in place of -log pi(a) times the advantage.
        """
        taken, advantage, n = actions.ravel(), advantages.ravel(), actions.size
        chosen, decided = self._log_probs(taken)
        gain, weight = chosen * advantage, advantage  # the weight is the derivative of the gain by `chosen`
        if before is not None:
            ratio = np.exp(chosen - before)
            free, clipped = ratio * advantage, np.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage
            gain, weight = np.minimum(free, clipped), np.where(free > clipped, np.float32(0), free)
        if self.n_actions:
            shares = np.exp(decided)
            entropy = -np.einsum("ij,ij->i", shares, decided)
            slope = shares * (weight[:, None] + np.float32(entropy_coef) * (decided + entropy[:, None]))
            slope[np.arange(n), taken] -= weight
        else:
            entropy = np.zeros(n, np.float32)
            slope = (weight / np.float32(self.deviation**2))[:, None] * (decided - taken[:, None]) * (1 - decided**2)
        self.gradient[:] = 0
        of_policy, of_value = np.split(self.gradient.numpy(), [self._policy.size])
        self._policy.backward(slope / np.float32(n), of_policy)
        missed = np.zeros(n, np.float32)
        if self._critic:
            missed = self._value.outputs()[:, 0] - returns.ravel()
            self._value.backward(missed[:, None] * np.float32(value_coef / n), of_value)
        self._begin()
        return Losses(-float(gain.mean()), 0.5 * float(np.square(missed).mean()), float(entropy.mean()))

    def chosen(self, actions: ActionArray) -> Float:
        """Return log-probabilities [samples] of the rollout's actions [...]; of real-valued ones up to a constant."""
        return self._log_probs(actions.ravel())[0]

    def replay(self, obs: ObsArray) -> None:
        """Begin a rollout with observations [samples, obs_dim] of an earlier one."""
        self._begin()
        self._policy.forward(obs)
        if self._critic:
            self._value.forward(obs)

    def _log_probs(self, taken: npt.NDArray[Any]) -> tuple[Float, Float]:
        """Return `chosen`, and the log-probabilities [samples, n_actions] of all actions, or the policy's numbers."""
        outputs = self._policy.outputs()
        if not self.n_actions:
            numbers = np.tanh(outputs)
            return -np.square(taken - numbers[:, 0]) / np.float32(2 * self.deviation**2), numbers
        below: Float = outputs - outputs.max(axis=-1, keepdims=True)
        odds = below - np.log(np.exp(below).sum(axis=-1, keepdims=True))
        return odds[np.arange(len(taken)), taken], odds

    def _begin(self) -> None:
        self._policy.begin()
        self._value.begin()


def policy_layers(shape: NetShape, params: Tensor) -> list[Layer]:
    """Copy the policy's weights and biases to numpy, for `ncc.agents.policy`."""
    policy, _ = shape.split(params)
    return [(weight.numpy().copy(), bias.numpy().copy()) for weight, bias in policy]


def initial_params(shape: NetShape, seed: int) -> Tensor:
    """Return the weights [size] before training: orthogonal matrices (Saxe et al., ICLR 2014), and biases of 0.

    Equal seeds give equal weights. For real-valued actions the policy's last layer is 0, so that an untrained policy
    chooses 0 (with `residual`: the formula itself).

    Args:
        shape: sizes of the networks.
        seed: any int >= 0; torch's global random state is neither read nor changed.
    """
    params = torch.zeros(shape.size)
    policy, value = shape.split(params)
    generator = torch.Generator().manual_seed(seed)
    for layers, last_gain in ((policy, POLICY_GAIN), (value, 1.0)):
        for weight, _ in layers:
            gain = last_gain if weight is layers[-1][0] else math.sqrt(2)
            if layers is policy and weight is policy[-1][0] and not shape.n_actions:
                continue
            nn.init.orthogonal_(weight, gain, generator=generator)
    return params
