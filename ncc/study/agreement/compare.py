# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of the runs of one scenario on two datapaths, as plain data for results.json."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.units import NS_PER_S
from ncc.harness.results import StoredRun
from ncc.harness.run import Run
from ncc.metrics.fct import fct_s
from ncc.metrics.summary import summarise
from ncc.study.agreement.cases import LoadCase
from ncc.study.table import rounded

Row = dict[str, Any]
"""Plain data."""
UPLINK = {"throughput_bps": "uplink_throughput_bps", "queue_bytes": "uplink_queue_mean_bytes"}
"""Figures of uplinks. Each is the mean of a column over the periods in which flows arrive."""
FIGURES = (*UPLINK, "goodput_bps", "loss_frac", "retransmit_frac", "timeouts_per_flow", "mark_frac")
"""Figures of a run: those of uplinks, and metrics (`ncc.metrics.catalogue`)."""


def compare_runs(case: LoadCase, controller: str, ours: Sequence[StoredRun], reference: Sequence[StoredRun]) -> Row:
    """Compare the runs of one case with one controller.

    Args:
        ours: runs on our datapath, in the order of their seeds.
        reference: runs on the reference datapath, in the same order.

    Returns:
        The number of flows; the number of flows whose FCT is the same on both to the nanosecond; the problems that
        runs of one side alone have; and figures of ours and of the reference, as means over seeds with six significant
        digits.
    """
    sides = [[run.load() for run in side] for side in (ours, reference)]
    pairs = list(zip(*([_fct_s(run) for run in side] for side in sides), strict=True))
    figures = [[_figures(run) for run in side] for side in sides]
    problems = [{f"{run.label}: {problem}" for run in side for problem in run.problems} for side in (ours, reference)]
    return {
        "case": case.name,
        "what": case.what,
        "controller": controller,
        "n_flows": sum(len(reference_fct_s) for _, reference_fct_s in pairs),
        "flows_same": sum(same(*pair) for pair in pairs),
        "problems": sorted(problems[0] ^ problems[1]),
        "figures": {key: [rounded(float(np.mean([run[key] for run in side]))) for side in figures] for key in FIGURES},
    }


def same(one_s: FloatArray, other_s: FloatArray) -> int:
    """Count the flows that took the same time in both runs, to the nanosecond."""
    return int(np.sum(np.abs(one_s - other_s) < 0.5 / NS_PER_S))


def _fct_s(run: Run) -> FloatArray:
    """FCTs [n_flows]; an undelivered flow counts with its time until the end of the run."""
    return fct_s(run.flows, run.records.flows, float(run.epochs.time_s[-1]))


def _figures(run: Run) -> dict[str, float]:
    arriving = run.epochs.time_s <= run.scenario.duration_s + 0.5 * run.scenario.period_s
    uplink = {key: float(run.epochs.columns[name][arriving].mean()) for key, name in UPLINK.items()}
    return summarise(run.scenario, run.flows, run.records.flows, run.records.ports, run.epochs) | uplink
