# SPDX-License-Identifier: BSD-3-Clause
"""An evaluation: controllers x seeds, each run by a worker and written to disk at once, resumable."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ncc.core.errors import ConfigError, ResultError
from ncc.harness.datapath import Alone
from ncc.harness.executor import Executor, Processes, Task
from ncc.harness.jobs import DatapathFactory, Job, LimiterFactory, OnProgress, RecorderFactory, Tally
from ncc.harness.lock import exclusive
from ncc.harness.manifest import check_plain, is_sealed, provenance, unseal
from ncc.harness.results import Evaluation, StoredRun, open_run, run_folder, run_identity, save_evaluation
from ncc.harness.run import drawn

ONE_AT_A_TIME = Processes(1)

log = logging.getLogger(__name__)


def evaluate(
    jobs: Sequence[Job],
    folder: Path,
    datapath_factory: DatapathFactory,
    limiter_factory: LimiterFactory,
    *,
    executor: Executor = ONE_AT_A_TIME,
    config: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    recorder_factory: RecorderFactory | None = None,
) -> Evaluation:
    """Run the jobs that `folder` does not hold yet and seal it as an evaluation, with runs in the order of `jobs`.

    Results do not depend on `executor`. An interrupted evaluation cannot be loaded (`load_evaluation` refuses it), but
    its finished runs are kept: the same call continues from there. A run made by another version of the code is done
    again.

    Args:
        datapath_factory: picklable; called once in each worker.
        limiter_factory: picklable; called in the worker for each job.
        executor: where the runs take place, and how many at a time; one if the datapath must be `Alone`.
        config: resolved configuration for the manifests.
        recorder_factory: picklable; called in the worker for each job, and the recording is saved beside its results.

    Raises:
        ConfigError: there are no jobs, a job occurs twice, or a seed draws no flow.
        ResultError: `folder` holds other experiments, is being written by another process, or cannot be written.
        WorkerDiedError, NccError: as in `Executor.run`.
    """
    if not jobs:
        raise ConfigError("nothing to evaluate: name at least one controller and one seed")
    check_plain(dict(config or {}), "config")
    folders = {job.label: run_folder(folder, job.controller.name, job.seed) for job in jobs}
    if len(folders) < len(jobs):
        raise ConfigError("the evaluation lists a controller and seed twice; controllers need different names")
    for job in {(id(job.scenario), job.flow_seed): job for job in jobs}.values():
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
        tally = Tally(len(jobs), on_progress)
        for job in jobs:
            if job.label in runs:
                tally.report(job, "skipped", 1.0)
        remaining = [job for job in jobs if job.label not in runs]
        made_by: object = datapath_factory
        most = 1 if isinstance(made_by, Alone) and made_by.alone else executor.workers
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
    """The job's result if it is on disk, complete, and of the same experiment."""
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
