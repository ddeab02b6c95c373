# SPDX-License-Identifier: BSD-3-Clause
"""The log of a learner: one JSON line per report, and TensorBoard."""

import json
import math
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncc.core.errors import ResultError
from ncc.harness.atomic import write_text
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Learner, Progress
from ncc.harness.progress import Bar

LEARNING = "learning.jsonl"
TENSORBOARD = "tensorboard"
NETWORK = "network/"
"""Prefix in the names of the environment's numbers; all other numbers are the learner's."""
RECENT = 20
"""Episodes in the running mean that the progress bar shows."""


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
