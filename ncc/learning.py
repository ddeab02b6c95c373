# SPDX-License-Identifier: BSD-3-Clause
"""What a learner said while it learned: one JSON line per report, and TensorBoard."""

import json
import math
import time
from collections import deque
from pathlib import Path
from typing import Any

from ncc.core.errors import ResultError
from ncc.harness.atomic import write_text
from ncc.harness.learner import Progress

LEARNING = "learning.jsonl"
TENSORBOARD = "tensorboard"
RECENT = 20
"""Episodes in the running mean that the progress bar shows."""


class LearningLog:
    """Appends every `Progress` to `learning.jsonl` and to a TensorBoard event file; use as a context manager.

    A resumed run goes on from its checkpoint, which is its first report: rows from after it are dropped then.
    """

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self._path = folder / LEARNING
        self._kept = read_learning(folder) if resume else []
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._opened = False
        self._board_folder = folder / TENSORBOARD
        self._started = time.perf_counter()

    def __enter__(self) -> "LearningLog":
        # Imported here: with it comes torch, which --help and bad input must not wait for.
        from torch.utils.tensorboard import SummaryWriter

        self._board: Any = SummaryWriter(str(self._board_folder))
        return self

    def __exit__(self, *_: object) -> None:
        self._board.close()

    def report(self, progress: Progress) -> None:
        """Record one report."""
        if not self._opened:
            self._opened = True
            self._kept = [row for row in self._kept if row["epochs"] <= progress.epochs]
            self._earlier_s = max((row["wall_s"] for row in self._kept), default=0.0)
            write_text(self._path, "".join(json.dumps(row) + "\n" for row in self._kept))
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
        for name, value in progress.scalars.items():
            self._board.add_scalar(f"learner/{name}", value, progress.epochs)
        if progress.returns:
            self._board.add_scalar("episode/return", sum(progress.returns) / len(progress.returns), progress.epochs)

    @property
    def recent_return(self) -> float | None:
        """Mean return of the last episodes; None before the first."""
        return sum(self._recent) / len(self._recent) if self._recent else None


def read_learning(folder: Path) -> list[dict[str, Any]]:
    """All rows of a run's learning log, in order. A line cut short by a crash can only be the last; it is left out."""
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
