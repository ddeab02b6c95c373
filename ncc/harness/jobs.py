# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of an evaluation, and reports of their progress."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.harness.controller import Controller
from ncc.harness.datapath import Datapath
from ncc.harness.episodes import Episode
from ncc.harness.limiter import RateLimiter
from ncc.harness.run import Run, eval_flow_seed, recording_flow_seed

DatapathFactory = Callable[[], Datapath]
LimiterFactory = Callable[[Controller, Scenario], RateLimiter]


class Recorder(Protocol):
    """A watcher of one run (`ncc.harness.run.Watch`) that makes an episode of it (envs/recording)."""

    def watch(self, measurement: Measurement, limits_bps: FloatArray | None) -> None: ...

    def episode(self, run: Run) -> Episode:
        """The recorded episode of the run that was watched."""
        ...


RecorderFactory = Callable[[], Recorder]


@dataclass(frozen=True)
class Job:
    """One run to do."""

    scenario: Scenario
    controller: Controller
    seed: int
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Names and digests of other data that decide the outcome (datapath, policy file); compared when resuming."""
    purpose: Literal["eval", "record"] = "eval"
    """Purpose of the run, which decides its flows: recorded runs must not contain the flows of evaluations."""

    @property
    def flow_seed(self) -> int:
        """Seed of the flows, from `purpose` and `seed` only, so that all controllers meet the same flows."""
        return eval_flow_seed(self.seed) if self.purpose == "eval" else recording_flow_seed(self.seed)

    @property
    def label(self) -> str:
        """Description of the job for messages."""
        return f"controller {self.controller.name!r}, seed {self.seed}"


@dataclass(frozen=True)
class JobEvent:
    """Event that `on_progress` receives."""

    job: Job
    kind: Literal["skipped", "started", "running", "finished"]
    """`skipped`: a finished result of the same experiment was on disk."""
    frac: float
    """Estimated share of this job that is done."""
    overall_frac: float
    """Estimated share of all jobs that is done."""
    done: int
    total: int


OnProgress = Callable[[JobEvent], None]


def jobs_for(
    scenario: Scenario | Mapping[str, Scenario],
    controllers: Sequence[Controller],
    seeds: Sequence[int],
    inputs: Mapping[str, Mapping[str, str]] | None = None,
    purpose: Literal["eval", "record"] = "eval",
) -> list[Job]:
    """Jobs of every controller under every seed, seed by seed, so that an interrupted evaluation has complete pairs.

    Args:
        scenario: of all, or of each controller by its name.
        inputs: `Job.inputs` by controller name.
    """
    of = scenario if isinstance(scenario, Mapping) else {c.name: scenario for c in controllers}
    return [
        Job(of[c.name], c, seed, dict((inputs or {}).get(c.name, {})), purpose) for seed in seeds for c in controllers
    ]


class Tally:
    """The sum of progress over jobs, reported to `on_progress`."""

    def __init__(self, total: int, on_progress: OnProgress | None) -> None:
        self._total, self._on_progress = total, on_progress
        self._frac: dict[str, float] = {}
        self._done = 0

    def report(self, job: Job, kind: Literal["skipped", "started", "running", "finished"], frac: float) -> None:
        self._frac[job.label] = frac
        self._done += kind in ("skipped", "finished")
        if self._on_progress is not None:
            overall = sum(self._frac.values()) / self._total
            self._on_progress(JobEvent(job, kind, frac, overall, self._done, self._total))
