# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints: RLlib's own, in folders that also hold the state that RLlib does not store."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ncc.agents.checkpoints import Checkpoints, check_made_with, replacing_folder
from ncc.core.errors import ResultError

KIND = "ncc-rllib-checkpoint"
VERSION = 1
RUN = "run.json"


@dataclass(frozen=True)
class RunState:
    """State of a training that RLlib does not store."""

    algorithm: str
    seed: int
    shape: str
    """Text form of the `NetShape`."""
    epochs: int
    episodes: tuple[int, ...]
    """Next episode number of each env runner."""


class CheckpointFolder(Checkpoints):
    """The checkpoints of one run, one folder each."""

    def save(self, algorithm: Any, state: RunState) -> Path:
        """Write a checkpoint, then delete the oldest beyond those that are kept.

        Raises:
            ResultError: the file system refused; earlier checkpoints are untouched.
        """

        def write(path: Path) -> None:
            with replacing_folder(path) as folder:
                algorithm.save_to_path(str(folder.resolve()))
                text = json.dumps({"kind": KIND, "version": VERSION, **asdict(state)}, indent=1)
                (folder / RUN).write_text(text + "\n")

        return self.add(state.epochs, write)

    def load(self, algorithm: str, seed: int) -> tuple[Path, RunState]:
        """Find the newest checkpoint; return its path and its state.

        Raises:
            ResultError: none there, damaged, or made with another algorithm or seed.
        """
        path = self.newest()
        try:
            plain = json.loads((path / RUN).read_bytes())
            if (plain.pop("kind"), plain.pop("version")) != (KIND, VERSION):
                raise ValueError(f"not version {VERSION} of {KIND}")
            state = RunState(**{**plain, "episodes": tuple(int(number) for number in plain["episodes"])})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ResultError(
                f"the checkpoint {path} is damaged ({error}); delete it to resume from the one before"
            ) from None
        check_made_with(path, ("algorithm", state.algorithm, algorithm), ("seed", state.seed, seed))
        return path, state
