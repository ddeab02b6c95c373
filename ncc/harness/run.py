# SPDX-License-Identifier: BSD-3-Clause
"""One run: a scenario's flows, one controller, one datapath, one seed, from the first flow to the last byte."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ncc.core.errors import ConfigError, DatapathError, InvalidRunError
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.measurement import Epochs, Measurement, stack
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.core.workload import endless
from ncc.harness.controller import Controller
from ncc.harness.datapath import Datapath, Records
from ncc.harness.limiter import RateLimiter
from ncc.harness.manifest import now

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunProgress:
    """Where a run stands after an epoch."""

    time_s: float
    """Simulated time."""
    flows_finished: int
    n_flows: int
    frac: float
    """Estimate of the share done, in [0, 1]: arrivals first, then what is left to deliver."""


@runtime_checkable
class ReportsFallbacks(Protocol):
    """A datapath or limiter that may do something else than what it was asked for, and then says so."""

    @property
    def fallbacks(self) -> Sequence[str]:
        """One sentence each, since the last `start` or `reset`."""
        ...


@runtime_checkable
class ReportsFacts(Protocol):
    """A datapath or limiter whose runs come with facts of their own, which a result must not be without."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Plain data of the run that has just been finished."""
        ...


@runtime_checkable
class Hastens(Protocol):
    """A datapath in whose runs real time passes, so that what a decision takes counts."""

    def hastened(self, limiter: RateLimiter) -> RateLimiter:
        """What decides as `limiter` does, and faster if there is such; else `limiter` itself."""
        ...


@dataclass(frozen=True)
class Run:
    """Everything a run produced. `problems` is empty exactly when its numbers may be used."""

    scenario: Scenario
    controller: Controller
    datapath: str
    seed: int
    flow_seed: int
    """What the flows were drawn with; equal for all controllers that are compared."""
    flows: FlowTable
    records: Records
    epochs: Epochs
    started_at: str
    """UTC, ISO 8601."""
    finished_at: str
    wall_s: float
    cpu_s: float
    """CPU time of the process during the run, all threads."""
    fallbacks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    datapath_facts: Mapping[str, Any] = field(default_factory=dict)
    """What the datapath itself says of the run, and what decided in it (`ReportsFacts`)."""

    @property
    def valid(self) -> bool:
        """Whether every flow was delivered and nothing fell back."""
        return not self.problems

    @property
    def label(self) -> str:
        """For messages."""
        return f"controller {self.controller.name!r}, seed {self.seed}"

    def require_valid(self) -> "Run":
        """The run itself; `InvalidRunError` names what is wrong with it."""
        if self.problems:
            raise InvalidRunError(f"the run of {self.label} must not be used: {'; '.join(self.problems)}")
        return self


def eval_flow_seed(seed: int) -> int:
    """Seed of an evaluation's flow list.

    A function of the seed only, so that all controllers meet the same flows; and never those of training, which
    derive from another purpose.
    """
    return derive_seed(seed, "eval", "flows")


def recording_flow_seed(seed: int) -> int:
    """Seed of the flow list of a run that is recorded to learn from: never an evaluation's, nor one of training."""
    return derive_seed(seed, "record", "flows")


def limiter_seed(seed: int) -> int:
    """What `run_once` resets the limiter with."""
    return derive_seed(seed, "eval", "limiter")


Watch = Callable[[Measurement, FloatArray | None], None]
"""Told of the start of a run (no limits), and of each epoch with the limits [n_agents] that were decided for it."""


def run_once(
    datapath: Datapath,
    scenario: Scenario,
    controller: Controller,
    limiter: RateLimiter,
    seed: int,
    *,
    flow_seed: int,
    progress: Callable[[RunProgress], None] | None = None,
    watch: Watch | None = None,
) -> Run:
    """Run until every flow is delivered, or `duration_s + drain_s` is over (`drain_s` None: no end but that).

    A flow of endless traffic (`Traffic.endless`) need not be delivered; once only such flows are left after
    `duration_s`, the run ends.

    Args:
        seed: what the datapath and the limiter draw from (each from its own stream).
        flow_seed: what the flow list is drawn from; see `eval_flow_seed`.
        progress: called after every epoch.
        watch: takes note of what happens, and changes nothing.

    Returns:
        The run; `problems` lists undelivered flows, impossible records and fallbacks, and each is logged as a warning.

    Raises:
        ConfigError: the seed draws no flow at all.
        DatapathError: the datapath's records do not fit its flows.
    """
    flows = scenario.flows(flow_seed)
    if len(flows) == 0:
        raise ConfigError(
            f"scenario {scenario.name!r} draws no flow with flow seed {flow_seed}: raise duration_s "
            f"({scenario.duration_s} s) or the offered load"
        )
    end_s = math.inf if scenario.drain_s is None else scenario.duration_s + scenario.drain_s
    last_epoch = math.inf if math.isinf(end_s) else math.ceil(end_s / scenario.period_s - 1e-9)
    needed = len(flows) - int(endless(scenario.workload, flows).sum())
    started_at, wall, cpu = now(), time.perf_counter(), time.process_time()

    if isinstance(datapath, Hastens):
        limiter = datapath.hastened(limiter)
    limiter.reset(scenario, limiter_seed(seed))
    measurement = datapath.start(scenario, flows, controller.stack, derive_seed(seed, "eval", "datapath"))
    measured: list[Measurement] = []
    if watch is not None:
        watch(measurement, None)
    over = False
    while not over and measurement.epoch < last_epoch:  # periods may be missed
        limits_bps = limiter.decide(measurement)
        measurement = datapath.step(limits_bps)
        measured.append(measurement)
        if watch is not None:
            watch(measurement, limits_bps)
        # Endless flows are watched until the arrivals end, and not longer.
        watched = needed == len(flows) or measurement.time_s > scenario.duration_s - 1e-9
        over = watched and measurement.flows_finished >= needed
        if progress is not None:
            progress(_where(measurement, scenario, len(flows), over=over or measurement.time_s >= end_s))
    records = datapath.finish()

    fallbacks = tuple(f for part in (datapath, limiter) if isinstance(part, ReportsFallbacks) for f in part.fallbacks)
    run = Run(
        scenario=scenario,
        controller=controller,
        datapath=datapath.name,
        seed=seed,
        flow_seed=flow_seed,
        flows=flows,
        records=records,
        epochs=stack(measured),
        started_at=started_at,
        finished_at=now(),
        wall_s=time.perf_counter() - wall,
        cpu_s=time.process_time() - cpu,
        fallbacks=fallbacks,
        problems=tuple(_problems(scenario, flows, records, measurement)) + tuple(f"fallback: {f}" for f in fallbacks),
        datapath_facts={
            name: fact
            for part in (limiter, datapath)
            if isinstance(part, ReportsFacts)
            for name, fact in part.facts.items()
        },
    )
    for problem in run.problems:
        log.warning("INVALID run of %s: %s", run.label, problem)
    return run


def _where(measurement: Measurement, scenario: Scenario, n_flows: int, *, over: bool) -> RunProgress:
    arrivals = min(measurement.time_s / scenario.duration_s, 1.0)
    # How long the drain takes is unknown beforehand, and mostly short: the flows that are left measure it best.
    frac = 1.0 if over else 0.9 * arrivals + 0.1 * (arrivals >= 1.0) * measurement.flows_finished / n_flows
    return RunProgress(measurement.time_s, measurement.flows_finished, n_flows, frac)


def _problems(scenario: Scenario, flows: FlowTable, records: Records, last: Measurement) -> list[str]:
    """What makes the numbers of a run unusable, one sentence each."""
    for table, n in ((records.flows, len(flows)), (records.ports, 2 * len(scenario.network().links))):
        shapes = {f.name: np.shape(getattr(table, f.name)) for f in fields(table)}
        if any(shape != (n,) for shape in shapes.values()):
            raise DatapathError(f"{type(table).__name__} must have {n} rows in every column, got {shapes}")
    problems = []
    finish = records.flows.finish_s
    missing = np.flatnonzero(np.isnan(finish) & ~endless(scenario.workload, flows))
    if len(missing):
        nodes, first = scenario.network().nodes, missing[0]
        problems.append(
            f"{len(missing)} of {len(flows)} flows were not delivered by {last.time_s:.6g} s (first: flow {first}, "
            f"{nodes[flows.src[first]].name} to {nodes[flows.dst[first]].name}, {flows.size_bytes[first]} bytes, "
            f"arrived at {flows.start_s[first]:.6g} s)"
        )
    if (early := int(np.sum(finish <= flows.start_s))) > 0:
        problems.append(f"{early} flows finished before they arrived")
    if last.flows_finished != (done := int(np.sum(~np.isnan(finish)))):
        problems.append(f"the last epoch counts {last.flows_finished} flows as finished, the records {done}")
    return problems
