# SPDX-License-Identifier: BSD-3-Clause
"""The policy as one vector of weights, or as several of them for racks that play different policies."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.agents.policy import Layer
from ncc.harness.batch import ObsArray

Float = npt.NDArray[np.float32]


def split(weights: Any, sizes: Iterable[tuple[int, int]]) -> list[tuple[Any, Any]]:
    """Return weights [..., outputs, inputs] and biases [..., outputs] of layers of `sizes` (inputs, outputs)."""
    layers, at = [], 0
    for inputs, outputs in sizes:
        end = at + outputs * inputs
        matrix = weights[..., at:end].reshape(*weights.shape[:-1], outputs, inputs)
        layers.append((matrix, weights[..., end : end + outputs]))
        at = end + outputs
    return layers


@dataclass(frozen=True)
class Shape:
    """Sizes of a network of tanh layers with one output u, which means the number tanh(u)."""

    obs_dim: int
    hidden: tuple[int, ...]

    def __str__(self) -> str:
        return "-".join(map(str, self.sizes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers between the layers."""
        return (self.obs_dim, *self.hidden, 1)

    @property
    def size(self) -> int:
        """Number of weights and biases."""
        return sum(outputs * (inputs + 1) for inputs, outputs in pairwise(self.sizes))

    def split(self, weights: Any) -> list[tuple[Any, Any]]:
        """Return weights [..., outputs, inputs] and biases [..., outputs] of each layer, of a vector [..., size]."""
        return split(weights, pairwise(self.sizes))

    def layers(self, weights: Float) -> list[Layer]:
        """Return the layers as `ncc.agents.policy.save_policy` takes them."""
        return [(np.array(matrix), np.array(bias)) for matrix, bias in self.split(weights)]

    def initial(self, rng: np.random.Generator) -> Float:
        """Draw weights [size]: of hidden layers by 1 / sqrt(inputs), zeros in the last one."""
        weights = np.zeros(self.size, np.float32)
        for matrix, _ in self.split(weights)[:-1]:
            matrix[:] = rng.normal(0, matrix.shape[-1] ** -0.5, matrix.shape)
        return weights

    def numbers(self, weights: Float, obs: ObsArray) -> Float:
        """Return tanh(u) [racks, hosts] of observations [racks, hosts, obs_dim].

        Args:
            weights: [size], or [racks, size] for racks with weights of their own.
            obs: observations.
        """
        inner: Any = obs
        for matrix, bias in self.split(weights):
            inner = np.tanh(inner @ np.swapaxes(matrix, -1, -2) + bias[..., None, :])
        numbers: Float = inner[..., 0]
        return numbers
