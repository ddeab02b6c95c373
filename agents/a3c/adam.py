# SPDX-License-Identifier: BSD-3-Clause
"""The state that training changes, as plain vectors that processes can share, and the Adam step over them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BETA1, BETA2, EPS = 0.9, 0.999, 1e-5
"""Constants of Adam. EPS as usual for actor-critic: with 1e-8, weights with rare gradients take full-size steps."""


@dataclass
class TrainState:
    """Weights, Adam's moments and the counters, all allocated up front so that they can lie in shared memory."""

    params: Tensor
    """[size] float32"""
    mean: Tensor
    """[size] Adam's first moment"""
    square: Tensor
    """[size] Adam's second moment"""
    counts: Tensor
    """[3] int64: updates made, periods learnt from, periods handed out to be collected"""

    @classmethod
    def fresh(cls, params: Tensor) -> "TrainState":
        """The state before the first update."""
        return cls(params, torch.zeros_like(params), torch.zeros_like(params), torch.zeros(3, dtype=torch.int64))

    def share(self) -> None:
        """Move to shared memory."""
        for tensor in (self.params, self.mean, self.square, self.counts):
            tensor.share_memory_()  # type: ignore[no-untyped-call]

    def clone(self) -> "TrainState":
        """An independent copy."""
        return TrainState(self.params.clone(), self.mean.clone(), self.square.clone(), self.counts.clone())

    @property
    def updates(self) -> int:
        """Updates made so far."""
        return int(self.counts[0])

    @property
    def epochs(self) -> int:
        """Periods whose gradients are in `params`."""
        return int(self.counts[1])

    def claim(self, rollout: int, n_racks: int, total_epochs: int) -> int:
        """Return the number of steps for the caller to collect next; 0 when all periods are handed out."""
        claimed = int(self.counts[2])
        steps = min(rollout, math.ceil((total_epochs - claimed) / n_racks))
        if steps <= 0:
            return 0
        self.counts[2] = claimed + steps * n_racks
        return steps

    def claim_episode(self, epochs: int, total_epochs: int) -> bool:
        """Hand out an episode of about so many periods; False when all periods are handed out."""
        if left := int(self.counts[2]) < total_epochs:
            self.counts[2] += epochs
        return left

    def move(self, step: Tensor, epochs: int) -> None:
        """Add a step [size] to the weights, and count `epochs` more periods."""
        self.counts[0] += 1
        self.counts[1] += epochs
        self.params += step

    def apply(self, grads: Tensor, learning_rate: float, epochs: int) -> None:
        """Do one Adam step (Kingma and Ba, ICLR 2015, Alg. 1), and count `epochs` more periods."""
        self.counts[0] += 1
        self.counts[1] += epochs
        updates = self.updates
        self.mean.lerp_(grads, 1 - BETA1)
        self.square.mul_(BETA2).addcmul_(grads, grads, value=1 - BETA2)
        denominator = self.square.sqrt().div_(math.sqrt(1 - BETA2**updates)).add_(EPS)
        self.params.addcdiv_(self.mean, denominator, value=-learning_rate / (1 - BETA1**updates))
