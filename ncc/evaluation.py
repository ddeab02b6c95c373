# SPDX-License-Identifier: BSD-3-Clause
"""Judging controllers: run them on paired flows, print one table, leave pictures and numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ncc.comparison import Comparison, compare, comparison
from ncc.compose import LimiterFactory, Target
from ncc.core.errors import InvalidRunError
from ncc.core.scenario import Scenario
from ncc.harness.atomic import file_digest, write_text
from ncc.harness.controller import Controller, PolicyLimit
from ncc.harness.pool import evaluate, jobs_for
from ncc.harness.progress import Bar, EvaluationProgress
from ncc.harness.results import Evaluation
from ncc.plan import EvaluationSpec
from ncc.plot import fct_by_size, slowdown_cdf
from ncc.table import markdown, print_comparison


def judge(
    scenario: Scenario,
    spec: EvaluationSpec,
    datapath: Target,
    *,
    policies: Path | None,
    folder: Path,
    config: Mapping[str, Any],
) -> Comparison:
    """Run every controller on every seed into `folder`, keeping what lies there already; print and draw the comparison.

    Args:
        policies: the run folder that policy files are relative to.
    """
    evaluation = _run(scenario, spec, datapath, policies=policies, folder=folder, config=config)
    result = compare(evaluation)
    _present(result, folder)
    data = evaluation.slowdowns()
    title = f"{scenario.name}: {len(result.seeds)} seeds, {result.n_flows:,} flows per controller"
    slowdown_cdf(data, folder / "slowdown_cdf.png", title=title)
    fct_by_size(data, folder / "fct_by_size.png", title=title)
    print(f"Written to {folder}")
    return result


def require_valid(result: Comparison) -> None:
    """Raise `InvalidRunError` when a run of the comparison must not be used; the results stay on disk for a look."""
    bad = ", ".join(f"{name} (seeds {', '.join(map(str, runs))})" for name, runs in result.invalid.items() if runs)
    if bad:
        raise InvalidRunError(f"some runs must not be used: {bad}; their problems are listed under the table")


def judge_runs(
    scenario: Scenario,
    spec: EvaluationSpec,
    datapath: Target,
    *,
    runs: Sequence[Path],
    folders: Sequence[Path],
    config: Mapping[str, Any],
) -> Comparison:
    """`judge` each training run; for several, one more table over all of them.

    There the value of a seed is the mean over the runs, so that a learned controller's interval speaks of the flows,
    and the spread between trainings is averaged out; controllers without a policy are the same in every run.
    """
    results = []
    for run, folder in zip(runs, folders, strict=True):
        print(f"\nRun {run}")
        results.append(judge(scenario, spec, datapath, policies=run, folder=folder, config=config))
    if len(results) == 1:
        return results[0]
    print(f"\nMean over {len(runs)} runs")
    mean = _mean(results)
    print_comparison(mean)
    return mean


def _mean(results: Sequence[Comparison]) -> Comparison:
    first = results[0]
    summaries = {
        name: [
            {key: sum(r.values[name][key][i] for r in results) / len(results) for key in first.values[name]}
            for i in range(len(first.seeds))
        ]
        for name in first.controllers
    }
    invalid: dict[str, dict[int, list[str]]] = {}
    for result in results:
        for name, bad in result.invalid.items():
            for seed, problems in bad.items():
                invalid.setdefault(name, {}).setdefault(seed, []).extend(problems)
    return comparison(summaries, first.seeds, scenario=first.scenario, n_flows=first.n_flows, invalid=invalid)


def _run(
    scenario: Scenario,
    spec: EvaluationSpec,
    datapath: Target,
    *,
    policies: Path | None,
    folder: Path,
    config: Mapping[str, Any],
) -> Evaluation:
    factory = LimiterFactory(policies)
    controllers = [factory.resolved(controller) for controller in spec.load()]
    for controller in controllers:
        factory(controller, scenario)  # a missing or damaged policy is said now, not after minutes of simulation
    inputs = {c.name: {"datapath": datapath.target, **_policy_digest(c, factory)} for c in controllers}
    seeds = range(spec.first_seed, spec.first_seed + spec.seeds)
    jobs = jobs_for(scenario, controllers, seeds, inputs)
    with Bar("evaluating") as bar:
        return evaluate(
            jobs,
            folder,
            datapath.load(),
            factory,
            workers=spec.workers,
            config=config,
            on_progress=EvaluationProgress(bar),
        )


def _policy_digest(controller: Controller, factory: LimiterFactory) -> dict[str, str]:
    if not isinstance(controller.limit, PolicyLimit):
        return {}
    return {"policy": file_digest(factory.path(controller.name, controller.limit))}


def _present(result: Comparison, folder: Path) -> None:
    print()
    print_comparison(result)
    result.save(folder)
    write_text(folder / "comparison.md", markdown(result))
