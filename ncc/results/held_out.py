# SPDX-License-Identifier: BSD-3-Clause
"""The learning curve: mean FCT of a training's policies, divided by tuned DCTCP's or DCTCP's, on held-out flows."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ncc.agents.checkpoints import checkpoint_policies
from ncc.harness.controller import OPPONENT, TUNED
from ncc.harness.results import Evaluation
from ncc.metrics.stats import paired_ratio
from ncc.results.captions import seeds_text
from ncc.results.closeup import Drawing
from ncc.results.comparison import GAP_METRIC, MIN_SEEDS
from ncc.results.evaluation import run_controllers
from ncc.results.palette import label
from ncc.results.plot import held_out_curve
from ncc.run.limiters import LimiterFactory
from ncc.run.plan import TrainPlan, is_last_policy

FACT = "held_out_curve"
"""Name of the curve among a training's facts: `judge_checkpoints`."""


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
