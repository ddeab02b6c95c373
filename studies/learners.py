# SPDX-License-Identifier: BSD-3-Clause
"""Learners that begin with the same formula: FCTs of their policies on held-out flows, and their cost.

``python -m studies.learners`` prints the table of docs/learners after an hour of CPU time, and writes all numbers to
results.json in the folder. Trainings take place one at a time. Finished ones are kept; an interrupted one begins anew,
because it is timed. After a change of the settings here, name another folder.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ncc.agents.policy import UNTRAINED_FILE
from ncc.core.errors import InvalidRunError
from ncc.core.options import Parser, exit_status
from ncc.harness.atomic import write_text
from ncc.harness.controller import Controller, ModelLimit
from ncc.harness.manifest import is_sealed, read_manifest
from ncc.metrics.stats import interval
from ncc.results.grid import markdown_table
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from ncc.run.plan import training_plan
from ncc.study.page import json_text, spread
from studies.random_networks import Outcomes, count, drawn, load_families, play

FAMILIES, NETWORKS, PERIODS, SEEDS = "incast_cell", 16, 1000, (101, 202)
"""Networks on which policies are judged: families, number for each seed, periods in which flows arrive, and seeds."""
OVER = ("local_tuned", "ncc", "dctcp")
"""Controllers that the table shows in addition."""
COMMON = (
    "recipe=ncc", f"families={FAMILIES}", "~families.of.uplink", "~families.of.fast_hosts", "env.action.within=null",
    "agent.racks=16", "env.pairs.copies=2", "stack.order=upsilon", "stack.params=[]", "evaluation.seeds=1",
    "evaluation.duration_s=0.02",
)  # fmt: skip
"""Overrides of every `ncc train`: one incast, and A3C in pairs. Scripts set their scenario themselves."""
PLAIN = ("agent.normalize_per_rack=false", "agent.evolve_frac=0")
LEARNERS: dict[str, tuple[str, ...]] = {
    "a3c": PLAIN,
    "rllib_ppo": ("agent=rllib_ppo_pairs",),
    "sb3_ppo": ("examples/sb3_pairs.py", ".zip"),
    "cleanrl_ppo": ("examples/cleanrl_pairs.py", ".ncc"),
    "a3c_async": (*PLAIN, "agent.mode=async"),
    "a3c_evolved": PLAIN[:1],
    "a3c_one_pass": (*PLAIN, "agent.passes=1"),
    "a3c_mean": (*PLAIN, "env.pairs.paid=mean", "env.pairs.copies=4"),
    "a3c_fresh": (*PLAIN, "env.pairs.noise_periods=1"),
    "a3c_critic": (*PLAIN, "agent.value_coef=0.5"),
    "a3c_alone": (*PLAIN, "env.pairs=null", "agent.value_coef=0.5"),
}
"""By name: further overrides of `ncc train`, or a script with a training loop of its own and the suffix of the policy
that it writes to the path after ``--out``. The first is a training, whose untrained policy is the formula."""
HEAD = ("learner", *(f"seed {seed}" for seed in SEEDS), "timeouts per flow", "CPU seconds")


def train(name: str, seed: int, epochs: int, folder: Path) -> tuple[Controller, float]:
    """Do a training, unless it is done; return the controller with its policy, and the CPU seconds that it took.

    Raises:
        InvalidRunError: the training failed. Its own message was printed before.
    """
    settings, at = LEARNERS[name], folder / f"{name}_s{seed}"
    overrides = [*COMMON, f"agent.epochs={epochs}", f"seed={seed}"]
    if settings[0].endswith(".py"):
        script, suffix = settings
        return _scripted(script, at.with_suffix(suffix), seed, overrides)
    if not is_sealed(at):
        shutil.rmtree(at, ignore_errors=True)
        _run("-m", "ncc.train", *overrides, *settings, f"out={at}")
    return load_controller(str(at.resolve())), read_manifest(at, "training").facts["trained_cpu_s"]


def _scripted(script: str, policy: Path, seed: int, overrides: Sequence[str]) -> tuple[Controller, float]:
    took = policy.with_suffix(".cpu_s")
    if not took.exists():
        policy.parent.mkdir(parents=True, exist_ok=True)
        began_s = sum(os.times()[2:4])
        epochs = next(word.partition("=")[2] for word in overrides if word.startswith("agent.epochs="))
        _run(script, f"--seed={seed}", f"--periods={epochs}", f"--out={policy}")
        write_text(took, f"{sum(os.times()[2:4]) - began_s}\n")
    controller = load_controller(str(policy))
    if isinstance(controller.limit, ModelLimit):  # its file does not say how it observes and acts
        plan = training_plan(overrides)
        view = {key: getattr(plan.env, key).to_dict() for key in ("observation", "action")}
        controller = controller.replace(limit=controller.limit.replace(env=view)).over(plan.stack)
    return controller, float(took.read_text())


def _run(*arguments: str) -> None:
    print("\n" + " ".join(arguments), flush=True)
    if status := subprocess.run([sys.executable, *arguments], check=False).returncode:
        raise InvalidRunError(f"{' '.join(arguments)} ended with status {status}; its own message is above")


def judge(controller: Controller) -> list[Outcomes]:
    """Run a controller on the held-out networks; return the results of each seed."""
    families, factory = load_families(FAMILIES, epochs=PERIODS), LimiterFactory(None)
    return [play(controller, drawn(families, seed, NETWORKS), seed, factory) for seed in SEEDS]


def over(met: Sequence[Outcomes], formula: Sequence[Outcomes]) -> dict[str, list[float]]:
    """Compare results with the formula's, with a value for each seed, on the networks that have a flow.

    Returns:
        `over_formula`: ratio of mean FCTs, the geometric mean over networks; `timeouts`: mean timeouts of a flow.
    """
    ratios, timeouts = [], []
    for ours, base in zip(met, formula, strict=True):
        carried = base.flows > 0
        ratios.append(float(np.exp(np.log(ours.mean_fct_s[carried] / base.mean_fct_s[carried]).mean())))
        timeouts.append(float(ours.timeouts_per_flow[carried].mean()))
    return {"over_formula": ratios, "timeouts": timeouts}


def row(name: str, trainings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Make the row of a learner: means over its trainings with 95 % bootstrap intervals, and the range of costs."""
    ratios = zip(*(one["over_formula"] for one in trainings), strict=True)
    means = [interval(values) for values in (*ratios, [one["timeouts"][0] for one in trainings])]
    texts = [spread(mean.estimate, None if np.isnan(mean.low) else mean.low, mean.high) for mean in means]
    costs = [one["cpu_s"] for one in trainings if "cpu_s" in one]
    return [name, *texts, f"{min(costs):.0f} to {max(costs):.0f}" if costs else ""]


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, judge and print the table; return the exit status (`ncc.core.options.exit_status`)."""
    parser = Parser(prog="python -m studies.learners", description=__doc__)
    parser.add_argument("--seeds", type=count, default=5, help="trainings of each learner")
    parser.add_argument("--epochs", type=count, default=300_000, help="periods of a training, summed over racks")
    parser.add_argument("--of", nargs="+", choices=LEARNERS, default=[*LEARNERS], help="learners; a3c always")
    parser.add_argument("--out", type=Path, default=Path("runs/learners"), help="folder of the trainings")
    return exit_status(lambda: _main(parser.parse_args(arguments)))


def _main(options: Any) -> int:
    learners: dict[str, list[dict[str, Any]]] = {}
    formula: list[Outcomes] = []
    first = next(iter(LEARNERS))
    for name in dict.fromkeys([first, *options.of]):
        for seed in range(1, options.seeds + 1):
            controller, cpu_s = train(name, seed, options.epochs, options.out)
            formula = formula or judge(load_controller(str((options.out / f"{first}_s1" / UNTRAINED_FILE).resolve())))
            learners.setdefault(name, []).append({"seed": seed, "cpu_s": cpu_s, **over(judge(controller), formula)})
    beside = {name: over(judge(load_controller(name)), formula) for name in OVER}
    write_text(options.out / "results.json", json_text({"learners": learners, "beside": beside}, 2))
    rows = [row(*each) for each in learners.items()] + [row(name, [met]) for name, met in beside.items()]
    print(markdown_table(HEAD, rows, "lrrrr"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
