# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of the runs of one scenario on two datapaths: ratios of figures with intervals and bounds.

A figure is a number such as a mean slowdown. The outcome is plain data for results.json, in which undefined numbers are
null.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncc.core.errors import InvalidRunError
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.units import NS_PER_S
from ncc.harness.results import StoredRun
from ncc.harness.run import Run
from ncc.metrics.fct import fct_s, fct_slowdown
from ncc.metrics.pooled import pooled_ratio
from ncc.metrics.stats import Interval
from ncc.metrics.summary import buckets, summarise
from ncc.study.agreement.cases import LoadCase
from ncc.study.table import rounded

MEAN_FRAC, P99_FRAC, THROUGHPUT_FRAC, QUEUE_FRAC = 0.05, 0.10, 0.01, 0.10
"""Largest accepted distances of ratios from 1: of mean and p99 slowdown, of throughput and goodput, and of queues."""
LOSS_FACTOR = 3.0
"""Largest accepted factor between loss rates, about the root of ten: they should have the same order of magnitude."""
FEW_FLOWS, FEW_FLOWS_P99, FEW_DROPS = 100, 500, 30
"""Fewest flows for a verdict on a mean and on a p99, and fewest drops for one on losses.

A p99 of 500 flows depends on the five slowest.
"""
DIGITS = 12
"""Decimal places to which a ratio is rounded before the verdict, so that a ratio equal to its bound is inside."""
UPLINK = {"throughput_bps": "uplink_throughput_bps", "queue_bytes": "uplink_queue_mean_bytes"}
"""Figures of uplinks, and the columns whose means they are, over the periods in which flows arrive."""
BOUNDS = {
    "throughput_bps": (1 - THROUGHPUT_FRAC, 1 + THROUGHPUT_FRAC),
    "goodput_bps": (1 - THROUGHPUT_FRAC, 1 + THROUGHPUT_FRAC),
    "queue_bytes": (1 - QUEUE_FRAC, 1 + QUEUE_FRAC),
    "loss_frac": (1 / LOSS_FACTOR, LOSS_FACTOR),
}
"""Bounds of the ratio (low, high), for figures with one value per run."""
Row = dict[str, Any]
"""Plain data."""
PER_RUN = (*UPLINK, "goodput_bps", "loss_frac", "retransmit_frac", "timeouts_per_flow", "mark_frac")
"""Figures with one value per run. Those without `BOUNDS` are shown for information."""


@dataclass(frozen=True)
class Sample:
    """The data of one run that is compared."""

    problems: tuple[str, ...]
    flows: FlowTable
    fct_s: FloatArray
    """Completion times, [n_flows]."""
    slowdown: FloatArray
    """FCT over ideal FCT, [n_flows]."""
    buckets: Mapping[str, np.ndarray]
    """Masks [n_flows] of the flows by range of size."""
    summary: Mapping[str, float]
    """Metrics of the run, among them those of `PER_RUN`."""
    dropped_pkts: int
    """Number of data packets dropped at any port."""


def sample(run: Run) -> Sample:
    """Take the data to compare from a run. Undelivered flows count with their time until its end, and are a problem."""
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


def compare_runs(
    case: LoadCase,
    controller: str,
    ours: Sequence[StoredRun],
    reference: Sequence[StoredRun],
    perturbed: Sequence[StoredRun],
) -> Row:
    """Compare the runs of one case with one controller.

    Args:
        ours: runs on our datapath, in the order of their seeds.
        reference: runs on the reference datapath, in the same order.
        perturbed: runs on the perturbed reference datapath, in the same order.

    Returns:
        All figures, the problems of invalid runs, and the number of flows that take the same time to the nanosecond as
        on the reference: `flows_same` of our runs, and `flows_same_noise` of the perturbed reference.

    Raises:
        InvalidRunError: two runs with the same seed had different flows.
    """
    a, b, c = ([sample(run.load()) for run in side] for side in (ours, reference, perturbed))
    for run, x, y, z in zip(ours, a, b, c, strict=True):
        for name, column in vars(x.flows).items():
            if not all(np.array_equal(column, vars(other)[name]) for other in (y.flows, z.flows)):
                raise InvalidRunError(f"the runs of {run.label} had other flows on the other side: delete {run.folder}")
    runs = (*ours, *reference, *perturbed)
    return {
        "case": case.name,
        "what": case.what,
        "controller": controller,
        "n_flows": sum(len(s.fct_s) for s in b),
        "flows_same": sum(map(same, a, b)),
        "flows_same_noise": sum(map(same, c, b)),
        "problems": sorted({f"{run.label}: {problem}" for run in runs for problem in run.problems}),
        "figures": figures(a, b, c),
    }


def same(one: Sample, other: Sample) -> int:
    """Count the flows that took the same time in both runs, to the nanosecond."""
    return int(np.sum(np.abs(one.fct_s - other.fct_s) < 0.5 / NS_PER_S))


def figures(ours: Sequence[Sample], reference: Sequence[Sample], perturbed: Sequence[Sample]) -> dict[str, Row]:
    """Compute all figures of one scenario and controller, by key. Element i of each sequence has the same seed."""
    sides = (ours, reference, perturbed)
    rows: dict[str, Row] = {}
    for bucket in ("all", "small", "medium", "large"):
        values = [[s.slowdown[s.buckets[bucket]] for s in side] for side in sides]
        if n := sum(map(len, values[1])):
            bound = (1 - MEAN_FRAC, 1 + MEAN_FRAC)
            rows[f"slowdown_{bucket}_mean"] = figure(values, bound, n, enough=n >= FEW_FLOWS)
            bound = (1 - P99_FRAC, 1 + P99_FRAC)
            rows[f"slowdown_{bucket}_p99"] = figure(values, bound, n, enough=n >= FEW_FLOWS_P99, percentile=99.0)
    drops = [sum(s.dropped_pkts for s in side) for side in (ours, reference)]
    for key in PER_RUN:
        n, enough = (drops[1], max(drops) >= FEW_DROPS) if key == "loss_frac" else (len(reference), True)
        values = [[np.array([s.summary[key]]) for s in side] for side in sides]
        rows[key] = figure(values, BOUNDS.get(key), n, enough=enough)
    return rows


def figure(
    sides: Sequence[Sequence[FloatArray]],
    bound: tuple[float, float] | None,
    n: int,
    *,
    enough: bool,
    percentile: float | None = None,
) -> Row:
    """Compute one figure of our runs and the reference's, their ratio with its interval, and the verdict.

    The ratio of the perturbed reference to the reference is the figure's `noise`.

    Args:
        sides: values of each run of ours, of the reference and of the perturbed reference.
        bound: bounds (low, high) of the ratio; None: the figure is shown for information, without a verdict.
        n: number of flows, runs or drops that the figure is computed from.
        enough: True if these suffice for a verdict.
        percentile: percentile to compare; None: the mean.
    """
    ours, reference = (_level(side, percentile) for side in sides[:2])
    ratio, noise = (pooled_ratio(sides[i], sides[1], percentile) for i in (0, 2))
    return {
        "ours": rounded(ours),
        "reference": rounded(reference),
        "ratio": _interval(ratio),
        "noise": _interval(noise),
        "bound": None if bound is None else [round(end, 4) for end in bound],
        "n": n,
        "verdict": verdict(ours, reference, ratio.estimate, bound, enough=enough) or None,
    }


def verdict(ours: float, reference: float, ratio: float, bound: tuple[float, float] | None, *, enough: bool) -> str:
    """Judge a ratio by its estimate: `inside` or `outside` the bound.

    Other verdicts are `too few` if there is not enough data, `nothing` if both sides are 0, and an empty text without a
    bound.
    """
    if bound is None:
        return ""
    if not enough:
        return "too few"
    if ours == reference == 0:
        return "nothing"
    return "inside" if bound[0] <= round(ratio, DIGITS) <= bound[1] else "outside"


def _level(side: Sequence[FloatArray], percentile: float | None) -> float:
    values = np.concatenate(side)
    return float(values.mean() if percentile is None else np.percentile(values, percentile, method="inverted_cdf"))


def _interval(interval: Interval) -> list[float | None]:
    return [rounded(value) for value in (interval.estimate, interval.low, interval.high)]
