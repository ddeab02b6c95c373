# SPDX-License-Identifier: BSD-3-Clause
"""The most recent samples of the warm start, in memory of fixed size."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Batch(NamedTuple):
    """Samples to learn from, one per row."""

    obs: Tensor
    """[rows, obs_dim] float32"""
    labels: Tensor
    """[rows] int64: the expert's answers."""
    returns: Tensor
    """[rows] float32: targets of the value."""
    counts: Tensor
    """[rows] float32: 1 if `returns` is to be learnt from, else 0."""


class Samples:
    """The newest `capacity` samples."""

    def __init__(self, capacity: int, obs_dim: int) -> None:
        self._capacity, self._added = capacity, 0
        # Pages that are never written take no memory, so a large capacity costs a short warm start nothing.
        self._all = Batch(
            torch.empty(capacity, obs_dim),
            torch.empty(capacity, dtype=torch.int64),
            torch.empty(capacity),
            torch.empty(capacity),
        )

    def __len__(self) -> int:
        return min(self._added, self._capacity)

    def add(self, batch: Batch) -> None:
        """Add samples, replacing the oldest when the memory is full."""
        rows = len(batch.labels)
        at = torch.arange(self._added, self._added + rows)[-self._capacity :] % self._capacity
        for kept, new in zip(self._all, batch, strict=True):
            kept[at] = new[-self._capacity :]
        self._added += rows

    def draw(self, rng: np.random.Generator, rows: int) -> Batch:
        """Draw `rows` samples at random, with replacement."""
        at = torch.from_numpy(rng.integers(len(self), size=rows))
        return Batch(*(kept[at] for kept in self._all))

    def forget_returns(self) -> None:
        """Stop learning from the returns kept so far, because they belong to another actor's actions."""
        self._all.counts.zero_()

    def frequencies(self, n_actions: int) -> Tensor:
        """[n_actions] share of each label among the samples kept."""
        return torch.bincount(self._all.labels[: len(self)], minlength=n_actions) / len(self)
