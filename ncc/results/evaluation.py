# SPDX-License-Identifier: BSD-3-Clause
"""Evaluation of controllers on paired flows, on every datapath, with one table, figures and data files."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ncc.agents.checkpoints import checkpoint_policies
from ncc.core.errors import InvalidRunError
from ncc.core.scenario import Scenario
from ncc.envs.recording import Recording
from ncc.harness.atomic import remove, write_text
from ncc.harness.controller import OPPONENT, TUNED, Controller
from ncc.harness.pool import Executor, evaluate, jobs_for
from ncc.harness.progress import Bar
from ncc.harness.results import Evaluation
from ncc.harness.run import eval_flow_seed
from ncc.metrics.bounds import bound_slowdowns, bounds_for
from ncc.metrics.fluid import unbounded
from ncc.metrics.stats import paired_ratio
from ncc.results.captions import seeds_text
from ncc.results.closeup import Drawing
from ncc.results.comparison import GAP_METRIC, MIN_SEEDS, Comparison, compare
from ncc.results.judgement import JSON, Judgement
from ncc.results.palette import label
from ncc.results.plot import FlowPoints, fct_by_size, held_out_curve, slowdown_cdf
from ncc.results.table import markdown, print_judgement, print_verdict
from ncc.run.compose import DatapathSpec, reference_last
from ncc.run.limiters import LimiterFactory
from ncc.run.plan import EvaluationSpec, TrainPlan, is_last_policy, require_parts, require_transports

MARKDOWN = "comparison.md"
CURVE = "held_out_curve"
"""Name of the learning curve among a training's facts: `judge_checkpoints`."""


def judge(
    scenario: Scenario,
    spec: EvaluationSpec,
    datapaths: Sequence[DatapathSpec],
    *,
    policies: Path | None,
    folder: Path,
    config: Mapping[str, Any],
    recording: Recording | None = None,
    close: bool = True,
) -> Judgement:
    """Run every controller on every seed on every datapath; print, draw and save the comparison.

    Runs go into `folder/<datapath>`, and finished runs there are kept. The comparison goes into `folder`, as
    comparison.json and comparison.md.

    Args:
        policies: run folder to which the paths of policies are relative; None: policies come from the package.
        folder: folder of the results.
        config: resolved configuration, for the manifests.
        recording: recorder of every run; the runs then have other flows than the held-out ones, and no bounds. None:
            nothing is recorded.
        close: print the verdict again at the end.
    """
    datapaths = reference_last(datapaths)
    factory = LimiterFactory(policies)
    contenders = [(factory.resolved(controller, run_in), run_in) for controller, run_in in spec.contenders(scenario)]
    controllers, scenarios = [c for c, _ in contenders], {c.name: run_in for c, run_in in contenders}
    require_transports(datapaths, controllers)
    for controller, run_in in contenders:
        factory(controller, run_in)  # reports a missing or damaged policy now, not after minutes of simulation
        require_parts(run_in, [controller])
    if recording is not None:
        recording.check(scenario)
    warnings = {controller.name: factory.warnings(controller, scenario) for controller in controllers}
    with_bounds = spec.bounds and recording is None
    for name in (JSON, MARKDOWN):
        remove(folder / name)  # a table must not outlive the runs that it describes
    seeds = range(spec.first_seed, spec.first_seed + spec.seeds)
    bounds = bound_points(scenario, seeds) if with_bounds else {}
    comparisons: dict[str, Comparison] = {}
    executor = spec.load_executor()
    with executor.opened():
        for datapath in datapaths:
            evaluation = run_controllers(
                scenarios,
                controllers,
                seeds,
                datapath,
                factory,
                called="evaluating",
                folder=folder / datapath.name,
                executor=executor,
                config=config,
                recording=recording,
            )
            comparisons[datapath.name] = compare(evaluation, bounds=with_bounds, warnings=warnings)
            _draw(evaluation, f"{scenario.name} on {datapath.name}", scenario.duration_s, bounds)
    result = Judgement(comparisons)
    print_judgement(result, full=spec.table == "full")
    if with_bounds and not bounds:
        print(f"No bounds: {scenario.name} {unbounded(scenario)}.")
    result.save(folder)
    write_text(folder / MARKDOWN, markdown(result))
    print(f"Written to {folder}" + (f"; the same as a page: ncc report run={folder}" if close else ""))
    if close:
        print_verdict(result)
    return result


def require_valid(result: Judgement) -> None:
    """Raise `InvalidRunError` if a run of the comparison is invalid; the results stay on disk."""
    bad = ", ".join(
        f"{label(name)} on {datapath} (seeds {', '.join(map(str, runs))})"
        for datapath, comparison in result.comparisons.items()
        for name, runs in comparison.invalid.items()
        if runs
    )
    if bad:
        raise InvalidRunError(f"some runs are invalid: {bad}; their problems are listed under the table")


def run_controllers(
    scenario: Scenario | Mapping[str, Scenario],
    controllers: Sequence[Controller],
    seeds: Sequence[int],
    datapath: DatapathSpec,
    factory: LimiterFactory,
    *,
    called: str,
    folder: Path,
    executor: Executor,
    config: Mapping[str, Any],
    recording: Recording | None = None,
) -> Evaluation:
    """Run every controller on every seed on one datapath; finished runs in `folder` are kept.

    Args:
        scenario: one scenario for all controllers, or a mapping from the name of each controller to its scenario.
        controllers: controllers as `factory.resolved` returns them.
        called: text before the datapath's name on the progress bar.

    Raises:
        NccError: as in `ncc.harness.pool.evaluate`.
    """
    inputs = {c.name: {"datapath": datapath.identity, **factory.inputs(c)} for c in controllers}
    if recording is not None:
        inputs = {name: {**given, "recorded": recording.view.digest()} for name, given in inputs.items()}
    jobs = jobs_for(scenario, controllers, seeds, inputs, "eval" if recording is None else "record")
    with Bar(f"{called} on {datapath.name}") as bar:
        return evaluate(
            jobs,
            folder,
            datapath.load(),
            factory,
            executor=executor,
            config=config,
            show=bar.update,
            recorder_factory=recording,
        )


def bound_points(scenario: Scenario, seeds: Sequence[int]) -> dict[str, FlowPoints]:
    """Compute, for each bound, the sizes and slowdowns of the flows of all these evaluation seeds together.

    The result has the form of `Evaluation.slowdowns`; it is empty if the scenario has no bounds.
    """
    drawn = [eval_flow_seed(seed) for seed in seeds]
    size_bytes = np.concatenate([scenario.flows(seed).size_bytes for seed in drawn])
    return {
        name: (size_bytes, np.concatenate([bound_slowdowns(scenario, seed, name) for seed in drawn]))
        for name in bounds_for(scenario)
    }


def judge_checkpoints(plan: TrainPlan, run: Path, judged: Evaluation) -> dict[str, Any]:
    """Judge `evaluation.curve_points` of a training's policies, the untrained one and the last included.

    They meet the flows of the first `MIN_SEEDS` seeds. Their runs are not kept.

    Args:
        judged: final evaluation of the training, on the datapath to use: the last policy's runs, and the opponents'.

    Returns:
        `fct_mean_s`: mean FCT of each seed by the number of periods learnt from; `others`: the same by controller;
        `over`: the controller to compare with. Empty if no points are wanted.
    """
    if not plan.evaluation.curve_points:
        return {}
    scenario, factory, policies = plan.evaluation_scenario, LimiterFactory(run), checkpoint_policies(run)
    contender = next(c for c, _ in plan.evaluation.contenders(scenario) if is_last_policy(c))
    chosen = np.linspace(0, len(policies) - 1, min(len(policies), plan.evaluation.curve_points)).round()
    at = [list(policies)[int(place)] for place in chosen]
    seeds = sorted({stored.seed for stored in judged.runs})[:MIN_SEEDS]
    controllers = [
        factory.resolved(
            contender.replace(name=f"at_{epochs}", limit=contender.limit.replace(path=str(policies[epochs].resolve()))),
            scenario,
        )
        for epochs in at[:-1]
    ]
    (datapath,) = [one for one in plan.judged_on if one.name == judged.runs[0].manifest.facts["datapath"]]
    executor = plan.evaluation.load_executor()
    with executor.opened(), TemporaryDirectory(prefix=".curve", dir=run) as folder:
        evaluated = run_controllers(
            scenario,
            controllers,
            seeds,
            datapath,
            factory,
            called="judging checkpoints",
            folder=Path(folder) / datapath.name,
            executor=executor,
            config=plan.plain,
        )
        points = _fct_means(evaluated, seeds)
    others = _fct_means(judged, seeds)
    learned = [*(points[f"at_{epochs}"] for epochs in at[:-1]), others.pop(contender.name)]
    over = next(name for name in (OPPONENT + TUNED, OPPONENT) if name in others)
    return {"over": over, "fct_mean_s": dict(zip(map(str, at), learned, strict=True)), "others": others}


def held_out_figure(fact: Mapping[str, Any], where: str) -> Drawing:
    """Make the learning curve from the result of `judge_checkpoints`, which is not empty.

    Args:
        where: text with the scenario and the datapath.
    """
    over, base = label(fact["over"]), fact["others"][fact["over"]]
    points = {int(epochs): paired_ratio(fcts, base) for epochs, fcts in fact["fct_mean_s"].items()}
    others = {name: paired_ratio(fcts, base).estimate for name, fcts in fact["others"].items()}
    (first, *_, last), n = points.values(), len(base)
    seeds = seeds_text(n, np.nan)
    text = f"Mean FCT over that of {over} on held-out flows of {where}, {seeds}, against the periods learnt from"
    result = f"{first.estimate:.3f} before training, {last.estimate:.3f} after it"
    if n > 1:
        result = f"{result} [{last.low:.3f}, {last.high:.3f}]. The band is the 95 % interval over seeds"
    draw = partial(
        held_out_curve, points, others, over=over, title=f"Learning curve on held-out flows of {where}, {seeds}"
    )
    return Drawing("learning_curve", f"{text}: {result}.", draw)


def _fct_means(evaluation: Evaluation, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Mean FCT of the runs with these seeds in seconds, by controller."""
    return {name: [runs[seed][GAP_METRIC] for seed in seeds] for name, runs in evaluation.summaries().items()}


def _draw(evaluation: Evaluation, what: str, duration_s: float, bounds: Mapping[str, FlowPoints]) -> None:
    data = evaluation.slowdowns()
    n_flows = len(next(iter(data.values()))[0])
    runs = seeds_text(len(evaluation.manifest.facts["seeds"]), duration_s)
    title = f"{what}: {runs}, {n_flows:,} flows per controller"
    slowdown_cdf(data, evaluation.folder / "slowdown_cdf.png", title=title, bounds=bounds)
    fct_by_size(data, evaluation.folder / "fct_by_size.png", title=title, bounds=bounds)
