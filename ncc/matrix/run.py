# SPDX-License-Identifier: BSD-3-Clause
"""Running a matrix: trainings first, then every case as an evaluation of its own; what is finished is kept."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncc.comparison import Comparison, compare
from ncc.core.errors import ConfigError, InvalidRunError
from ncc.evaluation import run_controllers
from ncc.experiment.result import commits_of
from ncc.harness.manifest import provenance
from ncc.harness.results import Evaluation
from ncc.limiters import LimiterFactory
from ncc.matrix.spec import Case, Matrix
from ncc.palette import label
from ncc.plan import CONFIG, TrainPlan
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
"""Of `ncc.metrics.catalogue`, as the summary shows them."""
DIGITS = 6

Summary = dict[str, Any]
"""Plain data: what results.json holds."""


def run_matrix(matrix: Matrix, config: Mapping[str, Any], command: str) -> Summary:
    """Do what `matrix.spec.out` does not hold yet.

    Raises:
        InvalidRunError: some runs must not be used (a flow was not delivered, say); all cases have run by then, and the
            message names each such run and its reason.
    """
    out, spec = Path(matrix.spec.out), matrix.spec
    made = provenance()
    trainings = {name: _train(name, plan, out / "policies" / name) for name, plan in matrix.trainings.items()}
    cases, problems = {}, []
    for case in matrix.cases:
        done = _evaluate(matrix, case, out, config)
        problems += [f"{case.name}: {run.label}: {problem}" for run in done.runs for problem in run.problems]
        if not problems:
            cases[case.name] = _summarised(case, done, compare(done))
    if problems:
        raise InvalidRunError(f"some runs must not be used, and no summary is written: {'; '.join(problems)}")
    return {
        "command": command,
        "datapath": matrix.datapath.name,
        "controllers": {name: label(name) for name in matrix.controllers},
        "seeds": list(range(spec.first_seed, spec.first_seed + spec.seeds)),
        "commits": list(commits_of(made for case in cases.values() for made in case.pop("provenance"))),
        "processor": made["processor"],
        "cpus": made["cpus_usable"],
        "trainings": trainings,
        "cases": cases,
    }


def _train(name: str, plan: TrainPlan, folder: Path) -> Summary:
    """The policy of `folder`, trained now if it is not there."""
    begun = (folder / CONFIG).exists()
    if begun and TrainPlan.load(folder).plain != plan.plain:
        raise ConfigError(f"{folder} holds the training of another configuration than policies.{name}: delete it")
    train(plan, folder, resume=begun)
    agent = plan.plain["agent"]
    chosen = {key: agent[key] for key in ("learner", "mode", "epochs") if key in agent}
    return {"scenario": plan.scenario.name, "agent": chosen, "seed": plan.seed}


def _evaluate(matrix: Matrix, case: Case, out: Path, config: Mapping[str, Any]) -> Evaluation:
    spec, policy = matrix.spec, case.spec.policy
    factory = LimiterFactory(out / "policies" / policy if policy else None)
    controllers = [factory.resolved(controller) for controller in case.controllers]
    return run_controllers(
        case.scenario,
        controllers,
        range(spec.first_seed, spec.first_seed + spec.seeds),
        matrix.datapath,
        factory,
        called=case.name,
        folder=out / case.name,
        workers=spec.workers,
        config=config,
    )


def _summarised(case: Case, done: Evaluation, compared: Comparison) -> Summary:
    controllers = {}
    for name in done.controllers:
        facts = [run.manifest.facts for run in done.of(name)]
        flows = sum(fact["n_flows"] for fact in facts)
        cells = {metric: compared.cell(name, metric) for metric in METRICS}
        controllers[name] = {
            "flows": flows,
            "finished": flows - int(sum(compared.values[name]["unfinished"])),
            "cpu_s": _number(sum(fact["cpu_s"] for fact in facts), 3),
            "params": dict(next(c for c in case.controllers if c.name == name).stack.params),
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
        "provenance": [run.manifest.provenance for run in done.runs],
    }


def _number(value: float, digits: int = DIGITS) -> float | None:
    return None if math.isnan(value) else float(f"{value:.{digits}g}")
