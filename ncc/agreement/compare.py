# SPDX-License-Identifier: BSD-3-Clause
"""Runs of one scenario on two datapaths as ratios with intervals, each held against its bound."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ncc.core.errors import InvalidRunError
from ncc.core.flows import FloatArray, FlowTable, IntArray
from ncc.harness.results import StoredRun
from ncc.harness.run import Run
from ncc.metrics.fct import fct_s, fct_slowdown
from ncc.metrics.pooled import pooled_ratio
from ncc.metrics.stats import Interval
from ncc.metrics.summary import buckets, summarise

MEAN_FRAC, P99_FRAC, THROUGHPUT_FRAC, QUEUE_FRAC = 0.05, 0.10, 0.01, 0.10
LOSS_FACTOR = 3.0
"""Of the same order: within this factor, about the root of ten."""
FEW_FLOWS, FEW_FLOWS_P99, FEW_DROPS = 100, 500, 30
"""With less on either side a figure is shown and not judged: a p99 of 500 flows rests on the five slowest."""
DIGITS = 12
"""Ratios are judged to this many, so that a bound met exactly is met."""


@dataclass(frozen=True)
class Sample:
    """What is compared of one run."""

    problems: tuple[str, ...]
    flows: FlowTable
    fct_s: FloatArray
    slowdown: FloatArray
    buckets: dict[str, np.ndarray]
    summary: dict[str, float]
    throughput_bps: float
    """Of the upper ports, mean over the epochs in which flows arrive."""
    queue_bytes: float
    """Waiting at the upper ports, time average over the same epochs."""
    dropped_pkts: int
    """Data packets."""


def sample(run: Run) -> Sample:
    """The figures of a run; undelivered flows count with the time they had had at its end, and are a problem."""
    until_s = float(run.epochs.time_s[-1])
    arriving = run.epochs.time_s <= run.scenario.duration_s + 0.5 * run.scenario.period_s
    upper = {name: float(run.epochs.columns[name][arriving].mean()) for name in _UPPER}
    return Sample(
        problems=run.problems,
        flows=run.flows,
        fct_s=fct_s(run.flows, run.records.flows, until_s),
        slowdown=fct_slowdown(run.scenario, run.flows, run.records.flows, until_s),
        buckets={name: np.asarray(mask) for name, mask in buckets(run.flows).items()},
        summary=summarise(run.scenario, run.flows, run.records.flows, run.records.ports, run.epochs),
        throughput_bps=upper["upper_throughput_bps"],
        queue_bytes=upper["upper_queue_mean_bytes"],
        dropped_pkts=int(run.records.ports.dropped_data_pkts.sum()),
    )


_UPPER = ("upper_throughput_bps", "upper_queue_mean_bytes")


@dataclass(frozen=True)
class Figure:
    """One line of the comparison."""

    key: str
    """`slowdown_small_p99`, `queue_bytes`, ..."""
    ours: float
    reference: float
    """Over all runs, in SI."""
    ratio: Interval
    noise: Interval
    """The reference perturbed over the reference."""
    low: float | None
    high: float | None
    """Bounds of the ratio; None: shown for information."""
    n: int
    """Flows (or drops at the reference) behind it."""
    enough: bool

    @property
    def verdict(self) -> str:
        """`inside` or `outside` by the point estimate; `too few`, `nothing` (0 over 0) or empty: nothing to judge."""
        if self.low is None or self.high is None:
            return ""
        if not self.enough:
            return "too few"
        if self.ours == self.reference == 0:
            return "nothing"
        return "inside" if self.low <= round(self.ratio.estimate, DIGITS) <= self.high else "outside"


def paired(ours: Sequence[StoredRun], theirs: Sequence[StoredRun]) -> tuple[list[Sample], list[Sample]]:
    """The samples of both.

    Raises:
        InvalidRunError: two runs of one seed did not have the same flows.
    """
    a, b = ([sample(run.load()) for run in side] for side in (ours, theirs))
    for run, x, y in zip(ours, a, b, strict=True):
        if any(not np.array_equal(column, vars(y.flows)[name]) for name, column in vars(x.flows).items()):
            raise InvalidRunError(f"the runs of {run.label} had other flows on the other side: delete {run.folder}")
    return a, b


def figures(ours: Sequence[Sample], reference: Sequence[Sample], perturbed: Sequence[Sample]) -> list[Figure]:
    """All figures of one scenario and controller; element i of each list is of the same seed."""
    out: list[Figure] = []
    for bucket in ("all", "small", "medium", "large"):
        out += _slowdown(bucket, ours, reference, perturbed)
    out.append(_of_runs("throughput_bps", [[s.throughput_bps for s in side] for side in (ours, reference, perturbed)]))
    out.append(_of_runs("queue_bytes", [[s.queue_bytes for s in side] for side in (ours, reference, perturbed)]))
    for key in ("goodput_bps", "loss_frac", "retransmit_frac", "timeouts_per_flow", "mark_frac"):
        columns = [[s.summary[key] for s in side] for side in (ours, reference, perturbed)]
        out.append(_of_runs(key, columns, [sum(s.dropped_pkts for s in side) for side in (ours, reference)]))
    return out


def flow_ratios(ours: Sequence[Sample], reference: Sequence[Sample]) -> FloatArray:
    """FCT over the reference's, flow by flow, all runs."""
    return np.concatenate([a.fct_s / b.fct_s for a, b in zip(ours, reference, strict=True)])


def pooled_fct(samples: Sequence[Sample]) -> tuple[IntArray, FloatArray]:
    """Sizes and completion times of all flows of all runs."""
    sizes = np.concatenate([s.flows.size_bytes for s in samples])
    return sizes, np.concatenate([s.fct_s for s in samples])


def _slowdown(
    bucket: str, ours: Sequence[Sample], reference: Sequence[Sample], perturbed: Sequence[Sample]
) -> list[Figure]:
    a, b, c = ([s.slowdown[s.buckets[bucket]] for s in side] for side in (ours, reference, perturbed))
    n = sum(len(run) for run in b)
    out: list[Figure] = []
    if n == 0:
        return out
    for name, percentile, bound, few in (("mean", None, MEAN_FRAC, FEW_FLOWS), ("p99", 99.0, P99_FRAC, FEW_FLOWS_P99)):
        levels = [_level(side, percentile) for side in (a, b)]
        ratio, noise = (pooled_ratio(side, b, percentile) for side in (a, c))
        key = f"slowdown_{bucket}_{name}"
        out.append(Figure(key, levels[0], levels[1], ratio, noise, 1 - bound, 1 + bound, n, n >= few))
    return out


def _level(side: Sequence[FloatArray], percentile: float | None) -> float:
    values = np.concatenate(side)
    return float(values.mean() if percentile is None else np.percentile(values, percentile, method="inverted_cdf"))


def _of_runs(key: str, columns: Sequence[Sequence[float]], drops: Sequence[int] = ()) -> Figure:
    """A figure that each run has one of: ratio of their means."""
    ours, reference, perturbed = (np.array(column) for column in columns)
    low: float | None = None
    high: float | None = None
    n, enough = len(reference), True
    if key in ("throughput_bps", "goodput_bps"):
        low, high = 1 - THROUGHPUT_FRAC, 1 + THROUGHPUT_FRAC
    elif key == "queue_bytes":
        low, high = 1 - QUEUE_FRAC, 1 + QUEUE_FRAC
    elif key == "loss_frac":
        low, high, n, enough = 1 / LOSS_FACTOR, LOSS_FACTOR, drops[1], max(drops) >= FEW_DROPS
    ratio, noise = (pooled_ratio(_cells(side), _cells(reference)) for side in (ours, perturbed))
    return Figure(key, float(ours.mean()), float(reference.mean()), ratio, noise, low, high, n, enough)


def _cells(values: FloatArray) -> list[FloatArray]:
    return [np.array([value]) for value in values]
