# SPDX-License-Identifier: BSD-3-Clause
"""The policy and value networks, with all their weights in one vector so that an update is one vector operation.

Both are tanh layers and share none: the value's errors, which are large at first, cannot upset the policy, and what is
deployed is the policy alone. The arithmetic is in `src/`: for networks this small a framework spends most of its time
around the multiplications, and works out twice what acting already knew.
"""

import math
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ncc.agents.policy import Layer
from ncc.core.errors import ConfigError
from ncc.harness.batch import ActionArray, ObsArray

Float = npt.NDArray[np.float32]

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

    @property
    def size(self) -> int:
        """Weights in all."""
        return sum(out * (inputs + 1) for outputs in (self.n_actions, 1) for inputs, out in self._layers(outputs))

    def split(self, params: Tensor) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
        """Views of the weight vector: the policy's layers and the value's, each W [outputs, inputs] and b [outputs]."""
        nets: list[list[tuple[Tensor, Tensor]]] = []
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


class ActorCritic:
    """Both networks, and room for the samples of a rollout: what acting works out is kept for the gradient.

    Args:
        shape: sizes.
        capacity: samples of a rollout: steps times racks times hosts.

    Raises:
        ConfigError: the extension module is not built.
    """

    def __init__(self, shape: NetShape, capacity: int) -> None:
        self._kernel = extension().ActorCritic(shape.obs_dim, shape.hidden, shape.n_actions, capacity)
        self.gradient = np.zeros(shape.size, np.float32)
        """[size] what `learn` found last."""

    def load(self, params: Tensor) -> None:
        """Take weights [size]; they are copied."""
        self._kernel.load(params.numpy())

    def act(
        self, obs: ObsArray, at: int, uniform: npt.NDArray[np.float64], actions: ActionArray, values: Float
    ) -> bool:
        """Draw actions for samples `at`, `at` + 1, ... of the rollout; False if a logit is not finite.

        Args:
            obs: [rows, obs_dim]
            at: number of samples before these.
            uniform: [rows] numbers in [0, 1); the action is the first at which the distribution function exceeds it.
            actions: [rows] filled.
            values: [rows] filled with the values of the observations, in units of the mean reward per epoch.
        """
        return bool(self._kernel.act(obs, at, uniform, actions, values))

    def value(self, obs: ObsArray) -> Float:
        """Values [...] of observations [..., obs_dim] that are not acted on."""
        values = np.empty(obs.shape[:-1], np.float32)
        self._kernel.value(obs.reshape(-1, obs.shape[-1]), values.reshape(-1))
        return values

    def learn(
        self, actions: ActionArray, advantages: Float, returns: Float, *, value_coef: float, entropy_coef: float
    ) -> Losses:
        """Leave the gradient of the actor-critic loss (Mnih et al., ICML 2016, Alg. S3) in `gradient`.

        loss = policy + value_coef value - entropy_coef entropy, over the first samples of the rollout, with the weights
        that acted. Advantages and returns are constants in it.

        Args:
            actions: [...] those taken, in the order of the samples, as are
            advantages: [...]
            returns: [...] targets of the values.
            value_coef: weight of the value's error.
            entropy_coef: weight of the entropy.
        """
        flat = (array.reshape(-1) for array in (actions, advantages, returns))
        return Losses(*self._kernel.gradient(*flat, value_coef, entropy_coef, self.gradient))


@cache
def extension() -> ModuleType:
    """The extension module, loaded on first use; raises `ConfigError` that says how to build it."""
    try:
        return import_module("ncc.agents.a3c._kernels")
    except ImportError as error:
        raise ConfigError(
            f"the learner's extension ncc.agents.a3c._kernels cannot be loaded ({error}): run `make build` in a "
            "checkout, or reinstall ncc"
        ) from error


def policy_layers(shape: NetShape, params: Tensor) -> list[Layer]:
    """The policy's weights and biases as numpy copies, for `ncc.agents.policy`."""
    policy, _ = shape.split(params)
    return [(weight.numpy().copy(), bias.numpy().copy()) for weight, bias in policy]


def initial_params(shape: NetShape, seed: int, unlimited_prob: float | None) -> Tensor:
    """Weights before training: orthogonal (Saxe et al., ICLR 2014), biases 0; equal seeds give equal weights.

    Args:
        shape: sizes.
        seed: any int >= 0; torch's global random state is neither read nor changed.
        unlimited_prob: probability of the last action whatever is observed, the others alike; None: all alike.
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
