# SPDX-License-Identifier: BSD-3-Clause
"""The runs of an evaluation on Ray: a private one on this machine, or a cluster.

A Ray worker starts a process for each run by `Processes`, because a simulator may abort its interpreter. Errors and
files are therefore those of `Processes`. All nodes must see the folder of the results and the command's working folder.
"""

import platform
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from ncc.agents.rllib.cluster import connected
from ncc.core.errors import ConfigError, NccError, WorkerDiedError
from ncc.harness.pool import Job, Processes, Tally, Task

TRIES = 3
"""Largest number of starts of a run; Ray starts it again if its node dies."""


@dataclass(frozen=True)
class RayExecutor:
    """`ncc.harness.pool.Executor` on Ray."""

    workers: int
    address: str | None
    """Address of a cluster; None: start a private Ray."""

    def opened(self) -> AbstractContextManager[object]:
        return connected(self.address, cpus=self.workers)

    def run(self, jobs: Sequence[Job], task: Task, workers: int, tally: Tally) -> Generator[Job, None, None]:
        with self.opened():
            remote: Any = ray.remote(num_cpus=1, max_retries=TRIES - 1)(_run_here)
            queue, running = deque(jobs), dict[Any, Job]()
            try:
                while queue or running:
                    while queue and len(running) < workers:
                        job = queue.popleft()
                        running[remote.remote(job, task)] = job
                    ended, _ = ray.wait(list(running))
                    for one in ended:
                        job = running.pop(one)
                        _check(one, job, task)
                        tally.finished(job)
                        yield job
            finally:
                for one in running:
                    ray.cancel(one, force=True)


def _check(ended: Any, job: Job, task: Task) -> None:
    """Raise the error of a run that has ended, if there is one."""
    try:
        error: NccError | None = ray.get(ended)
    except ray.exceptions.RayError as lost:
        reason = (str(lost).strip().splitlines() or [type(lost).__name__])[0]
        raise WorkerDiedError(
            f"{job.label}: Ray lost it ({reason}); finished runs are kept in {task.folder}, and the same command goes "
            "on from there"
        ) from None
    if error is not None:
        raise error


def _run_here(job: Job, task: Task) -> NccError | None:
    """Do one job in a process of this node; return its error."""
    for folder in (Path(task.cwd), Path(task.cwd, task.folder)):
        if not folder.is_dir():
            return ConfigError(f"{folder} is not there on {platform.node()}: choose folders that all nodes can see")
    try:
        with closing(Processes().run([job], task, 1, Tally(1, None), main=False)) as done:
            list(done)
    except NccError as error:
        return error
    return None
