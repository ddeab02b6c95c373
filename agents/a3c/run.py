# SPDX-License-Identifier: BSD-3-Clause
"""The folder of a training: checkpoints, which hold all that training needs to go on, and policy files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.network import NetShape, initial_params, policy_layers
from ncc.agents.arrays import Arrays, packed_arrays, unpacked_arrays
from ncc.agents.checkpoints import Checkpoints, check_made_with, check_networks
from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE, save_policy
from ncc.core.errors import ResultError
from ncc.core.seeding import derive_seed
from ncc.harness.atomic import write_bytes

KIND = "checkpoint of A3C"
FORMAT = 2


@dataclass(frozen=True)
class Checkpoint:
    """A state of training between two updates."""

    shape: NetShape
    mode: str
    seed: int
    state: TrainState
    episodes: tuple[int, ...]
    """Next episode number of each worker (one entry for the synchronous learner)."""
    rng: dict[str, Any] | None = None
    """State of the generator that draws actions; None in `async`. After the first weights no other one is in use."""


class CheckpointFolder(Checkpoints):
    """The checkpoints of one run, one file each."""

    def __init__(self, folder: Path, keep: int) -> None:
        super().__init__(folder, keep, ".safetensors")

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, then delete the oldest beyond `keep`.

        Raises:
            ResultError: the file system refused; earlier checkpoints are untouched.
        """
        state = checkpoint.state
        arrays = {"params": state.params.numpy(), "mean": state.mean.numpy(), "square": state.square.numpy()}
        shape = checkpoint.shape
        meta = {
            "shape": {"obs_dim": shape.obs_dim, "hidden": list(shape.hidden), "n_actions": shape.n_actions},
            "mode": checkpoint.mode,
            "seed": checkpoint.seed,
            "updates": state.updates,
            "epochs": state.epochs,
            "episodes": list(checkpoint.episodes),
            "rng": checkpoint.rng,
            "format": FORMAT,
        }
        return self.add(state.epochs, lambda path: write_bytes(path, packed_arrays(KIND, meta, arrays)))

    def load(self, mode: str, seed: int) -> Checkpoint:
        """Load the newest checkpoint.

        Raises:
            ResultError: none there, damaged, or made with another mode or seed.
        """
        path = self.newest()
        meta, arrays = unpacked_arrays(path.read_bytes(), KIND, FORMAT, str(path))
        try:
            checkpoint = _checkpoint(arrays, meta)
        except (KeyError, TypeError, ValueError) as error:
            raise ResultError(
                f"the checkpoint {path} is damaged ({error!r}); delete it to resume from the one before"
            ) from None
        check_made_with(path, ("mode", checkpoint.mode, mode), ("seed", checkpoint.seed, seed))
        return checkpoint


def _checkpoint(arrays: Arrays, meta: dict[str, Any]) -> Checkpoint:
    sizes = meta["shape"]
    shape = NetShape(int(sizes["obs_dim"]), tuple(int(size) for size in sizes["hidden"]), int(sizes["n_actions"]))
    expected = (shape.size,)
    vectors = [arrays[name] for name in ("params", "mean", "square")]
    for vector in vectors:
        if vector.shape != expected or vector.dtype != np.float32 or not np.isfinite(vector).all():
            raise ValueError(f"vectors must be float32 {expected} and finite, got {vector.dtype} {vector.shape}")
    counts = torch.tensor([int(meta["updates"]), int(meta["epochs"]), int(meta["epochs"])], dtype=torch.int64)
    params, mean, square = (torch.from_numpy(vector.copy()) for vector in vectors)
    state = TrainState(params, mean, square, counts)
    mode, rng, episodes = str(meta["mode"]), meta["rng"], tuple(int(episode) for episode in meta["episodes"])
    if not (isinstance(rng, dict) if mode == "sync" else rng is None) or not episodes:
        raise ValueError("rng or episodes missing")
    return Checkpoint(shape, mode, int(meta["seed"]), state, episodes, rng)


class TrainingRun:
    """One training in one folder."""

    def __init__(self, config: A3cConfig, folder: Path, seed: int, meta: Mapping[str, Any], *, resume: bool) -> None:
        self.config, self.folder, self.seed, self._meta = config, folder, seed, meta
        self.checkpoints = CheckpointFolder(folder, config.keep_checkpoints)
        self.loaded: Checkpoint | None = None
        if resume:
            self.loaded = self.checkpoints.load(config.mode, seed)
        else:
            self.checkpoints.must_be_empty()

    @property
    def finished(self) -> bool:
        """True if the checkpoint already has all periods."""
        return self.loaded is not None and self.loaded.state.epochs >= self.config.epochs

    def begin(self, shape: NetShape) -> TrainState:
        """Write the untrained policy and return the state to start from: the checkpoint's, or a new one."""
        if self.loaded is not None:
            check_networks(self.loaded.shape, shape)
        initial = initial_params(shape, derive_seed(self.seed, "a3c", "init"))
        self._save_policy(UNTRAINED_FILE, shape, initial, 0)
        return TrainState.fresh(initial) if self.loaded is None else self.loaded.state

    def save(
        self, shape: NetShape, state: TrainState, episodes: Sequence[int], rng: np.random.Generator | None = None
    ) -> Path:
        """Write a checkpoint. `episodes` are as in `Checkpoint`; `rng` is given in `sync` only."""
        drawn = None if rng is None else dict(rng.bit_generator.state)
        return self.checkpoints.save(Checkpoint(shape, self.config.mode, self.seed, state, tuple(episodes), drawn))

    def finish(self, shape: NetShape, state: TrainState) -> Path:
        """Write the trained policy."""
        return self._save_policy(POLICY_FILE, shape, state.params, state.epochs)

    def _save_policy(self, name: str, shape: NetShape, params: Tensor, epochs: int) -> Path:
        path = self.folder / name
        training = {"learner": "a3c", "mode": self.config.mode, "seed": self.seed, "epochs": epochs}
        save_policy(path, policy_layers(shape, params), {**self._meta, "training": training})
        return path


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread, on which drawing the first weights and sums repeat bit for bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
