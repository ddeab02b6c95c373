# SPDX-License-Identifier: BSD-3-Clause
"""State of a training: the weights, the Adam step that changes them, and checkpoints in the run folder."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.network import NetShape, initial_params, policy_layers
from ncc.agents.arrays import packed_arrays, unpacked_arrays
from ncc.agents.checkpoints import Checkpoints, check_same, damaged
from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE
from ncc.core.seeding import derive_seed
from ncc.harness.atomic import write_bytes

KIND = "checkpoint of A3C"
FORMAT = 3
BETA1, BETA2, EPS = 0.9, 0.999, 1e-5
"""Constants of Adam. EPS as usual for actor-critic: with 1e-8, weights with rare gradients take full-size steps."""


@dataclass
class TrainState:
    """Weights, Adam's moments and the counters, as vectors that can lie in shared memory."""

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
        """Make the state before the first update, from the weights [size]."""
        return cls(params, torch.zeros_like(params), torch.zeros_like(params), torch.zeros(3, dtype=torch.int64))

    def share(self) -> None:
        """Move the vectors to shared memory."""
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
        """Hand out periods: return how many steps of its racks the caller should collect next; 0 if none are left."""
        claimed = int(self.counts[2])
        steps = min(rollout, math.ceil((total_epochs - claimed) / n_racks))
        if steps <= 0:
            return 0
        self.counts[2] = claimed + steps * n_racks
        return steps

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


@dataclass(frozen=True)
class Header:
    """Everything in a checkpoint except its vectors."""

    format: int
    made_by: dict[str, Any]
    shape: NetShape
    updates: int
    epochs: int
    episode: int
    """Lowest episode number that no rack has played."""
    rng: dict[str, Any] | None
    """State of the generator that draws actions; None in `async`. No other generator has a state to keep."""


@dataclass(frozen=True)
class Checkpoint:
    """A state of training between two updates."""

    header: Header
    state: TrainState


class TrainingRun:
    """One training in one folder; `loaded` is the checkpoint that it resumes from."""

    def __init__(self, config: A3cConfig, checkpoints: Checkpoints, *, resume: bool) -> None:
        self.config, self._checkpoints = config, checkpoints
        self.seed: int = checkpoints.made_by["seed"]
        path = checkpoints.begin(resume=resume)
        self.loaded = None if path is None else self._load(path)

    def begin(self, shape: NetShape) -> TrainState:
        """Write the untrained policy and return the state to start from: the checkpoint's, or a new one."""
        initial = initial_params(shape, derive_seed(self.seed, "a3c", "init"))
        if self.loaded is not None:
            check_same("the checkpoint", f"networks of {self.loaded.header.shape}", f"networks of {shape}")
        self._checkpoints.save_policy(UNTRAINED_FILE, policy_layers(shape, initial), 0)
        return TrainState.fresh(initial) if self.loaded is None else self.loaded.state

    def save(self, shape: NetShape, state: TrainState, episode: int, rng: np.random.Generator | None = None) -> Path:
        """Write a checkpoint with `episode` and `rng` as in `Header`; return its path.

        Raises:
            ResultError: the file system refused; earlier checkpoints are untouched.
        """
        drawn = None if rng is None else dict(rng.bit_generator.state)
        header = Header(FORMAT, dict(self._checkpoints.made_by), shape, state.updates, state.epochs, episode, drawn)
        arrays = {name: getattr(state, name).numpy() for name in ("params", "mean", "square")}
        data = packed_arrays(KIND, asdict(header), arrays)
        layers = policy_layers(shape, state.params)
        return self._checkpoints.add(state.epochs, layers, lambda path: write_bytes(path, data))

    def finish(self, shape: NetShape, state: TrainState) -> Path:
        """Write the trained policy; return its path."""
        return self._checkpoints.save_policy(POLICY_FILE, policy_layers(shape, state.params), state.epochs)

    def _load(self, path: Path) -> Checkpoint:
        plain, arrays = unpacked_arrays(path.read_bytes(), KIND, FORMAT, str(path))
        try:
            header = msgspec.convert(plain, Header)
            params, mean, square = vectors = [
                torch.from_numpy(arrays[name].copy()) for name in ("params", "mean", "square")
            ]
            sizes = {(*vector.shape, vector.dtype) for vector in vectors}
            if sizes != {(header.shape.size, torch.float32)}:
                raise ValueError(f"vectors must be float32 [{header.shape.size}], got {sizes}")
        except (KeyError, ValueError) as error:
            raise damaged(path, error) from None
        check_same(path, header.made_by, self._checkpoints.made_by)
        counts = torch.tensor([header.updates, header.epochs, header.epochs], dtype=torch.int64)
        return Checkpoint(header, TrainState(params, mean, square, counts))


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread in the block, so that initial weights and sums have the same bits in every run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
