# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of A3C: everything that training needs to go on, in files that are complete or absent."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ncc.agents.a3c.adam import TrainState
from ncc.agents.a3c.network import NetShape
from ncc.agents.arrays import Arrays, packed_arrays, unpacked_arrays
from ncc.agents.checkpoints import Checkpoints, check_made_with
from ncc.core.errors import ResultError
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
    """State of the generator that draws actions; None in `async`. It is the only generator in use once the first
    weights are drawn."""


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
