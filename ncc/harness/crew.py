# SPDX-License-Identifier: BSD-3-Clause
"""Worker processes that run jobs.

Workers are spawned, never forked, because a simulator or a BLAS may hold threads and locks. Each holds one live
simulation, because a simulator may abort its interpreter. A worker writes its run itself; only progress crosses the
pipe.
"""

import logging
import signal
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, cast

import ncc.harness.run
from ncc.core.errors import NccError, WorkerDiedError
from ncc.harness.datapath import Datapath
from ncc.harness.jobs import DatapathFactory, Job, LimiterFactory, RecorderFactory, Tally
from ncc.harness.processes import PackedError, end, killed_by, pack_error, quiet_start, unpack_error
from ncc.harness.results import run_folder, save_run
from ncc.harness.run import RunProgress, run_once

REPORT_EVERY_S = 0.2
"""Seconds between a worker's progress messages."""


@dataclass(frozen=True)
class Task:
    """Data that a worker needs beside its jobs."""

    folder: Path
    datapath_factory: DatapathFactory
    limiter_factory: LimiterFactory
    config: Mapping[str, Any]
    recorder_factory: RecorderFactory | None = None


@dataclass
class _Worker:
    process: SpawnProcess
    job: Job


def work_off(remaining: Sequence[Job], task: Task, workers: int, tally: Tally) -> Generator[Job, None, None]:
    """Yield jobs as they finish; no worker is left behind, however it ends."""
    queue = deque(remaining)
    crew: dict[Connection, _Worker] = {}
    try:
        for _ in range(workers):
            _hire(crew, queue.popleft(), task, tally)
        while crew:
            for pipe in cast(list[Connection], wait(list(crew))):
                worker = crew[pipe]
                progress = _hear(pipe, worker, task)
                if progress is not None:
                    tally.tell(worker.job, "running", progress.frac)
                    continue
                tally.tell(worker.job, "finished", 1.0)
                yield worker.job
                if queue:
                    worker.job = queue.popleft()
                    _assign(pipe, worker.job, tally)
                else:
                    pipe.close()
                    crew.pop(pipe).process.join()
    finally:
        end([worker.process for worker in crew.values()])
        for pipe in crew:
            pipe.close()


def _hire(crew: dict[Connection, _Worker], job: Job, task: Task, tally: Tally) -> None:
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(
        target=_worker, args=(there, task), name=f"ncc-eval-{len(crew)}", daemon=True
    )
    with quiet_start():
        process.start()
    there.close()
    crew[here] = _Worker(process, job)
    _assign(here, job, tally)


def _assign(pipe: Connection, job: Job, tally: Tally) -> None:
    tally.tell(job, "started", 0.0)
    with suppress(BrokenPipeError):  # it has died: reading from the pipe will report it, with its exit status
        pipe.send(job)


def _hear(pipe: Connection, worker: _Worker, task: Task) -> RunProgress | None:
    """Receive a worker's progress; None when its run is on disk."""
    try:
        message = pipe.recv()
    except (EOFError, ConnectionResetError):
        raise WorkerDiedError(_obituary(worker, task.folder)) from None
    if isinstance(message, PackedError):
        raise unpack_error(message, worker.job.label)
    return cast(RunProgress | None, message)


def _worker(pipe: Connection, task: Task) -> None:
    """Run jobs until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent stops the workers
    signal.signal(signal.SIGTERM, _leave)  # by this signal, on which a datapath that holds more than memory is closed
    logging.getLogger(ncc.harness.run.__name__).setLevel(logging.ERROR)  # the parent warns of invalid runs
    datapath: Datapath | None = None
    try:
        while True:
            try:
                job: Job = pipe.recv()
            except EOFError:
                return
            try:
                datapath = datapath or task.datapath_factory()
                limiter = task.limiter_factory(job.controller, job.scenario)
                recorder = None if task.recorder_factory is None else task.recorder_factory()
                run = run_once(
                    datapath,
                    job.scenario,
                    job.controller,
                    limiter,
                    job.seed,
                    flow_seed=job.flow_seed,
                    progress=_Throttle(pipe),
                    watch=None if recorder is None else recorder.watch,
                )
                where = run_folder(task.folder, job.controller.name, job.seed)
                episode = None if recorder is None else recorder.episode(run)
                save_run(run, where, config=task.config, inputs=job.inputs, episode=episode)
                datapath.close()
            except NccError as error:
                pipe.send(pack_error(error))
                return
            pipe.send(None)
    except (BrokenPipeError, ConnectionResetError):
        return  # the parent has exited: nobody waits for the result
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if datapath is not None:
            datapath.close()


def _leave(number: int, _: FrameType | None) -> None:
    """Raise SystemExit on the first signal only."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


class _Throttle:
    """A sender of progress at limited frequency."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._last_s = pipe, time.monotonic()

    def __call__(self, progress: RunProgress) -> None:
        if (at := time.monotonic()) - self._last_s >= REPORT_EVERY_S:
            self._last_s = at
            self._pipe.send(progress)


def _obituary(worker: _Worker, folder: Path) -> str:
    name = killed_by(worker.process)
    how = f"killed by {name}" if name else f"exit status {worker.process.exitcode}"
    how += " (perhaps for want of memory)" if name == "SIGKILL" else ""
    return (
        f"the worker running {worker.job.label} ended before its run did: {how}; finished runs are kept in {folder}, "
        "and the same command goes on from there"
    )
