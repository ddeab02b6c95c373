# SPDX-License-Identifier: BSD-3-Clause
"""The trainings of a comparison, each in a process of its own, and what they say of themselves."""

import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ncc.core.errors import InvalidRunError
from ncc.harness.manifest import Manifest, is_sealed, read_manifest
from ncc.learning import read_learning
from ncc.plan import CONFIG
from ncc.study.learners.spec import LearnersSpec
from ncc.study.result import commits_of

Summary = dict[str, Any]
"""Plain data: the contents of results.json."""
STEPS, WALL = "epochs", "wall"
"""The two comparisons: at equal epochs, at equal wall time."""
UNTRAINED, TRAINED = "ncc_untrained", "ncc"
CURVE_POINTS = 60


@dataclass(frozen=True)
class Training:
    """One that is finished."""

    folder: Path
    seed: int

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of its folder."""
        return read_manifest(self.folder, "training")

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Its own log."""
        return read_learning(self.folder)

    def speed(self) -> tuple[float, float]:
        """Epochs per second once it learns, and seconds until then.

        Raises:
            InvalidRunError: it was too short to say.
        """
        if len(self.rows) < 3 or self.rows[-1]["epochs"] <= self.rows[0]["epochs"]:
            raise InvalidRunError(f"{self.folder} reported {len(self.rows)} times, too few for its speed; raise epochs")
        first, last = self.rows[0], self.rows[-1]
        rate = (last["epochs"] - first["epochs"]) / (last["wall_s"] - first["wall_s"])
        return rate, max(0.0, self.manifest.facts["trained_s"] - last["epochs"] / rate)

    def summary(self) -> Summary:
        """Its part of results.json."""
        (returns,) = self.manifest.facts["held_out_returns"].values()
        return {
            "seed": self.seed,
            "epochs": self.rows[-1]["epochs"],
            "trained_s": round(self.manifest.facts["trained_s"], 2),
            "returns": {name: [round(value, 5) for value in values] for name, values in returns.items()},
            "curve": self._curve(),
        }

    def _curve(self) -> list[list[float]]:
        """[epochs, wall_s, mean return] of consecutive stretches of the training."""
        told = [row for row in self.rows if row["returns"]]
        size = max(1, -(-len(told) // CURVE_POINTS))
        points = []
        for start in range(0, len(told), size):
            part = told[start : start + size]
            values = [value for row in part for value in row["returns"]]
            points.append([part[-1]["epochs"], part[-1]["wall_s"], round(sum(values) / len(values), 5)])
        return points


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
    both = {STEPS: steps, WALL: wall}
    made = [t.manifest.provenance for by in both.values() for trainings in by.values() for t in trainings]
    scenario = spec.plan(next(iter(spec.learners)), spec.first_seed, spec.epochs).scenario
    return {
        "command": command,
        "scenario": scenario.name,
        "hosts": scenario.n_agents,
        "epochs": spec.epochs,
        "wall_s": spec.wall_s,
        "overrides": {name: list(overrides) for name, overrides in spec.learners.items()},
        "commits": list(commits_of(made)),
        "processor": made[0]["processor"],
        "cpus": made[0]["cpus_usable"],
        "trainings": {
            kind: {name: [training.summary() for training in found] for name, found in by.items()}
            for kind, by in both.items()
        },
    }


def _epochs_in(wall_s: float, done: Iterable[Training]) -> int:
    """Epochs that take so long, by the median of what these took; a thousand at least."""
    speeds = [training.speed() for training in done]
    rate, start_s = (statistics.median(speed[i] for speed in speeds) for i in range(2))
    return 1000 * max(1, round(rate * (wall_s - start_s) / 1000))


def _train(spec: LearnersSpec, kind: str, name: str, seed: int, epochs: int) -> Training:
    folder = Path(spec.out) / f"{name}_{kind}_s{seed}"
    if (folder / CONFIG).exists():
        spec.plan(name, seed, epochs).require_same(folder)
        if is_sealed(folder):
            return Training(folder, seed)
        shutil.rmtree(folder)  # begun again: resumed, its clock would count two starts
    print(f"\n{name}, seed {seed}, {epochs} epochs:", flush=True)
    command = [sys.executable, "-m", "ncc.train", *spec.overrides(name, seed, epochs), f"out={folder}"]
    if status := subprocess.run(command, check=False).returncode:
        raise InvalidRunError(
            f"the training of {name} with seed {seed} ended with status {status}; what it said is above"
        )
    return Training(folder, seed)
