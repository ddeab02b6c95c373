# SPDX-License-Identifier: BSD-3-Clause
"""The trials of a sweep, checked before anything is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from ncc.agents.rllib.config import check_cluster
from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.value import Count, Natural, Value, from_dict
from ncc.results.training import check_training
from ncc.run.compose import reference_last
from ncc.run.plan import TrainPlan
from ncc.study.sweep.space import Point, Space, override, point_name, points, space_from
from ncc.study.trainings import key_of, leave_out, training_plan

ASHA = "asha"
OWN = ("out", "resume")
"""Keys that the sweep itself sets of each trial."""
RANKED = "trained"
"""The controller that ranks the trials by its return."""
SEED = "seed"
"""The key that means are taken over."""


class AshaSpec(Value, frozen=True):
    """Asynchronous successive halving (Li et al., MLSys 2020), by the share of its own epochs that a trial has done."""

    first_percent: Annotated[float, Meta(ge=1, le=99)]
    reduction: Annotated[float, Meta(gt=1, le=100)]


class SweepSpec(Value, frozen=True):
    """configs/sweep.yaml, the space apart."""

    train: tuple[str, ...]
    samples: Annotated[int, Meta(ge=1, le=100_000)] | None
    sample_seed: Natural
    concurrent: Count
    cpus: Count
    scheduler: str | None
    """`ASHA`, or None: no trial is ended early."""
    asha: AshaSpec
    address: str | None
    wheel: str | None
    out: Annotated[str, Meta(min_length=1)]

    def check(self) -> None:
        if self.scheduler not in (None, ASHA):
            raise UnknownNameError("scheduler", self.scheduler, (ASHA, "null"))
        check_cluster(self.address, self.wheel, "")


@dataclass(frozen=True)
class Trial:
    """One training."""

    name: str
    """The name of its folder."""
    point: Point
    overrides: tuple[str, ...]
    """Its command line, the folder apart."""
    plan: TrainPlan
    total_epochs: int

    @property
    def setting(self) -> Point:
        """The values that it tries, the seed apart."""
        return {key: value for key, value in self.point.items() if key != SEED}


@dataclass(frozen=True)
class Sweep:
    """All of it."""

    spec: SweepSpec
    space: Space
    trials: tuple[Trial, ...]
    datapath: str
    """The datapath on which returns are compared: the reference among those that trials are judged on."""

    def folder(self, trial: Trial) -> Path:
        """The folder in which a trial trains."""
        return Path(self.spec.out) / "trials" / trial.name

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], typed: Mapping[str, Any]) -> "Sweep":
        """Compose and check every trial.

        Args:
            plain: configs/sweep.yaml.
            typed: of `space`, by key with dots.

        Raises:
            ConfigError: names the key or the trial, and what is allowed.
        """
        rest = {key: value for key, value in plain.items() if key != "space"}
        spec: SweepSpec = from_dict(SweepSpec, rest, "configuration")
        if not isinstance(described := plain["space"] or {}, Mapping):
            raise ConfigError(f"space must be a mapping of keys to values, got {described!r}")
        space = space_from(described, typed)
        _check_keys(spec.train, space)
        trials = tuple(_trial(spec, point) for point in points(space, spec.samples, spec.sample_seed))
        plan = trials[0].plan
        for trial in trials:
            _require_comparable(trials[0], trial)
        if RANKED not in plan.evaluation.controllers:
            raise ConfigError(f"evaluation.controllers must have {RANKED}: its return ranks the trials")
        return cls(spec, space, trials, reference_last(plan.judged_on)[-1].name)


def _check_keys(train: Sequence[str], space: Space) -> None:
    common = set(map(key_of, train))
    leave_out((*common, *space), OWN, "each trial is set by the sweep")
    for key in space:
        if key in common:
            raise ConfigError(f"{key} is both in space and in train: leave one out")


def _require_comparable(first: Trial, other: Trial) -> None:
    """`ConfigError` unless a return means the same for both."""
    one, two = first.plan, other.plan
    same = {
        "scenario": one.scenario == two.scenario,
        "evaluation": one.evaluation == two.evaluation,
        "env.reward": one.env.reward == two.env.reward,
    }
    for part, equal in same.items():
        if not equal:
            raise ConfigError(
                f"trials {first.name} and {other.name} differ in {part}, so that their returns cannot be compared: "
                "take that out of space, and make a sweep for each"
            )


def _trial(spec: SweepSpec, point: Point) -> Trial:
    overrides = (*spec.train, *(override(key, value) for key, value in point.items()))
    name = point_name(point)
    try:
        plan = training_plan(overrides)
        learner, _ = check_training(plan)
    except ConfigError as error:
        raise ConfigError(f"trial {name}: {error}") from None
    except ValueError as error:  # Hydra's own, of a group that is given a number
        raise ConfigError(
            f"trial {name}: {str(error).rstrip('.')}; give a group names of its options, as in space.agent=[a2c, a3c]"
        ) from None
    return Trial(name, point, overrides, plan, learner.total_epochs)
