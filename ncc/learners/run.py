# SPDX-License-Identifier: BSD-3-Clause
"""The trainings of a comparison, each in a process of its own, and what they say of themselves."""

import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncc.core.errors import InvalidRunError
from ncc.experiment.result import commits_of
from ncc.harness.manifest import is_sealed, read_manifest
from ncc.learners.spec import LearnersSpec
from ncc.learning import read_learning
from ncc.plan import CONFIG

Summary = dict[str, Any]
"""Plain data: what results.json holds."""
STEPS, WALL = "epochs", "wall"
"""The two comparisons: at equal epochs, at equal wall time."""
UNTRAINED, TRAINED = "ncc_untrained", "ncc"
CURVE_POINTS = 60


@dataclass(frozen=True)
class Training:
    """One that is finished."""

    folder: Path
    seed: int

    @property
    def facts(self) -> dict[str, Any]:
        """Of its manifest."""
        facts: dict[str, Any] = read_manifest(self.folder, "training").facts
        return facts

    def speed(self) -> tuple[float, float]:
        """(epochs per second once it learns, seconds until then), by its own log.

        Raises:
            InvalidRunError: it was too short to say.
        """
        rows = read_learning(self.folder)
        if len(rows) < 3 or rows[-1]["epochs"] <= rows[0]["epochs"]:
            raise InvalidRunError(f"{self.folder} reported {len(rows)} times, too few for its speed; raise epochs")
        first, last = rows[0], rows[-1]
        rate = (last["epochs"] - first["epochs"]) / (last["wall_s"] - first["wall_s"])
        return rate, max(0.0, self.facts["trained_s"] - last["epochs"] / rate)

    def summary(self) -> Summary:
        """What results.json says of it."""
        facts, rows = self.facts, read_learning(self.folder)
        (returns,) = facts["held_out_returns"].values()
        return {
            "seed": self.seed,
            "epochs": rows[-1]["epochs"],
            "trained_s": round(facts["trained_s"], 2),
            "returns": {name: [round(value, 5) for value in values] for name, values in returns.items()},
            "curve": _curve(rows),
        }


def run_learners(spec: LearnersSpec, command: str) -> Summary:
    """Train what `spec.out` does not hold yet, one training at a time.

    Raises:
        ConfigError: the folder holds a training of another configuration.
        InvalidRunError: a training failed; its own message is above.
    """
    seeds = range(spec.first_seed, spec.first_seed + spec.seeds)
    steps = {name: [_train(spec, STEPS, name, seed, spec.epochs) for seed in seeds] for name in spec.learners}
    wall = {}
    for name, done in steps.items():
        epochs = _epochs_in(spec.wall_s, done)
        wall[name] = [_train(spec, WALL, name, seed, epochs) for seed in seeds]
    trainings = {
        kind: {name: [training.summary() for training in found] for name, found in by.items()}
        for kind, by in ((STEPS, steps), (WALL, wall))
    }
    made = [read_manifest(t.folder, "training").provenance for by in (steps, wall) for ts in by.values() for t in ts]
    return {
        "command": command,
        "scenario": spec.plan(next(iter(spec.learners))).scenario.name,
        "hosts": spec.plan(next(iter(spec.learners))).scenario.n_agents,
        "epochs": spec.epochs,
        "wall_s": spec.wall_s,
        "overrides": {name: list(spec.learners[name]) for name in spec.learners},
        "commits": list(commits_of(made)),
        "processor": made[0]["processor"],
        "cpus": made[0]["cpus_usable"],
        "trainings": trainings,
    }


def _epochs_in(wall_s: float, done: Iterable[Training]) -> int:
    """Epochs that take so long, by the median of what these took; a thousand at least."""
    speeds = [training.speed() for training in done]
    rate, start_s = (statistics.median(speed[i] for speed in speeds) for i in range(2))
    return 1000 * max(1, round(rate * (wall_s - start_s) / 1000))


def _train(spec: LearnersSpec, kind: str, name: str, seed: int, epochs: int) -> Training:
    folder = Path(spec.out) / f"{name}_{kind}_s{seed}"
    overrides = spec.overrides(name, seed, epochs)
    if (folder / CONFIG).exists():
        spec.plan(name, seed, epochs).require_same(folder)
        if is_sealed(folder):
            return Training(folder, seed)
        shutil.rmtree(folder)  # begun again: resumed, its clock would count two starts
    print(f"\n{name}, seed {seed}, {epochs} epochs:", flush=True)
    done = subprocess.run([sys.executable, "-m", "ncc.train", *overrides, f"out={folder}"], check=False)
    if done.returncode:
        raise InvalidRunError(
            f"the training of {name} with seed {seed} ended with status {done.returncode}; what it said is above"
        )
    return Training(folder, seed)


def _curve(rows: list[dict[str, Any]]) -> list[list[float]]:
    """[epochs, wall_s, mean return] of consecutive stretches of the training."""
    told = [row for row in rows if row["returns"]]
    size = max(1, -(-len(told) // CURVE_POINTS))
    points = []
    for start in range(0, len(told), size):
        part = told[start : start + size]
        values = [value for row in part for value in row["returns"]]
        points.append([part[-1]["epochs"], part[-1]["wall_s"], round(sum(values) / len(values), 5)])
    return points
