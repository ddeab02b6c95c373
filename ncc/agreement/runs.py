# SPDX-License-Identifier: BSD-3-Clause
"""The runs behind the report, kept on disk: what is there already and was made by the same build is not run again."""

import hashlib
import importlib
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ncc.agreement.cases import LoadCase, PerturbedFactory
from ncc.core.errors import ConfigError, ResultError
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.envs.make import datapath_factory
from ncc.harness.controller import Controller
from ncc.harness.crew import Task, work_off
from ncc.harness.jobs import DatapathFactory, Job, JobEvent, Tally, jobs_for
from ncc.harness.manifest import is_sealed
from ncc.harness.progress import Bar
from ncc.harness.results import StoredRun, open_run, run_folder
from ncc.limiters import LimiterFactory

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Side:
    """A datapath that takes part: under load its runs lie in a folder of this name."""

    name: str
    datapath: str
    factory: DatapathFactory
    build: str
    """What decides its results beside the scenario (`build_of`): runs of another build are run again."""


def build_of(datapath: str) -> str:
    """16 hex digits over a datapath's extension modules and Python files, and over what simulators share."""
    digest = hashlib.sha256()
    for name in (datapath, "native"):
        folders = importlib.import_module(f"ncc.envs.{name}").__path__
        for path in sorted(path for folder in folders for path in Path(folder).iterdir()):
            if path.suffix in (".py", ".so"):
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def sides(ours: str, reference: str) -> tuple[Side, Side, Side]:
    """Ours, the reference, and the reference perturbed.

    Raises:
        UnknownNameError: no such datapath.
        ConfigError: it is not built.
    """
    us, theirs = datapath_factory(ours), datapath_factory(reference)
    build = build_of(reference)
    return (
        Side(ours, ours, us, build_of(ours)),
        Side(reference, reference, theirs, build),
        Side(f"{reference}_perturbed", reference, PerturbedFactory(theirs), build),
    )


Runs = dict[tuple[str, str, str], list[StoredRun]]
"""By case, side and controller: its runs in the order of the seeds."""


def do_runs(
    cases: Sequence[LoadCase],
    who: Sequence[Side],
    controllers: Sequence[Controller],
    seeds: Sequence[int],
    folder: Path,
    *,
    workers: int,
    keep: Collection[str] = (),
) -> Runs:
    """Every case on every side under every controller and seed; results do not depend on `workers`.

    Args:
        keep: datapaths whose runs on disk are taken though another build made them (the report says which).

    Raises:
        ConfigError: nothing to run, or fewer than one worker.
        WorkerDiedError, NccError: as `ncc.harness.pool.evaluate`.
    """
    if not (cases and controllers and seeds) or workers < 1:
        raise ConfigError("a comparison takes at least one case, controller, seed and worker")
    out: Runs = {}
    groups = [(case, side) for case in cases for side in dict.fromkeys(who)]
    with Bar("agreement", total=len(groups)) as bar:
        for i, (case, side) in enumerate(groups):
            inputs = {c.name: {"side": side.name, "build": side.build} for c in controllers}
            jobs = jobs_for(case.scenario, controllers, seeds, inputs)
            stored = _group(
                jobs,
                side,
                folder / case.name / side.name,
                workers=workers,
                keep=side.datapath in keep,
                tell=_Step(bar, i),
            )
            for job, run in zip(jobs, stored, strict=True):
                out.setdefault((case.name, side.name, job.controller.name), []).append(run)
    return out


@dataclass(frozen=True)
class _Step:
    """Progress of one group of runs among all."""

    bar: Bar
    first: int

    def __call__(self, event: JobEvent) -> None:
        self.bar.update(self.first + event.overall_frac, event.job.scenario.name)


def _group(
    jobs: Sequence[Job], side: Side, folder: Path, *, workers: int, keep: bool, tell: Callable[[JobEvent], None]
) -> list[StoredRun]:
    found = {job.label: run for job in jobs if (run := _stored(job, folder, keep)) is not None}
    tally = Tally(len(jobs), tell)
    for job in jobs:
        if job.label in found:
            tally.tell(job, "skipped", 1.0)
    remaining = [job for job in jobs if job.label not in found]
    task = Task(folder, side.factory, LimiterFactory(None), {"agreement": side.name})
    with closing(work_off(remaining, task, min(workers, len(remaining)), tally)) as done:
        for job in done:
            found[job.label] = open_run(_folder(job, folder), verify=False)
    return [found[job.label] for job in jobs]


def _folder(job: Job, folder: Path) -> Path:
    return run_folder(folder, job.controller.name, job.seed)


def _stored(job: Job, folder: Path, keep: bool) -> StoredRun | None:
    """The run of this job on disk, if there is one and it is of the same experiment and build."""
    where = _folder(job, folder)
    if not is_sealed(where):
        return None
    try:
        run = open_run(where)
        facts = run.manifest.facts
        # Compared as values: a field that was added since, with a default, does not make another experiment.
        same = (
            from_dict(Scenario, facts["scenario"], "scenario") == job.scenario
            and from_dict(Controller, facts["controller"], "controller") == job.controller
            and (facts["seed"], facts["flow_seed"]) == (job.seed, job.flow_seed)
        )
    except (ResultError, ConfigError, KeyError) as error:
        log.warning("%s cannot be used (%s); running it again", where, error)
        return None
    return run if same and (keep or facts["inputs"] == job.inputs) else None
