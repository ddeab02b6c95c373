# SPDX-License-Identifier: BSD-3-Clause
"""One run of a scenario's flows with one controller, datapath and seed, from the first flow to the last byte."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError, DatapathError, InvalidRunError
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.graph import after_run
from ncc.core.measurement import Epochs, Measurement, stack
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.core.workload import endless
from ncc.harness.controller import Controller
from ncc.harness.datapath import Datapath, Records, announce
from ncc.harness.limiter import RateLimiter
from ncc.harness.manifest import now

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """Settings and results of a run. Its numbers may be used if and only if `problems` is empty."""

    scenario: Scenario
    controller: Controller
    datapath: str
    seed: int
    flow_seed: int
    """Seed of the flows, equal for all controllers that are compared."""
    flows: FlowTable
    """The flows as they started; those of requests start when others are complete."""
    records: Records
    epochs: Epochs
    started_at: str
    """Start of the run in UTC, ISO 8601."""
    finished_at: str
    wall_s: float
    cpu_s: float
    """CPU time in seconds of the process during the run, over all threads."""
    fallbacks: tuple[str, ...] = ()
    """Sentences that say where the datapath or the limiter deviated from its settings."""
    problems: tuple[str, ...] = ()
    """Sentences that say why the numbers must not be used; fallbacks are among them."""
    datapath_facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain data about the run from the datapath and the limiter, if they have any."""

    @property
    def valid(self) -> bool:
        """True if the run has no problems, so that its numbers may be used."""
        return not self.problems

    @property
    def label(self) -> str:
        """Description of the run for messages."""
        return f"controller {self.controller.name!r}, seed {self.seed}"

    def require_valid(self) -> "Run":
        """Return the run itself, or raise `InvalidRunError`, which names its problems."""
        if self.problems:
            raise InvalidRunError(f"the run of {self.label} must not be used: {'; '.join(self.problems)}")
        return self


def eval_flow_seed(seed: int) -> int:
    """Derive the seed of an evaluation's flow list from the seed of its runs.

    All controllers meet the same flows, because nothing else enters. Training derives its seeds under another name, so
    it never has these flows.
    """
    return derive_seed(seed, "eval", "flows")


def recording_flow_seed(seed: int) -> int:
    """Derive the seed of a recorded run's flow list, which is never that of an evaluation or a training."""
    return derive_seed(seed, "record", "flows")


def drawn(scenario: Scenario, seed: int, flow_seed: int) -> FlowTable:
    """Draw the flows of a scenario with `flow_seed`; `seed` is for the error message.

    Raises:
        ConfigError: no flow was drawn.
    """
    flows = scenario.flows(flow_seed)
    if len(flows) == 0:
        raise ConfigError(
            f"seed {seed} draws no flow in {scenario.duration_s:g} s of scenario {scenario.name!r}: raise duration_s "
            "or the offered load"
        )
    return flows


def limiter_seed(seed: int) -> int:
    """Return the seed with which `run_once` resets the limiter."""
    return derive_seed(seed, "eval", "limiter")


Watch = Callable[[Measurement, FloatArray | None], None]
"""Callback that sees each measurement of a run, and the limits [n_agents] that were decided for that period.

It is called at the start, with None in place of limits, and after each period.
"""


def run_once(
    datapath: Datapath,
    scenario: Scenario,
    controller: Controller,
    limiter: RateLimiter,
    seed: int,
    *,
    flow_seed: int,
    progress: Callable[[float], None] | None = None,
    watch: Watch | None = None,
) -> Run:
    """Run until every flow is delivered or `duration_s + drain_s` is over (`drain_s` None: no time limit).

    A flow of endless traffic (`Traffic.endless`) need not be delivered: after `duration_s`, the run ends as soon as
    only such flows are left. If the controller has a receiver rule in addition to its limit, the scenario gets
    neighbourhoods of both kinds (`Controller.placed`). These only decide which hosts exchange messages.

    A datapath or limiter may have the attributes `fallbacks`, sentences that say where it deviated from its settings,
    and `facts`, plain data about the run. Both go into the result.

    Args:
        datapath: datapath to run on; it is started here and not closed.
        scenario: scenario of the run.
        controller: controller under test; its stack runs on the hosts.
        limiter: limiter that decides for the controller.
        seed: seed of the datapath and the limiter; each derives its own random numbers from it.
        flow_seed: seed of the flow list; see `eval_flow_seed`.
        progress: called after every period with the estimated share done, in [0, 1].
        watch: called at the start and after every period (`Watch`); it must not change anything.

    Returns:
        The run. Its `problems` lists undelivered flows, impossible records and fallbacks; each is logged as a warning.

    Raises:
        ConfigError: the seed gives no flow.
        DatapathError: the datapath's records do not fit its flows.
    """
    flows = drawn(scenario, seed, flow_seed)
    end_s = math.inf if scenario.drain_s is None else scenario.duration_s + scenario.drain_s
    last_epoch = math.inf if math.isinf(end_s) else math.ceil(end_s / scenario.period_s - 1e-9)
    needed = len(flows) - int(endless(scenario.workload, flows).sum())
    started_at, wall, cpu = now(), time.perf_counter(), time.process_time()

    placed = controller.placed(scenario)
    limiter.reset(placed, limiter_seed(seed))
    measurement = datapath.start(placed, flows, controller.stack, derive_seed(seed, "eval", "datapath"))
    measured: list[Measurement] = []
    if watch is not None:
        watch(measurement, None)
    over = False
    while not over and measurement.epoch < last_epoch:  # a datapath in real time may miss periods
        limits_bps = announce(datapath, limiter.decide(measurement))
        measurement = datapath.step(limits_bps)
        measured.append(measurement)
        if watch is not None:
            watch(measurement, limits_bps)
        # With endless flows, the run does not end before the arrivals do.
        watched = needed == len(flows) or measurement.time_s > scenario.duration_s - 1e-9
        over = watched and measurement.flows_finished >= needed
        if progress is not None:
            progress(1.0 if over or measurement.time_s >= end_s else _done_frac(measurement, scenario, len(flows)))
    records = datapath.finish()
    found = _problems(scenario, flows, records, measurement)
    flows, flow_records = after_run(flows, records.flows)
    if (early := int(np.sum(flow_records.finish_s <= flows.start_s))) > 0:
        found.append(f"{early} flows finished before they arrived")

    fallbacks = tuple(text for part in (datapath, limiter) for text in getattr(part, "fallbacks", ()))
    run = Run(
        scenario=scenario,
        controller=controller,
        datapath=datapath.name,
        seed=seed,
        flow_seed=flow_seed,
        flows=flows,
        records=Records(flows=flow_records, ports=records.ports),
        epochs=stack(measured),
        started_at=started_at,
        finished_at=now(),
        wall_s=time.perf_counter() - wall,
        cpu_s=time.process_time() - cpu,
        fallbacks=fallbacks,
        problems=tuple(found) + tuple(f"fallback: {f}" for f in fallbacks),
        datapath_facts={**getattr(limiter, "facts", {}), **getattr(datapath, "facts", {})},
    )
    for problem in run.problems:
        log.warning("INVALID run of %s: %s", run.label, problem)
    return run


def _done_frac(measurement: Measurement, scenario: Scenario, n_flows: int) -> float:
    """Estimate the share of a run that is done: arrivals first, then delivery of the rest."""
    arrivals = min(measurement.time_s / scenario.duration_s, 1.0)
    # The duration of the drain is unknown and mostly short; the number of unfinished flows is its best measure.
    return 0.9 * arrivals + 0.1 * (arrivals >= 1.0) * measurement.flows_finished / n_flows


def _problems(scenario: Scenario, flows: FlowTable, records: Records, last: Measurement) -> list[str]:
    """Return the reasons why the numbers of a run must not be used, one sentence each.

    Raises:
        DatapathError: the records do not have one row per flow and per port.
    """
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
    if last.flows_finished != (done := int(np.sum(~np.isnan(finish)))):
        problems.append(f"the last epoch counts {last.flows_finished} flows as finished, the records {done}")
    return problems
