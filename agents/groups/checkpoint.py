# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of the learner over groups."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ncc.agents.a3c.adam import TrainState
from ncc.agents.arrays import read_arrays, write_arrays
from ncc.agents.checkpoints import Checkpoints, check_made_with, check_networks
from ncc.agents.groups.network import Float, Shape
from ncc.core.errors import ResultError
from ncc.core.value import digest_of

KIND, VERSION = "ncc-groups-checkpoint", 1


@dataclass
class State:
    """All that training changes; what is drawn in an update follows from the seed and the number of the update."""

    train: TrainState
    candidates: list[Float]
    """Weights [size] that wait to be judged, after the best so far."""
    rounds: int = 0
    """Updates made."""
    epochs: int = 0
    """Environment epochs played, also to judge candidates."""
    polishing: bool = False
    critic: TrainState | None = None
    """With `GroupsConfig.baseline` critic."""


class GroupsCheckpoints(Checkpoints):
    """The checkpoints of one run, one file each."""

    def __init__(self, folder: Path, keep: int, meta: Mapping[str, Any]) -> None:
        super().__init__(folder, keep, ".npz")
        self._flows = digest_of({part: meta[part] for part in ("scenario", "families") if part in meta})

    def save(self, state: State, shape: Shape, seed: int) -> None:
        """Write a checkpoint, then delete the oldest beyond those to keep.

        Raises:
            ResultError: the file system refused; earlier checkpoints are untouched.
        """
        arrays = {"candidates": np.stack(state.candidates), **_vectors(state.train, "")}
        if state.critic is not None:
            arrays |= _vectors(state.critic, "critic_")
        meta = {"shape": str(shape), "seed": seed, "rounds": state.rounds, "epochs": state.epochs}
        meta |= {"polishing": state.polishing, "flows": self._flows}
        self.add(state.epochs, lambda path: write_arrays(path, KIND, VERSION, arrays, meta))

    def load(self, shape: Shape, seed: int) -> State:
        """Load the newest checkpoint.

        Raises:
            ResultError: none there, damaged, or made with another seed or network, or on flows of other scenarios.
        """
        path = self.newest()
        arrays, meta = read_arrays(path, KIND, VERSION)
        if meta.get("flows") != self._flows:
            raise ResultError(
                f"{path} was made on flows of another scenario or of other families, and cannot be replayed here: "
                "resume with the configuration that made it"
            )
        check_made_with(path, ("seed", meta.get("seed"), seed))
        check_networks(meta.get("shape"), str(shape))
        try:
            counts = int(meta["rounds"]), int(meta["epochs"]), bool(meta["polishing"])
            critic = _state(arrays, "critic_") if "critic_params" in arrays else None
            return State(_state(arrays, ""), list(arrays["candidates"]), *counts, critic)
        except (KeyError, TypeError, ValueError) as error:
            raise ResultError(
                f"the checkpoint {path} is damaged ({error!r}); delete it to resume from the one before"
            ) from None


_NAMES = ("params", "mean", "square", "counts")


def _vectors(state: TrainState, prefix: str) -> dict[str, Any]:
    return {prefix + name: getattr(state, name).numpy() for name in _NAMES}


def _state(arrays: Mapping[str, Any], prefix: str) -> TrainState:
    return TrainState(*(torch.from_numpy(arrays[prefix + name].copy()) for name in _NAMES))
