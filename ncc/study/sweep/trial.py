# SPDX-License-Identifier: BSD-3-Clause
"""One trial where it runs: `ncc train` in a process group of its own, and its progress by its log."""

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncc.harness.manifest import is_sealed
from ncc.harness.processes import await_end, processes_where
from ncc.harness.trials import FAILED, FINISHED, RUNNING, UNFINISHED, Report
from ncc.run.learning import RECENT, read_learning
from ncc.run.plan import CONFIG
from ncc.study.sweep.space import override

STEP_S = 0.5
"""Between two reports."""
END_S = 60.0
"""Seconds for an interrupted training to write its checkpoint, before it is killed."""
MARK = "NCC_SWEEP_TRIAL"
"""Environment variable by which a trial's processes are known: its folder."""
RAYS = ("PYTHONWARNINGS", "OMP_NUM_THREADS")
"""Variables that Ray's processes have from Ray or from us; those that begin with RAY_ are, too."""


def progress(rows: Sequence[Mapping[str, Any]], total_epochs: int) -> Report:
    """The progress of a training that has written these rows of its learning log."""
    returns = [value for row in rows for value in row["returns"]][-RECENT:]
    if not returns:
        return Report(RUNNING)
    return Report(RUNNING, min(100.0, 100.0 * rows[-1]["epochs"] / total_epochs), sum(returns) / len(returns))


@dataclass
class TrialJob:
    """A trial as Ray Tune carries it to where it runs; see `ncc.agents.rllib.sweep.Job`."""

    name: str
    overrides: tuple[str, ...]
    folder: str
    """Absolute, as the other paths."""
    log: str
    cwd: str
    """The folder in which the user typed the command, where relative paths begin."""
    stop_file: str
    """A file; once it is there, the trial ends as soon as it can."""
    variables: dict[str, str]
    """The user's own environment, of the variables that Ray changes."""
    total_epochs: int
    replay: str | None = None
    """The state in which it ended earlier; then it only repeats its reports."""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _said: Iterator[Report] | None = field(default=None, repr=False)

    def step(self) -> Report:
        """Start, or wait a moment, and say how it goes."""
        if Path(self.stop_file).exists():
            self.end()
            return Report(UNFINISHED)
        if self.replay is not None:
            self._said = self._said or self._again(self.replay)
            return next(self._said)
        if self._process is None:
            if problem := self._problem():
                return Report(FAILED, said=problem)
            self._process = self._started()
        try:
            status = self._process.wait(STEP_S)
        except subprocess.TimeoutExpired:
            return self._progress()
        self._process = None
        if status == 0 and is_sealed(Path(self.folder)):
            return Report(FINISHED, 100.0, self._progress().value)
        return Report(FAILED, said=f"status {status}: {self._last_words()}")

    def end(self) -> None:
        """Interrupt the training, if there is one, and see that its whole process group goes."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _started(self) -> "subprocess.Popen[bytes]":
        end_all(self.folder, END_S)  # a worker of Ray's may have died, and left one that is about to end
        goes_on = (Path(self.folder) / CONFIG).exists()
        asked = [override("resume", self.folder)] if goes_on else [*self.overrides, override("out", self.folder)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_") and k not in RAYS}
        with Path(self.log).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "ncc.harness.guarded", str(os.getpid()), "ncc.train", *asked],
                cwd=self.cwd,
                env={**environment, **self.variables, MARK: self.folder},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _problem(self) -> str:
        """The reason why it cannot run on this machine; empty if it can."""
        for path in (Path(self.log).parent, Path(self.cwd)):
            if not path.is_dir():
                return f"{path} is not there on {platform.node()}: choose an out= and start where all nodes can see"
        return ""

    def _last_words(self) -> str:
        lines = [line for line in Path(self.log).read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it wrote nothing"

    def _progress(self) -> Report:
        return progress(read_learning(Path(self.folder)), self.total_epochs)

    def _again(self, state: str) -> Iterator[Report]:
        """The reports that it gave when it ran, at most one per percent."""
        rows, percent = read_learning(Path(self.folder)), 0
        for i, row in enumerate(rows, start=1):
            if 100 * row["epochs"] >= (percent + 1) * self.total_epochs:
                report = progress(rows[:i], self.total_epochs)
                percent = int(report.percent)
                yield report
        last = self._progress()
        yield Report(state, last.percent, last.value)


def own_variables() -> dict[str, str]:
    """Variables of this process for `TrialJob.variables`."""
    return {k: v for k, v in os.environ.items() if k.startswith("RAY_") or k in RAYS}


def processes_of(folder: str) -> list[int]:
    """Processes on this machine of the trial that trains there, or of all trials below that folder."""
    return processes_where(_marked(folder))


def end_all(folder: str, patience_s: float) -> None:
    """Wait until no process of a trial there is left; kill those that are after `patience_s`."""
    await_end(_marked(folder), patience_s)


def _marked(folder: str) -> Callable[[bytes], bool]:
    marks = [f"{MARK}={folder}{end}".encode() for end in ("\0", "/")]
    return lambda described: any(mark in described for mark in marks)
