# SPDX-License-Identifier: BSD-3-Clause
"""Running a matrix: trainings first, then every case as an evaluation of its own; what is finished is kept."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncc.comparison import compare
from ncc.core.errors import InvalidRunError
from ncc.evaluation import run_controllers
from ncc.harness.manifest import provenance
from ncc.harness.results import Evaluation
from ncc.limiters import LimiterFactory
from ncc.metrics.catalogue import CATALOGUE
from ncc.palette import label
from ncc.plan import CONFIG, TrainPlan
from ncc.study.matrix.spec import Case, Matrix
from ncc.study.page import render, spread
from ncc.study.result import commits_of
from ncc.training import train

METRICS = (
    "slowdown_all_mean",
    "slowdown_all_p99",
    "slowdown_small_p99",
    "goodput_bps",
    "queue_delay_mean_s",
    "timeouts_per_flow",
    "loss_frac",
)
"""Keys of `ncc.metrics.catalogue`, as the summary shows them."""
DIGITS = 6
DEPTH = 4
"""Levels of results.json with a line per entry: summary, cases, a case, its controllers."""

Summary = dict[str, Any]
"""Plain data: the contents of results.json."""


def run_matrix(matrix: Matrix, config: Mapping[str, Any], command: str) -> Summary:
    """Do what `matrix.spec.out` does not hold yet.

    Raises:
        InvalidRunError: some runs must not be used (a flow was not delivered, say); all cases have run by then, and the
            message names each such run and its reason.
    """
    out, spec = Path(matrix.spec.out), matrix.spec
    seeds = range(spec.first_seed, spec.first_seed + spec.seeds)
    trainings = {name: _train(plan, out / "policies" / name) for name, plan in matrix.trainings.items()}
    done: dict[str, Evaluation] = {}
    for case in matrix.cases:
        factory = LimiterFactory(out / "policies" / case.spec.policy if case.spec.policy else None)
        controllers = [factory.resolved(controller) for controller in case.controllers]
        folder = out / case.name
        done[case.name] = run_controllers(
            case.scenario,
            controllers,
            seeds,
            matrix.datapath,
            factory,
            called=case.name,
            folder=folder,
            workers=spec.workers,
            config=config,
        )
    runs = [(name, run) for name, evaluation in done.items() for run in evaluation.runs]
    if problems := [f"{name}: {run.label}: {problem}" for name, run in runs for problem in run.problems]:
        raise InvalidRunError(f"some runs must not be used, and no summary is written: {'; '.join(problems)}")
    made = provenance()
    return {
        "command": command,
        "datapath": matrix.datapath.name,
        "controllers": {controller.name: label(controller.name) for controller in matrix.cases[0].controllers},
        "seeds": list(seeds),
        "commits": list(commits_of(run.manifest.provenance for _, run in runs)),
        "processor": made["processor"],
        "cpus": made["cpus_usable"],
        "trainings": trainings,
        "cases": {case.name: _summarised(case, done[case.name]) for case in matrix.cases},
    }


def page(summary: Summary) -> str:
    """The Markdown page of a summary."""
    runs = [entry for case in summary["cases"].values() for entry in case["controllers"].values()]
    return render("matrix.md.jinja", **summary, runs=runs, tables=[*map(_table, summary["cases"].values())])


def _train(plan: TrainPlan, folder: Path) -> Summary:
    """The policy of `folder`, trained now if it is not there."""
    begun = (folder / CONFIG).exists()
    if begun:
        plan.require_same(folder)
    train(plan, folder, resume=begun)
    agent = plan.plain["agent"]
    chosen = {key: agent[key] for key in ("learner", "mode", "epochs") if key in agent}
    return {"scenario": plan.scenario.name, "agent": chosen, "seed": plan.seed}


def _summarised(case: Case, done: Evaluation) -> Summary:
    compared = compare(done)
    controllers = {}
    for controller in case.controllers:
        name = controller.name
        facts = [run.manifest.facts for run in done.of(name)]
        flows = sum(fact["n_flows"] for fact in facts)
        cells = {metric: compared.cell(name, metric) for metric in METRICS}
        controllers[name] = {
            "flows": flows,
            "finished": flows - int(sum(compared.values[name]["unfinished"])),
            "cpu_s": _number(sum(fact["cpu_s"] for fact in facts), 3),
            "params": dict(controller.stack.params),
            "metrics": {
                metric: {
                    "mean": _number(cell.estimate),
                    "low": _number(cell.low),
                    "high": _number(cell.high),
                    "per_seed": [_number(value) for value in compared.values[name][metric]],
                }
                for metric, cell in cells.items()
            },
        }
    return {
        "title": case.spec.title,
        "scenario": case.scenario.name,
        "scenario_digest": case.scenario.digest(),
        "overrides": list(case.spec.overrides),
        "hosts": case.scenario.n_agents,
        "duration_s": case.scenario.duration_s,
        "controllers": controllers,
    }


def _number(value: float, digits: int = DIGITS) -> float | None:
    return None if math.isnan(value) else float(f"{value:.{digits}g}")


def _table(case: Summary) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a case: a row per controller, metrics that are defined for nobody left out."""
    found = case["controllers"]
    shown = [CATALOGUE[m] for m in METRICS if any(each["metrics"][m]["mean"] is not None for each in found.values())]
    rows = []
    for name, each in found.items():
        cells = [(metric, each["metrics"][metric.key]) for metric in shown]
        spreads = [spread(c["mean"], c["low"], c["high"], metric.scale, metric.digits) for metric, c in cells]
        rows.append([label(name), f"{each['flows']:,}", f"{each['finished']:,}", *spreads])
    return ["", "flows", "delivered", *(metric.title.replace("<", "&lt;") for metric in shown)], rows
