# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints: RLlib's own, with the state that RLlib does not store, in folders that are complete or absent."""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ncc.agents.a3c.network import NetShape
from ncc.agents.checkpoints import Checkpoints, check_made_with, check_networks
from ncc.core.errors import ResultError
from ncc.harness.atomic import sync_folder

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
    """The checkpoints of one run, named by the epochs learnt from; the newest `keep` are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        super().__init__(folder, keep, "checkpoint-*")

    def save(self, algorithm: Any, state: RunState) -> Path:
        """Write a checkpoint, then delete the oldest beyond `keep`.

        Raises:
            ResultError: the file system refused; earlier checkpoints are untouched.
        """
        path = self._folder / f"checkpoint-{state.epochs:015d}"
        temporary = self._folder / f".{path.name}.{os.getpid()}.partial"
        try:
            temporary.mkdir(parents=True)
            try:
                algorithm.save_to_path(str(temporary.resolve()))
                text = json.dumps({"kind": KIND, "version": VERSION, **asdict(state)}, indent=1)
                (temporary / RUN).write_text(text + "\n")
                _flush(temporary)
                if path.exists():  # of the same epochs: nothing was learnt since
                    shutil.rmtree(path)
                temporary.rename(path)
                sync_folder(self._folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        except OSError as error:
            raise ResultError(
                f"cannot write {path}: {error.strerror or error}; free some space or choose another folder, then resume"
            ) from error
        for old in self.surplus():
            shutil.rmtree(old)
        return path

    def load(self, algorithm: str, seed: int) -> tuple[Path, RunState]:
        """Find the newest checkpoint; return its path and its state.

        Raises:
            ResultError: none there, damaged, or made with another algorithm or seed.
        """
        path = self.must_exist()
        state = _read(path)
        check_made_with(path, ("algorithm", state.algorithm, algorithm), ("seed", state.seed, seed))
        return path, state


def check_shape(state: RunState, shape: NetShape) -> None:
    """Raise `ResultError` if a checkpoint does not fit the environment and the configured network."""
    check_networks(state.shape, str(shape))


def _read(path: Path) -> RunState:
    try:
        plain = json.loads((path / RUN).read_bytes())
        if (plain.pop("kind"), plain.pop("version")) != (KIND, VERSION):
            raise ValueError(f"not version {VERSION} of {KIND}")
        return RunState(**{**plain, "episodes": tuple(int(number) for number in plain["episodes"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"{path} is no whole checkpoint ({error}); delete it to resume from the one before") from None


def _flush(folder: Path) -> None:
    """Write the folder to disk, so that after a crash a renamed folder is never incomplete."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
