# SPDX-License-Identifier: BSD-3-Clause
"""Runs of one scenario on two datapaths as ratios with intervals, each held against its bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ncc.core.errors import InvalidRunError
from ncc.core.flows import FloatArray, FlowTable, IntArray
from ncc.core.units import NS_PER_S
from ncc.harness.results import StoredRun
from ncc.harness.run import Run
from ncc.metrics.fct import fct_s, fct_slowdown
from ncc.metrics.pooled import pooled_ratio
from ncc.metrics.stats import Interval
from ncc.metrics.summary import buckets, summarise
from ncc.study.agreement.cases import LoadCase

MEAN_FRAC, P99_FRAC, THROUGHPUT_FRAC, QUEUE_FRAC = 0.05, 0.10, 0.01, 0.10
LOSS_FACTOR = 3.0
"""Loss is to be of the same order: within this factor, about the root of ten."""
FEW_FLOWS, FEW_FLOWS_P99, FEW_DROPS = 100, 500, 30
"""The least that a figure is judged by: a p99 of 500 flows rests on the five slowest."""
DIGITS = 12
"""Ratios are judged to this many, so that a bound met exactly is met."""
SHARES = (0.01, 0.05, 0.10)
"""Distances from 1 within which flows' ratios are counted."""
UPLINK = {"throughput_bps": "uplink_throughput_bps", "queue_bytes": "uplink_queue_mean_bytes"}
"""Figures of the uplinks, means over the epochs in which flows arrive, and the columns that they are of."""
BOUNDS = {
    "throughput_bps": (1 - THROUGHPUT_FRAC, 1 + THROUGHPUT_FRAC),
    "goodput_bps": (1 - THROUGHPUT_FRAC, 1 + THROUGHPUT_FRAC),
    "queue_bytes": (1 - QUEUE_FRAC, 1 + QUEUE_FRAC),
    "loss_frac": (1 / LOSS_FACTOR, LOSS_FACTOR),
}
"""Bounds of the ratio, of figures that each run has one of."""
PER_RUN = (*UPLINK, "goodput_bps", "loss_frac", "retransmit_frac", "timeouts_per_flow", "mark_frac")


@dataclass(frozen=True)
class Sample:
    """The figures of one run that are compared."""

    problems: tuple[str, ...]
    flows: FlowTable
    fct_s: FloatArray
    slowdown: FloatArray
    buckets: Mapping[str, np.ndarray]
    summary: Mapping[str, float]
    """Values by key of `PER_RUN`."""
    dropped_pkts: int
    """Data packets."""


def sample(run: Run) -> Sample:
    """The figures of a run; undelivered flows count with the time they had had at its end, and are a problem."""
    until_s = float(run.epochs.time_s[-1])
    arriving = run.epochs.time_s <= run.scenario.duration_s + 0.5 * run.scenario.period_s
    summary = summarise(run.scenario, run.flows, run.records.flows, run.records.ports, run.epochs)
    uplink = {key: float(run.epochs.columns[name][arriving].mean()) for key, name in UPLINK.items()}
    return Sample(
        problems=run.problems,
        flows=run.flows,
        fct_s=fct_s(run.flows, run.records.flows, until_s),
        slowdown=fct_slowdown(run.scenario, run.flows, run.records.flows, until_s),
        buckets={name: np.asarray(mask) for name, mask in buckets(run.flows).items()},
        summary=summary | uplink,
        dropped_pkts=int(run.records.ports.dropped_data_pkts.sum()),
    )


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


@dataclass(frozen=True)
class FlowByFlow:
    """Completion times of all flows of a case under one controller, and their ratios to the reference's."""

    size_bytes: IntArray
    fct_s: FloatArray
    reference_fct_s: FloatArray
    ratio: FloatArray
    noise: FloatArray
    """The reference perturbed over the reference."""

    def same(self, ratio: FloatArray) -> int:
        """Flows that took the same time to the nanosecond."""
        return int(np.sum(np.abs(ratio - 1) * self.reference_fct_s < 0.5 / NS_PER_S))

    def shares(self, ratio: FloatArray) -> list[float]:
        """Share of flows within each of `SHARES` of 1."""
        # A little slack: an exact 1.01 has no binary form.
        return [float(np.mean(np.abs(ratio - 1) <= share + 1e-12)) for share in SHARES]


@dataclass(frozen=True)
class Compared:
    """One case under one controller."""

    case: LoadCase
    controller: str
    figures: list[Figure]
    flows: FlowByFlow
    problems: tuple[str, ...]
    """Why runs of either side must not be used; empty if all may."""


def compare_runs(
    case: LoadCase,
    controller: str,
    ours: Sequence[StoredRun],
    reference: Sequence[StoredRun],
    perturbed: Sequence[StoredRun],
) -> Compared:
    """Compare runs of one case under one controller, in the order of their seeds.

    Raises:
        InvalidRunError: two runs of one seed did not have the same flows.
    """
    sides = [[sample(run.load()) for run in side] for side in (ours, reference, perturbed)]
    a, b, c = sides
    for run, x, y, z in zip(ours, a, b, c, strict=True):
        for name, column in vars(x.flows).items():
            if not all(np.array_equal(column, vars(other)[name]) for other in (y.flows, z.flows)):
                raise InvalidRunError(f"the runs of {run.label} had other flows on the other side: delete {run.folder}")
    runs = (*ours, *reference, *perturbed)
    sizes = np.concatenate([s.flows.size_bytes for s in a])
    times = [np.concatenate([s.fct_s for s in side]) for side in sides]
    flows = FlowByFlow(sizes, times[0], times[1], times[0] / times[1], times[2] / times[1])
    problems = sorted({f"{run.label}: {problem}" for run in runs for problem in run.problems})
    return Compared(case, controller, figures(a, b, c), flows, tuple(problems))


def figures(ours: Sequence[Sample], reference: Sequence[Sample], perturbed: Sequence[Sample]) -> list[Figure]:
    """All figures of one scenario and controller; element i of each list is of the same seed."""
    sides = (ours, reference, perturbed)
    out = [figure for bucket in ("all", "small", "medium", "large") for figure in _slowdown(bucket, sides)]
    drops = [sum(s.dropped_pkts for s in side) for side in (ours, reference)]
    for key in PER_RUN:
        columns = [np.array([s.summary[key] for s in side]) for side in sides]
        levels = [float(column.mean()) for column in columns]
        ratio, noise = (pooled_ratio(_cells(columns[i]), _cells(columns[1])) for i in (0, 2))
        n, enough = (drops[1], max(drops) >= FEW_DROPS) if key == "loss_frac" else (len(reference), True)
        low, high = BOUNDS.get(key, (None, None))
        out.append(Figure(key, levels[0], levels[1], ratio, noise, low, high, n, enough))
    return out


def _slowdown(bucket: str, sides: Sequence[Sequence[Sample]]) -> list[Figure]:
    a, b, c = ([s.slowdown[s.buckets[bucket]] for s in side] for side in sides)
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


def _cells(values: FloatArray) -> list[FloatArray]:
    return [np.array([value]) for value in values]
