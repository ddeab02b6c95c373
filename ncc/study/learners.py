# SPDX-License-Identifier: BSD-3-Clause
"""Learners compared, at equal epochs and at equal wall time; each training in a process of its own."""

import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from ncc.core.errors import ConfigError, InvalidRunError
from ncc.core.value import Count, Name, Natural, Positive, Value, from_dict
from ncc.harness.results import EVALUATION, load_evaluation
from ncc.metrics.stats import interval
from ncc.results.palette import styles
from ncc.results.plot import new_figure, save_figure
from ncc.run.learning import read_learning
from ncc.study.page import render, spread
from ncc.study.result import commits_of
from ncc.study.trainings import Training, key_of, leave_out, training_plan

Summary = dict[str, Any]
"""Plain data: the contents of results.json."""
OWN = ("agent.epochs", "seed", "out", "resume")
"""Keys that the comparison itself sets of each training."""
STEPS, WALL = "epochs", "wall"
"""The two comparisons: at equal epochs, at equal wall time."""
TITLES = {STEPS: "As many epochs", WALL: "As long by the clock"}
TRAINED = "ncc"
CURVE_POINTS = 60
PICTURE = "learning.png"


class LearnersSpec(Value, frozen=True):
    """configs/learners.yaml."""

    learners: Annotated[dict[Name, tuple[str, ...]], Meta(min_length=1)]
    """Overrides of `ncc train`, by name."""
    common: tuple[str, ...]
    """Overrides of every training, after its own."""
    over: Name
    """Controller with which the trained policy is compared; it must be among those of `common`."""
    seeds: Annotated[int, Meta(ge=1, le=1000)]
    first_seed: Natural
    epochs: Count
    """Epochs of each training in the comparison at equal epochs."""
    wall_s: Positive | None
    """Seconds of each training in the comparison at equal wall time, about; None: without that comparison."""
    out: Annotated[str, Meta(min_length=1)]
    docs: str | None

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "LearnersSpec":
        """Check all of it, each learner's configuration too.

        Raises:
            ConfigError: names the key or the learner, and what is allowed.
        """
        spec: LearnersSpec = from_dict(cls, dict(plain), "configuration")
        for name, overrides in spec.learners.items():
            leave_out(map(key_of, (*overrides, *spec.common)), OWN, f"learners.{name} is set by the comparison")
            plan = training_plan(spec.overrides(name, spec.first_seed, spec.epochs))
            if not {TRAINED, spec.over} <= set(judged := plan.evaluation.controllers):
                raise ConfigError(
                    f"evaluation.controllers of learners.{name} must have {TRAINED} and what it is compared with, over="
                    f"{spec.over}, got {', '.join(judged)}"
                )
        return spec

    def overrides(self, name: str, seed: int, epochs: int) -> list[str]:
        """The command line of a training, its folder apart."""
        return [*self.learners[name], *self.common, f"agent.epochs={epochs}", f"seed={seed}"]


def run_learners(spec: LearnersSpec, command: str) -> Summary:
    """Train what `spec.out` does not hold yet, one training at a time.

    Raises:
        ConfigError: the folder holds a training of another configuration.
        InvalidRunError: a training failed; its own message is above.
    """
    seeds = range(spec.first_seed, spec.first_seed + spec.seeds)
    done: dict[str, dict[str, list[Training]]] = {STEPS: {}}
    for name in spec.learners:
        done[STEPS][name] = [_train(spec, STEPS, name, seed, spec.epochs) for seed in seeds]
    if spec.wall_s is not None:
        done[WALL] = {}
        for name, trainings in done[STEPS].items():
            epochs = _epochs_in(spec.wall_s, trainings)
            done[WALL][name] = [_train(spec, WALL, name, seed, epochs) for seed in seeds]
    every = [training for by in done.values() for trainings in by.values() for training in trainings]
    made, scenario = every[0].manifest.provenance, every[0].plan.scenario
    return {
        "command": command,
        "scenario": scenario.name,
        "hosts": scenario.n_agents,
        "epochs": spec.epochs,
        "wall_s": spec.wall_s,
        "over": spec.over,
        "overrides": {name: list(overrides) for name, overrides in spec.learners.items()},
        "commits": list(commits_of(training.manifest.provenance for training in every)),
        "processor": made["processor"],
        "cpus": made["cpus_usable"],
        "trainings": {
            kind: {name: [_summary(t, spec.over) for t in found] for name, found in by.items()}
            for kind, by in done.items()
        },
    }


def _train(spec: LearnersSpec, kind: str, name: str, seed: int, epochs: int) -> Training:
    overrides = spec.overrides(name, seed, epochs)
    training = Training(training_plan(overrides), Path(spec.out) / f"{name}_{kind}_s{seed}")
    if training.finished:
        return training
    if training.begun:
        shutil.rmtree(training.folder)  # begun again: resumed, its clock would count two starts
    print(f"\n{name}, seed {seed}, {epochs} epochs:", flush=True)
    command = [sys.executable, "-m", "ncc.train", *overrides, f"out={training.folder}"]
    if status := subprocess.run(command, check=False).returncode:
        raise InvalidRunError(
            f"the training of {name} with seed {seed} ended with status {status}; its own message is above"
        )
    return training


def _epochs_in(wall_s: float, done: Iterable[Training]) -> int:
    """Epochs that take so long, by the median of what these took; a thousand at least."""
    speeds = [_speed(training) for training in done]
    rate, start_s = (statistics.median(speed[i] for speed in speeds) for i in range(2))
    return 1000 * max(1, round(rate * (wall_s - start_s) / 1000))


def _speed(training: Training) -> tuple[float, float]:
    """Epochs per second once it learns, and seconds until then; `InvalidRunError` if it was too short to say."""
    rows = read_learning(training.folder)
    if len(rows) < 3 or rows[-1]["epochs"] <= rows[0]["epochs"]:
        raise InvalidRunError(f"{training.folder} reported {len(rows)} times, too few for its speed; raise epochs")
    first, last = rows[0], rows[-1]
    rate = (last["epochs"] - first["epochs"]) / (last["wall_s"] - first["wall_s"])
    return rate, max(0.0, training.manifest.facts["trained_s"] - last["epochs"] / rate)


def _summary(training: Training, over: str) -> Summary:
    """The part of results.json about one training."""
    rows, facts = read_learning(training.folder), training.manifest.facts
    (returns,) = facts["held_out_returns"].values()
    return {
        "seed": training.plan.seed,
        "epochs": rows[-1]["epochs"],
        "trained_s": round(facts["trained_s"], 2),
        "fct_ratio": round(_fct_ratio(training, over), 4),
        "returns": {name: [round(value, 5) for value in values] for name, values in returns.items()},
        "curve": _curve([row for row in rows if row["returns"]]),
    }


def _fct_ratio(training: Training, over: str) -> float:
    """Mean FCT of the trained policy over another controller's, over all flows that each delivered."""
    (judged,) = training.plan.judged_on
    flows = load_evaluation(training.folder / EVALUATION / judged.name).table("flows")
    of, fct_s = flows["controller"].to_numpy(), flows["fct_s"].to_numpy()
    return float(np.nanmean(fct_s[of == TRAINED]) / np.nanmean(fct_s[of == over]))


def _curve(rows: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """[epochs, wall_s, mean return] of consecutive stretches of the training."""
    size = max(1, -(-len(rows) // CURVE_POINTS))
    points = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        values = [value for row in part for value in row["returns"]]
        points.append([part[-1]["epochs"], part[-1]["wall_s"], round(sum(values) / len(values), 5)])
    return points


def page(summary: Summary) -> str:
    """The Markdown page."""
    tables = {
        kind: [_row(name, found, summary["over"]) for name, found in by.items()]
        for kind, by in summary["trainings"].items()
    }
    seeds = len(next(iter(summary["trainings"][STEPS].values())))
    return render("learners.md.jinja", **summary, n_seeds=seeds, titles=TITLES, tables=tables)


def _row(name: str, trainings: Sequence[Mapping[str, Any]], over: str) -> list[str]:
    means = {key: [float(np.mean(t["returns"][key])) for t in trainings] for key in trainings[0]["returns"]}
    gains = [trained - untrained for trained, untrained in zip(means[TRAINED], means[over], strict=True)]
    gain = interval(gains)
    return [
        name,
        _range([t["epochs"] for t in trainings], ",.0f"),
        _range([t["trained_s"] for t in trainings], ".0f"),
        _spread(means[over]),
        _spread(means[TRAINED]),
        _spread(gains),
        _spread([t["fct_ratio"] for t in trainings]),
        "yes" if gain.low > 0 else "no" if gain.high < 0 else "not sure",
        _spread(means["dctcp"]) if "dctcp" in means else "",
    ]


def _range(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def _spread(values: Sequence[float]) -> str:
    found = interval(values)
    return spread(found.estimate, None if np.isnan(found.low) else found.low, found.high, digits=4)


def draw(summary: Summary, path: Path) -> None:
    """Return while learning: a thin line a training, against epochs and against the clock."""
    kinds = [kind for kind in TITLES if kind in summary["trainings"]]
    figure, axes = new_figure(len(kinds), width=5.0 * len(kinds), height=4.4, sharey=True)
    names = ("training epochs", "wall time since learning began (s)")
    for column, (panel, name, kind) in enumerate(zip(axes, names, kinds, strict=False)):
        by = summary["trainings"][kind]
        for learner, style in styles(list(by)).items():
            curves = [np.array(training["curve"]) for training in by[learner] if training["curve"]]
            for i, curve in enumerate(curves):
                shown = learner if i == 0 else None
                panel.plot(curve[:, column], curve[:, 2], color=style.colour, lw=1.3, label=shown)
        panel.set_xlabel(name)
        panel.set_title(TITLES[kind], loc="left")
        panel.set_xlim(left=0)
    axes[0].set_ylabel("return (mean reward per host and epoch)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save_figure(figure, path)
