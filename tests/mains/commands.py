# SPDX-License-Identifier: BSD-3-Clause
"""Mains as a user runs them, in this process, and the settings of a tiny training."""

import contextlib
import io
import os
import pickle
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest import mock

from hydra._internal.hydra import Hydra
from hydra.core.config_store import ConfigStore

from ncc.core.errors import NccError
from ncc.core.extras import MissingExtraError
from ncc.harness.networks import Networks
from ncc.harness.pool import Job, Processes, Tally, Task
from ncc.results import training
from ncc.run.compose import register
from tests.support.extras import lacking

TINY = (
    "scenario.topology.hosts=4",
    "scenario.topology.uplink_rate_bps=1e9",
    "scenario.workload.websearch.distribution=hadoop",
    "scenario.workload.websearch.load_frac=0.5",
    "scenario.duration_s=0.02",
    "evaluation.duration_s=0.02",
    "evaluation.seeds=2",
    "evaluation.workers=1",
)
"""Overrides that make a whole training run a matter of seconds."""
SYNC = ("agent=a2c", "agent.racks=1", "agent.epochs=120", "agent.checkpoint_epochs=20")
"""The synchronous agent, whose weights are equal for equal seeds."""


def ncc(main: str, *arguments: str, cwd: Path, **environment: str) -> "CompletedProcess[str]":
    """Run `python -m ncc.<main> <arguments>` in the folder `cwd`, in this process, its runs too; see `ncc_apart`.

    Raises:
        MissingExtraError: the main asks for an extra that is not installed here.
    """
    return _done(here(main, *arguments, cwd=cwd, **environment))


def verb(*words: str, columns: int = 80) -> "CompletedProcess[str]":
    """Run `ncc <words>` in this process, on a terminal of that width."""
    return ncc("__main__", *words, cwd=Path.cwd(), COLUMNS=str(columns))


def here(main: str, *arguments: str, cwd: Path, **environment: str) -> "CompletedProcess[str]":
    """Run a main as `ncc` does, and take a missing extra for an error like others."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    line = command(main, *arguments)
    register()
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(ConfigStore.instance().repo["scenario"]),  # a scenario's file gets a name there
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", [f"ncc.{main}", *arguments]),
        mock.patch.object(sys, "orig_argv", line),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(Processes, "run", _one_by_one),
        mock.patch.object(Hydra, "get_mode", _as_typed),
        mock.patch.object(training, "WorkerNetworks", Networks),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)  # it runs more than once here
        try:
            runpy.run_module(f"ncc.{main}", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = int(end.code or 0)
    return CompletedProcess(line, status, out.getvalue(), err.getvalue())


def _one_by_one(
    executor: Processes, jobs: Sequence[Job], task: Task, workers: int, tally: Tally, **_: Any
) -> Iterator[Job]:
    """Do the jobs that `Processes.run` gives to processes, as they would arrive there."""
    jobs, task = pickle.loads(pickle.dumps((jobs, task)))
    with contextlib.closing(task.datapath_factory()) as datapath:
        for job in jobs:
            try:
                task.do(job, datapath)
            except NccError as error:
                raise error.within(job.label) from error
            tally.finished(job)
            yield job


def _as_typed(hydra: Hydra, **_: Any) -> None:
    """Leave it to --multirun whether Hydra sweeps, which it composes everything to find out."""


def ncc_apart(main: str, *arguments: str, cwd: Path, **environment: str) -> "CompletedProcess[str]":
    """Run a main as `ncc` does, but in a process of its own, whose runs are in others."""
    env = {**os.environ, **environment}
    line = command(main, *arguments)
    return _done(subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False))


def _done(done: "CompletedProcess[str]") -> "CompletedProcess[str]":
    if lacking(done.stderr):
        raise MissingExtraError(done.stderr)
    return done


def command(main: str, *arguments: str) -> list[str]:
    """The command line itself."""
    return [sys.executable, "-m", f"ncc.{main}", *arguments]
