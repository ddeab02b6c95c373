# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of learners that begin with the same formula: FCTs of their policies on held-out flows, and their cost."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from ncc.agents.policy import UNTRAINED_FILE
from ncc.core.errors import ConfigError, InvalidRunError
from ncc.core.value import Count, Name, Natural, Value, from_dict
from ncc.harness.atomic import file_digest, write_text
from ncc.harness.controller import Controller, ModelLimit
from ncc.harness.manifest import is_sealed, provenance, read_manifest
from ncc.metrics.stats import interval
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from ncc.run.plan import CONFIG
from ncc.study.page import render, spread
from ncc.study.random_networks import Outcomes, drawn, load_families, play
from ncc.study.result import commits_of
from ncc.study.trainings import key_of, leave_out, training_plan

Summary = dict[str, Any]
"""Plain data: the contents of results.json."""
OWN = ("agent.epochs", "seed", "out", "resume")
"""Keys that the comparison sets for each training, so that a learner may not set them."""


class Learner(Value, frozen=True):
    """A learner: either a training of ncc, or a script with a training loop of its own."""

    train: tuple[str, ...] = ()
    """Overrides of `ncc train` that choose the learner."""
    script: tuple[str, ...] = ()
    """A Python file and its options. The script must take ``--seed``, ``--periods`` and ``--out``, and write its policy
    to the path after ``--out``: a model of Stable-Baselines3 (.zip), or a file of `ncc.agents.policy.save_policy`
    (.ncc)."""
    writes: str = ".ncc"
    """Suffix of the file that the script writes."""

    def check(self) -> None:
        if self.script and self.train:
            raise ConfigError("a learner has either train or script, not both")
        if self.script and not Path(self.script[0]).is_file():
            raise ConfigError(f"the script {self.script[0]} is not here: start ncc learners in a checkout")


class Judged(Value, frozen=True):
    """The networks on which all policies are judged."""

    families: Name
    """Name of a file in configs/families, from which networks are drawn."""
    networks: Count
    """Number of networks for each seed."""
    periods: Count
    """Number of periods in which flows arrive."""
    seeds: Annotated[tuple[Count, ...], Meta(min_length=1)]
    """Seeds of networks and flows; each has a column in the table."""


class LearnersSpec(Value, frozen=True):
    """The contents of configs/learners.yaml."""

    learners: Annotated[dict[Name, Learner], Meta(min_length=1)]
    common: tuple[str, ...]
    """Overrides of every training by ncc; the learner's own follow them. Scripts set their scenario themselves."""
    judged: Judged
    over: tuple[Name, ...]
    """Controllers that are shown in addition."""
    seeds: Annotated[int, Meta(ge=1, le=1000)]
    """Number of trainings of each learner."""
    first_seed: Natural
    """Seed of the first training; the others follow."""
    epochs: Count
    """Periods of each training, summed over racks."""
    out: Annotated[str, Meta(min_length=1)]
    """Folder of the trainings and the report; finished trainings are kept."""
    docs: str | None
    """Second folder for the report; None: no second folder."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "LearnersSpec":
        """Read a composed configuration, and check all that can be checked before a training begins.

        Raises:
            ConfigError: a training cannot be composed or sets a key of `OWN`, or the first learner is a script.
        """
        spec = from_dict(cls, plain, "configuration")
        for name, learner in spec.learners.items():
            leave_out(map(key_of, (*spec.common, *learner.train)), OWN, f"learners.{name} is set by the comparison")
            if not learner.script:
                training_plan(spec.overrides(learner, spec.first_seed))
        load_families(spec.judged.families)
        if next(iter(spec.learners.values())).script:
            raise ConfigError("the first of learners must be a training, whose untrained policy is the formula")
        return spec

    def overrides(self, learner: Learner, seed: int) -> list[str]:
        """Overrides on the command line of a training, without its folder."""
        return [*self.common, *learner.train, f"agent.epochs={self.epochs}", f"seed={seed}"]


def run_learners(spec: LearnersSpec, command: str) -> Summary:
    """Do the trainings that `spec.out` does not hold yet, one at a time, and judge all policies.

    Args:
        command: command line to show in the summary.

    Raises:
        ConfigError: the folder holds a training of another configuration.
        InvalidRunError: a training failed. Its own message was printed before.
    """
    factory, made_by = LimiterFactory(None), []
    results: dict[str, list[Summary]] = {}
    formula: dict[int, Outcomes] = {}
    for name, learner in spec.learners.items():
        results[name] = []
        for seed in range(spec.first_seed, spec.first_seed + spec.seeds):
            if learner.script:
                controller, cpu_s = _scripted(spec, name, learner, seed)
            else:
                folder = _trained(spec, name, learner, seed).resolve()
                manifest = read_manifest(folder, "training")
                made_by.append(manifest.provenance)
                controller, cpu_s = load_controller(str(folder)), round(manifest.facts["trained_cpu_s"], 1)
                # All learners begin with the untrained policy of the first learner, which is a training.
                formula = formula or _judged(spec, load_controller(str(folder / UNTRAINED_FILE)), factory)
            met = _judged(spec, controller, factory)
            results[name].append({"seed": seed, "cpu_s": cpu_s, **_over(met, formula)})
    beside = {name: _judged(spec, load_controller(name), factory) for name in spec.over}
    origin = provenance()
    return {
        "command": command,
        "families": spec.judged.families,
        "judged_seeds": list(spec.judged.seeds),
        "networks": [int((met.flows > 0).sum()) for met in formula.values()],
        "epochs": spec.epochs,
        "overrides": {name: list(learner.script or learner.train) for name, learner in spec.learners.items()},
        "common": list(spec.common),
        "commits": list(commits_of(made_by)),
        "processor": origin["processor"],
        "cpus": origin["cpus_usable"],
        "beside": {name: _over(met, formula) for name, met in beside.items()},
        "learners": results,
    }


def _judged(spec: LearnersSpec, controller: Controller, factory: LimiterFactory) -> dict[int, Outcomes]:
    """Run a controller on the held-out networks; return the results by their seeds."""
    judged = spec.judged
    families = load_families(judged.families, epochs=judged.periods)
    return {seed: play(controller, drawn(families, seed, judged.networks), seed, factory) for seed in judged.seeds}


def _over(met: Mapping[int, Outcomes], formula: Mapping[int, Outcomes]) -> Summary:
    """Summarise results, with one value per seed: the ratio of mean FCTs to the formula's, and timeouts per flow.

    The ratio is a geometric mean over networks, the number of timeouts an arithmetic mean. Networks without a flow are
    left out.
    """
    ratios, timeouts = [], []
    for seed, base in formula.items():
        carried = base.flows > 0
        if not carried.any():
            raise ConfigError(f"no network of seed {seed} has a flow: raise judged.networks or judged.periods")
        logs = np.log(met[seed].mean_fct_s[carried] / base.mean_fct_s[carried])
        ratios.append(round(float(np.exp(logs.mean())), 4))
        timeouts.append(round(float(met[seed].timeouts_per_flow[carried].mean()), 4))
    return {"over_formula": ratios, "timeouts": timeouts}


def _trained(spec: LearnersSpec, name: str, learner: Learner, seed: int) -> Path:
    """Do a training, unless it is done already; return its folder."""
    overrides, folder = spec.overrides(learner, seed), Path(spec.out) / f"{name}_s{seed}"
    if (folder / CONFIG).exists():
        training_plan(overrides).require_same(folder)
        if is_sealed(folder):
            return folder
        shutil.rmtree(folder)  # begun anew: a resumed training would count the time of two starts
    _run(f"{name}, seed {seed}", ["-m", "ncc.train", *overrides, f"out={folder}"])
    return folder


def _scripted(spec: LearnersSpec, name: str, learner: Learner, seed: int) -> tuple[Controller, float]:
    """Run a script, unless its policy is there already.

    Returns:
        The controller with the policy, and the CPU seconds that the script took.

    Raises:
        ConfigError: the policy that is there was made by another script or with other options.
    """
    path = Path(spec.out) / f"{name}_s{seed}{learner.writes}"
    made_by = path.with_suffix(".json")
    command = [*learner.script, f"--seed={seed}", f"--periods={spec.epochs}", f"--out={path}"]
    digest = file_digest(Path(learner.script[0]))
    if not made_by.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        began = sum(os.times()[2:4])
        _run(f"{name}, seed {seed}", command)
        cost = round(sum(os.times()[2:4]) - began, 1)
        # Written last, because a policy counts only if this file is there.
        write_text(made_by, json.dumps({"command": command, "digest": digest, "cpu_s": cost}) + "\n")
    stored = json.loads(made_by.read_text())
    if (stored["command"], stored["digest"]) != (command, digest):
        raise ConfigError(f"{path} was made by another script or with other options: remove {made_by}, or set out")
    controller = load_controller(str(path))
    if isinstance(controller.limit, ModelLimit):  # its file does not say how it observes and acts
        plan = training_plan(spec.overrides(Learner(), seed))
        view = {key: getattr(plan.env, key).to_dict() for key in ("observation", "action")}
        controller = controller.replace(limit=controller.limit.replace(env=view)).over(plan.stack)
    return controller, stored["cpu_s"]


def _run(title: str, arguments: list[str]) -> None:
    print(f"\n{title}:", flush=True)
    if status := subprocess.run([sys.executable, *arguments], check=False).returncode:
        raise InvalidRunError(f"the training of {title} ended with status {status}; its own message is above")


def page(summary: Summary) -> str:
    """Render the page of a summary, as Markdown."""
    rows = [_row(name, trainings) for name, trainings in summary["learners"].items()]
    rows += [_row(name, [result]) for name, result in summary["beside"].items()]
    seeds = len(next(iter(summary["learners"].values())))
    return render("learners.md.jinja", **summary, n_seeds=seeds, rows=rows)


def _row(name: str, trainings: Sequence[Mapping[str, Any]]) -> list[str]:
    costs = [training["cpu_s"] for training in trainings if "cpu_s" in training]
    return [
        name,
        *(_spread(values) for values in zip(*(training["over_formula"] for training in trainings), strict=True)),
        _spread([training["timeouts"][0] for training in trainings]),
        f"{min(costs):.0f} to {max(costs):.0f}" if costs else "",
    ]


def _spread(values: Sequence[float]) -> str:
    mean = interval(values)
    return spread(mean.estimate, None if np.isnan(mean.low) else mean.low, mean.high, digits=3)
