# SPDX-License-Identifier: BSD-3-Clause
"""The folder of a training: locked while in use, removed after a wrong command, resumed after an interruption.

The learner's log in it has one JSON line per report, and TensorBoard's.
"""

import json
import math
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

from ncc.core.errors import ConfigError, DatapathError, ResultError, WorkerDiedError
from ncc.harness.atomic import exclusive, write_text
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Learner, Progress
from ncc.harness.manifest import is_sealed
from ncc.harness.progress import Bar

TRAINING = "training"
LEARNING = "learning.jsonl"
TENSORBOARD = "tensorboard"
NETWORK = "network/"
"""Prefix in the names of the environment's numbers; all other numbers are the learner's."""
RECENT = 20
"""Episodes in the running mean that the progress bar shows."""


@contextmanager
def new_folder(within: Path, name: str) -> Iterator[Path]:
    """Create the folder `name` in `within`, and remove it at the end if it is still empty.

    If the name is taken, it gets a number. Two processes never get the same folder.
    """
    created = [path for path in (within, *within.parents) if not path.exists()]
    _make(within)
    for folder in chain([within / name], (within / f"{name}_{i}" for i in count(1))):
        with suppress(FileExistsError):
            folder.mkdir()
            break
    try:
        yield folder
    finally:
        with suppress(OSError):  # the folder is not empty, or another training is in one of its parents
            for path in (folder, *created):
                path.rmdir()


@contextmanager
def training_in(folder: Path, *, resume: bool) -> Iterator[None]:
    """Lock the run folder of a training while it is written; the folder of a new one must be missing or empty.

    After a `ConfigError` before the first checkpoint, or a `DatapathError` before anything was learnt, a new folder is
    removed or emptied again, so that the corrected command may name the same folder.

    Raises:
        ConfigError: the folder of a new training is not empty or cannot be used.
        ResultError: another training writes to the folder.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    if not resume:
        _make(folder)
    with _resumable(folder), exclusive(folder, TRAINING):
        if not resume and any(folder.iterdir()):
            raise ConfigError(f"out={folder} is not empty; choose another folder, or continue it with resume={folder}")
        try:
            yield
        except (ConfigError, DatapathError) as error:
            # A failed simulation may come after the checkpoint of the untrained policy, which is worth nothing.
            if not (resume or (begun(folder) if isinstance(error, ConfigError) else read_learning(folder))):
                for path in folder.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                with suppress(OSError):  # another training may be in one of the parents
                    for path in created:
                        path.rmdir()
            raise


def _make(folder: Path) -> None:
    """Make the run folder if it does not exist, and check that it is usable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        next(folder.iterdir(), None)
    except OSError as error:
        raise ConfigError(
            f"out={folder} cannot be used ({error.strerror}); choose a folder that can be written"
        ) from None
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"out={folder} cannot be written; choose another folder")


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Add to the error of an interruption the command that resumes the training."""
    try:
        yield
    except WorkerDiedError as error:
        raise WorkerDiedError(f"{error}. Continue with: ncc train resume={folder}") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. Continue with: ncc train resume={folder}") from None


def finished(folder: Path, remedy: str) -> bool:
    """Return True, and print a line that ends in `remedy`, if the training in a folder is finished."""
    if sealed := is_sealed(folder):
        print(f"{folder} is finished; {remedy}")
    return sealed


def begun(folder: Path) -> bool:
    """True if a training in the folder has begun: it has rows in its learning log, or a checkpoint.

    Hidden files do not count: they remain from a process killed while it wrote its first checkpoint.
    """
    return bool(read_learning(folder)) or any((folder / "checkpoints").glob("[!.]*"))


def files_of(folder: Path) -> list[str]:
    """Files of a training, relative to its folder, without hidden ones."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in paths if not path.name.startswith(".")]


class LearningLog:
    """A log that appends each `Progress` to `learning.jsonl` and a TensorBoard event file; a context manager.

    A resumed run reports the state of its checkpoint first; rows of the log that are later than this state are dropped.
    """

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self._path = folder / LEARNING
        self._resumed, self._kept = resume, read_learning(folder) if resume else []
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._opened = False
        self._board_folder = folder / TENSORBOARD
        self._started = time.perf_counter()

    def __enter__(self) -> "LearningLog":
        self._board: Any = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._board is not None:
            self._board.close()

    def report(self, progress: Progress) -> None:
        """Append one report to all logs."""
        if not self._opened:
            self._opened = True
            self._kept = [row for row in self._kept if row["epochs"] <= progress.epochs]
            self._earlier_s = max((row["wall_s"] for row in self._kept), default=0.0)
            write_text(self._path, "".join(json.dumps(row) + "\n" for row in self._kept))
            # Imported late, because it loads torch, for which --help and bad input must not wait.
            from torch.utils.tensorboard import SummaryWriter

            dropped = progress.epochs + 1 if self._resumed else None  # later steps are those of the interrupted run
            self._board = SummaryWriter(str(self._board_folder), purge_step=dropped)
        self._recent.extend(progress.returns)
        if not progress.returns and not progress.scalars:
            return
        row = {
            "epochs": progress.epochs,
            "wall_s": round(self._earlier_s + time.perf_counter() - self._started, 3),
            "returns": list(progress.returns),
            **{name: value for name, value in progress.scalars.items() if math.isfinite(value)},
        }
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        shown = {
            name if name.startswith(NETWORK) else f"learner/{name}": value for name, value in progress.scalars.items()
        }
        if progress.returns:
            shown["episode/return"] = sum(progress.returns) / len(progress.returns)
        for name, value in shown.items():
            self._board.add_scalar(name, value, progress.epochs)

    @property
    def recent_return(self) -> float | None:
        """Mean return of the last `RECENT` episodes; None before the first."""
        return sum(self._recent) / len(self._recent) if self._recent else None


def learn(
    learner: Learner,
    make_env: EnvFactory,
    folder: Path,
    seed: int,
    *,
    meta: Mapping[str, Any],
    resume: bool,
) -> float:
    """Train with a log and a progress bar; return the seconds that it took.

    Args:
        meta: header of the policy files, as plain data.
    """
    started = time.perf_counter()
    with LearningLog(folder, resume=resume) as log, Bar("training", learner.total_epochs, "epochs") as bar:

        def report(progress: Progress) -> None:
            log.report(progress)
            recent = log.recent_return
            bar.update(progress.epochs, "" if recent is None else f"return {recent:+.4g}")

        learner.train(make_env, folder, seed, resume=resume, report=report, meta=meta)
    return time.perf_counter() - started


def read_learning(folder: Path) -> list[dict[str, Any]]:
    """Read all rows of a run's learning log, in order; empty if there is no log.

    A last line that a crash cut short is left out.

    Raises:
        ResultError: another line is damaged.
    """
    path = folder / LEARNING
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = []
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except ValueError:
            if number != len(lines):
                raise ResultError(f"{path} line {number} is damaged; train again") from None
    return rows
