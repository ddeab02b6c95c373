# SPDX-License-Identifier: BSD-3-Clause
"""Evaluations: one run for each controller and seed, done by workers. An interrupted evaluation can be resumed.

An executor decides where the runs take place: in processes of this machine (`Processes`) or on Ray. A worker writes the
results of a run to disk as soon as it ends. It sends only its progress to the parent.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Protocol

import ncc.harness.run
from ncc.core.errors import ResultError
from ncc.core.scenario import Scenario
from ncc.core.workload import has_requests
from ncc.harness.atomic import exclusive
from ncc.harness.controller import Controller
from ncc.harness.datapath import Datapath
from ncc.harness.limiter import RateLimiter
from ncc.harness.manifest import is_sealed, provenance, unseal
from ncc.harness.results import Evaluation, StoredRun, open_run, run_folder, run_identity, save_evaluation, save_run
from ncc.harness.run import drawn, eval_flow_seed, recording_flow_seed, run_once
from ncc.harness.workers import Workers

log = logging.getLogger(__name__)

REPORT_EVERY_S = 0.2
"""Seconds between a worker's progress messages."""

DatapathFactory = Callable[[], Datapath]
LimiterFactory = Callable[[Controller, Scenario], RateLimiter]
RecorderFactory = Callable[[], Any]
"""Function that makes the recorder of one run (`ncc.envs.recording.Recorder`)."""


@dataclass(frozen=True)
class Job:
    """One run to do."""

    scenario: Scenario
    controller: Controller
    seed: int
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Names and digests of other data that decide the outcome (datapath, policy file); compared when resuming."""
    purpose: Literal["eval", "record"] = "eval"
    """Purpose of the run. The flows' seed depends on it, so that recordings never have the flows of evaluations."""

    @property
    def flow_seed(self) -> int:
        """Seed of the flows, from `purpose` and `seed` only, so that all controllers meet the same flows."""
        return eval_flow_seed(self.seed) if self.purpose == "eval" else recording_flow_seed(self.seed)

    @property
    def label(self) -> str:
        """Description of the job for messages."""
        return f"controller {self.controller.name!r}, seed {self.seed}"


Show = Callable[[float, str], None]
"""Function that displays progress (`ncc.harness.progress.Bar.update`).

It takes the estimated share of all jobs that is done, in [0, 1], and a text.
"""


def jobs_for(
    scenario: Scenario | Mapping[str, Scenario],
    controllers: Sequence[Controller],
    seeds: Sequence[int],
    inputs: Mapping[str, Mapping[str, str]] | None = None,
    purpose: Literal["eval", "record"] = "eval",
) -> list[Job]:
    """Return a job for each seed and controller: all controllers with the first seed, then all with the next.

    An interrupted evaluation then has some seeds with which all controllers have run, and these can be compared.

    Args:
        scenario: the scenario of all controllers, or a scenario for each controller's name.
        inputs: `Job.inputs` for controllers' names.
    """
    of = scenario if isinstance(scenario, Mapping) else {c.name: scenario for c in controllers}
    return [
        Job(of[c.name], c, seed, dict((inputs or {}).get(c.name, {})), purpose) for seed in seeds for c in controllers
    ]


class Tally:
    """The progress of `total` jobs together, `kept` of them done earlier. Each change is passed to `show`, if given."""

    def __init__(self, total: int, show: Show | None, kept: int = 0) -> None:
        self._total, self._show, self._done = total, show, kept
        self._kept = f" ({kept} kept from before)" if kept else ""
        self._running: dict[str, float] = {}
        self._say()

    def running(self, job: Job, frac: float) -> None:
        """Note the share of a job that is done."""
        self._running[job.label] = frac
        self._say()

    def finished(self, job: Job) -> None:
        """Note that a job is done."""
        self._running.pop(job.label, None)
        self._done += 1
        self._say()

    def _say(self) -> None:
        if self._show is not None:
            frac = (self._done + sum(self._running.values())) / self._total
            self._show(frac, f"{self._done} of {self._total} runs{self._kept}")


@dataclass(frozen=True)
class Task:
    """Data that a worker needs for all its jobs."""

    folder: Path
    cwd: str
    """Current folder of the command, where relative paths begin."""
    datapath_factory: DatapathFactory
    limiter_factory: LimiterFactory
    config: Mapping[str, Any]
    recorder_factory: RecorderFactory | None = None

    def do(self, job: Job, datapath: Datapath, progress: Callable[[float], None] | None = None) -> None:
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
        """Return a context in which calls of `run` share their preparation; outside it, each call prepares anew."""
        ...

    def run(self, jobs: Sequence[Job], task: Task, workers: int, tally: Tally) -> Generator[Job, None, None]:
        """Run `workers` jobs at a time and yield each job when it is done; leave no process behind, whatever happens.

        Raises:
            WorkerDiedError: a worker ended before its job; the message names the job and how the worker ended.
            NccError: a job raised this error; the job's label is put before its message.
        """
        ...


@dataclass(frozen=True)
class Processes:
    """The executor on this machine: spawned processes, each with one datapath."""

    workers: int = 1

    def opened(self) -> AbstractContextManager[object]:
        return nullcontext()

    def run(
        self, jobs: Sequence[Job], task: Task, workers: int, tally: Tally, *, main: bool = True
    ) -> Generator[Job, None, None]:
        """Run jobs as `Executor.run` does; `main` is passed on to `Workers`."""
        queue, busy = deque(jobs), dict[int, Job]()
        remedy = f"finished runs are kept in {task.folder}, and the same command goes on from there"
        pool = Workers(_run_jobs, [(task,)] * workers, [""] * workers, remedy=remedy, main=main)

        def assign(worker: int) -> None:
            busy[worker] = job = queue.popleft()
            pool.labels[worker] = job.label
            pool.send(worker, job)

        try:
            for worker in range(workers):
                assign(worker)
            while busy:
                for worker, frac in pool.messages(busy):
                    job = busy[worker]
                    if frac is not None:
                        tally.running(job, frac)
                        continue
                    tally.finished(job)
                    yield job
                    if queue:
                        assign(worker)
                    else:
                        del busy[worker]
        finally:
            pool.close()


def _run_jobs(pipe: "Connection[Any, Any]", task: Task) -> None:
    """Run a worker: do the jobs that arrive. Send the share done of a job, and None when its files are written."""
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
    """A callback that sends the progress to the parent, at most once in `REPORT_EVERY_S`."""

    def __init__(self, pipe: "Connection[Any, Any]") -> None:
        self._pipe, self._last_s = pipe, time.monotonic()

    def __call__(self, frac: float) -> None:
        if (now_s := time.monotonic()) - self._last_s >= REPORT_EVERY_S:
            self._last_s = now_s
            self._pipe.send(frac)


ONE_AT_A_TIME = Processes(1)


def evaluate(
    jobs: Sequence[Job],
    folder: Path,
    datapath_factory: DatapathFactory,
    limiter_factory: LimiterFactory,
    *,
    executor: Executor = ONE_AT_A_TIME,
    config: Mapping[str, Any] | None = None,
    show: Show | None = None,
    recorder_factory: RecorderFactory | None = None,
) -> Evaluation:
    """Run the jobs whose results `folder` lacks, and make it an evaluation with its runs in the order of `jobs`.

    Results do not depend on `executor`. If the evaluation is interrupted, `load_evaluation` refuses the folder, but its
    finished runs are kept: the same call continues from there. A run made by another version of the code is done again.

    Args:
        datapath_factory: picklable; called once in each worker.
        limiter_factory: picklable; called in the worker for each job.
        executor: place of the runs, and number of runs at a time. If the datapath is `alone`
            (`ncc.harness.datapath.Datapath`), runs take place one at a time.
        config: resolved configuration for the manifests.
        show: displays the progress; None: nothing is displayed.
        recorder_factory: picklable; called in the worker for each job. The recording is saved beside the job's results.
            None: nothing is recorded.

    Raises:
        ConfigError: a seed draws no flow.
        ResultError: `folder` holds other experiments, is being written by another process, or cannot be written.
        WorkerDiedError, NccError: as in `Executor.run`.
    """
    folders = {job.label: run_folder(folder, job.controller.name, job.seed) for job in jobs}
    for job in {(id(job.scenario), job.flow_seed): job for job in jobs}.values():
        if not has_requests(job.scenario.workload):  # requests always have flows
            drawn(job.scenario, job.seed, job.flow_seed)  # a seed without flows is refused before anything runs
    with exclusive(folder, "evaluation"):
        unseal(folder)
        for leftover in folder.rglob(".*.partial"):
            leftover.unlink()
        runs = {job.label: run for job in jobs if (run := _finished(job, folders[job.label])) is not None}
        code = _code(provenance())
        stale = [name for name, run in runs.items() if _code(run.manifest.provenance) != code]
        if stale:
            log.warning("%d runs in %s were made by another version of the code; doing them again", len(stale), folder)
        runs = {name: run for name, run in runs.items() if name not in stale}
        tally = Tally(len(jobs), show, kept=len(runs))
        remaining = [job for job in jobs if job.label not in runs]
        most = 1 if getattr(datapath_factory, "alone", False) else executor.workers
        task = Task(folder, str(Path.cwd()), datapath_factory, limiter_factory, dict(config or {}), recorder_factory)
        if remaining:
            with closing(executor.run(remaining, task, min(most, len(remaining)), tally)) as done:
                for job in done:
                    runs[job.label] = open_run(folders[job.label], verify=False)
        for job in jobs:
            for problem in runs[job.label].problems:
                log.warning("INVALID run of %s: %s", job.label, problem)
        return save_evaluation(folder, [runs[job.label] for job in jobs], config=config or {})


def _finished(job: Job, folder: Path) -> StoredRun | None:
    """Return the job's result from disk; None: there is none, or it is incomplete or damaged.

    Raises:
        ResultError: the folder has the result of another experiment.
    """
    if not is_sealed(folder):
        return None
    try:
        run = open_run(folder)
    except ResultError as error:
        log.warning("%s; doing it again", error)
        return None
    wanted = run_identity(job.scenario, job.controller, job.seed, job.flow_seed, job.inputs)
    other = [key for key, value in wanted.items() if run.manifest.facts.get(key) != value]
    if other:
        raise ResultError(
            f"{folder} holds the result of another experiment ({', '.join(other)} differ); choose another folder, or "
            "delete this one"
        )
    return run


def _code(made: Mapping[str, Any]) -> Any:
    git = made["git"]
    return made["ncc"], git["commit"], git.get("changes"), made["packages"].get("ns3")
