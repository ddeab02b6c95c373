# SPDX-License-Identifier: BSD-3-Clause
"""What an evaluation consists of: jobs, and what is said about them while they run."""

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
    """Watches one run (`ncc.harness.run.Watch`) and says what it is to an agent (envs/recording)."""

    def watch(self, measurement: Measurement, limits_bps: FloatArray | None) -> None: ...

    def episode(self, run: Run) -> Episode:
        """What has been watched."""
        ...


RecorderFactory = Callable[[], Recorder]


@dataclass(frozen=True)
class Job:
    """One run to do."""

    scenario: Scenario
    controller: Controller
    seed: int
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Names and digests of what else decides the outcome (datapath, policy file); compared when resuming."""
    purpose: Literal["eval", "record"] = "eval"
    """What for. Who learns from recorded runs must not have met the flows that it is judged on."""

    @property
    def flow_seed(self) -> int:
        """Depends on `purpose` and `seed` alone, so that all controllers meet the same flows."""
        return eval_flow_seed(self.seed) if self.purpose == "eval" else recording_flow_seed(self.seed)

    @property
    def label(self) -> str:
        """For messages."""
        return f"controller {self.controller.name!r}, seed {self.seed}"


@dataclass(frozen=True)
class JobEvent:
    """What `on_progress` is told."""

    job: Job
    kind: Literal["skipped", "started", "running", "finished"]
    """`skipped`: a finished result of the same experiment lay on disk."""
    frac: float
    """Estimate of the share of this job that is done."""
    overall_frac: float
    """The same over all jobs."""
    done: int
    total: int


OnProgress = Callable[[JobEvent], None]


def jobs_for(
    scenario: Scenario,
    controllers: Sequence[Controller],
    seeds: Sequence[int],
    inputs: Mapping[str, Mapping[str, str]] | None = None,
    purpose: Literal["eval", "record"] = "eval",
) -> list[Job]:
    """Every controller under every seed, seed by seed, so that what an interrupted evaluation has done is paired.

    Args:
        inputs: `Job.inputs` by controller name.
    """
    return [
        Job(scenario, c, seed, dict((inputs or {}).get(c.name, {})), purpose) for seed in seeds for c in controllers
    ]


class Tally:
    """Adds up progress and passes it on."""

    def __init__(self, total: int, on_progress: OnProgress | None) -> None:
        self._total, self._on_progress = total, on_progress
        self._frac: dict[str, float] = {}
        self._done = 0

    def tell(self, job: Job, kind: Literal["skipped", "started", "running", "finished"], frac: float) -> None:
        self._frac[job.label] = frac
        self._done += kind in ("skipped", "finished")
        if self._on_progress is not None:
            overall = sum(self._frac.values()) / self._total
            self._on_progress(JobEvent(job, kind, frac, overall, self._done, self._total))
