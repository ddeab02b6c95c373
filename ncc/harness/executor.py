# SPDX-License-Identifier: BSD-3-Clause
"""Executors: where the runs of an evaluation take place. `Processes` of this machine are one, Ray is another.

A worker writes its run itself; only its progress is sent to the parent.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import ncc.harness.run
from ncc.core.errors import ConfigError
from ncc.harness.datapath import Datapath
from ncc.harness.jobs import DatapathFactory, Job, LimiterFactory, RecorderFactory, Tally
from ncc.harness.results import run_folder, save_run
from ncc.harness.run import RunProgress, run_once
from ncc.harness.workers import Workers

REPORT_EVERY_S = 0.2
"""Seconds between a worker's progress messages."""


@dataclass(frozen=True)
class Task:
    """Data that a worker needs beside its jobs."""

    folder: Path
    cwd: str
    """Current folder of the command, where relative paths begin."""
    datapath_factory: DatapathFactory
    limiter_factory: LimiterFactory
    config: Mapping[str, Any]
    recorder_factory: RecorderFactory | None = None

    def do(self, job: Job, datapath: Datapath, progress: Callable[[RunProgress], None] | None = None) -> None:
        """Run a job, write its files and close the datapath."""
        recorder = None if self.recorder_factory is None else self.recorder_factory()
        run = run_once(
            datapath,
            job.scenario,
            job.controller,
            self.limiter_factory(job.controller, job.scenario),
            job.seed,
            flow_seed=job.flow_seed,
            progress=progress,
            watch=None if recorder is None else recorder.watch,
        )
        where = run_folder(self.folder, job.controller.name, job.seed)
        episode = None if recorder is None else recorder.episode(run)
        save_run(run, where, config=self.config, inputs=job.inputs, episode=episode)
        datapath.close()


class Executor(Protocol):
    """A place where jobs run; the files that they write do not depend on it."""

    @property
    def workers(self) -> int:
        """Runs at a time, at least 1."""
        ...

    def opened(self) -> AbstractContextManager[object]:
        """Prepare for several calls of `run`; without it, each call prepares for itself."""
        ...

    def run(self, jobs: Sequence[Job], task: Task, workers: int, tally: Tally) -> Generator[Job, None, None]:
        """Yield jobs as they finish, `workers` at a time; no process is left behind, however it ends.

        Raises:
            WorkerDiedError: a worker ended before its job; the message names the job and how the worker ended.
            NccError: an error of a job, of the same class, with the job's name.
        """
        ...


@dataclass(frozen=True)
class Processes:
    """The executor on this machine: spawned processes, each with one datapath."""

    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"workers must be at least 1, got {self.workers}")

    def opened(self) -> AbstractContextManager[object]:
        return nullcontext()

    def run(
        self, jobs: Sequence[Job], task: Task, workers: int, tally: Tally, *, main: bool = True
    ) -> Generator[Job, None, None]:
        """See `Executor.run`; `main` as in `Workers`."""
        queue, busy = deque(jobs), dict[int, Job]()
        remedy = f"finished runs are kept in {task.folder}, and the same command goes on from there"
        pool = Workers(_run_jobs, [(task,)] * workers, [""] * workers, remedy=remedy, main=main)

        def assign(worker: int) -> None:
            busy[worker] = job = queue.popleft()
            pool.labels[worker] = job.label
            tally.report(job, "started", 0.0)
            pool.send(worker, job)

        try:
            for worker in range(workers):
                assign(worker)
            while busy:
                for worker, frac in pool.messages(busy):
                    job = busy[worker]
                    if frac is not None:
                        tally.report(job, "running", frac)
                        continue
                    tally.report(job, "finished", 1.0)
                    yield job
                    if queue:
                        assign(worker)
                    else:
                        del busy[worker]
        finally:
            pool.close()


def _run_jobs(pipe: "Connection[Any, Any]", task: Task) -> None:
    """Run a worker: do each job that arrives, send the share that is done, and None once its files are written."""
    os.chdir(task.cwd)
    logging.getLogger(ncc.harness.run.__name__).setLevel(logging.ERROR)  # the parent warns of invalid runs
    datapath: Datapath | None = None
    try:
        while True:
            job: Job = pipe.recv()
            datapath = datapath or task.datapath_factory()
            task.do(job, datapath, _Throttle(pipe))
            pipe.send(None)
    finally:
        if datapath is not None:
            datapath.close()


class _Throttle:
    """A sender of progress at limited frequency."""

    def __init__(self, pipe: "Connection[Any, Any]") -> None:
        self._pipe, self._last_s = pipe, time.monotonic()

    def __call__(self, progress: RunProgress) -> None:
        if (now_s := time.monotonic()) - self._last_s >= REPORT_EVERY_S:
            self._last_s = now_s
            self._pipe.send(progress.frac)
