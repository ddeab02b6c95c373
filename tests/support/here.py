# SPDX-License-Identifier: BSD-3-Clause
"""An executor that starts no process, which takes seconds: for many short evaluations."""

import pickle
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext

from ncc.harness.pool import Job, Tally, Task


class Here:
    """An executor that runs jobs one after the other in this process."""

    workers = 1

    def opened(self) -> AbstractContextManager[object]:
        return nullcontext()

    def run(self, jobs: Sequence[Job], task: Task, workers: int, tally: Tally) -> Generator[Job, None, None]:
        task = pickle.loads(pickle.dumps(task))  # as it would arrive in a process
        for job in jobs:
            datapath = task.datapath_factory()
            try:
                task.do(job, datapath)
            finally:
                datapath.close()
            tally.finished(job)
            yield job
