# SPDX-License-Identifier: BSD-3-Clause
"""The configuration of a sweep, which is checked before anything is trained."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import optuna
from msgspec import Meta
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.value import Count, Natural, Value, from_dict
from ncc.results.training import check_training
from ncc.run.compose import reference_last
from ncc.run.plan import TrainPlan, training_plan
from ncc.study.sweep.space import flat, written

OWN = ("out", "resume")
"""Keys that the sweep sets for each trial, so that the user may not set them."""
RANKED = "trained"
"""Controller whose mean return ranks the trials: the trained policy."""
_HOW = "write a list of values, such as [1, 2], or a range, such as {low: 0.1, high: 1, log: true}"


class SweepSpec(Value, frozen=True):
    """The contents of configs/sweep.yaml without the space."""

    train: tuple[str, ...]
    """Overrides of `ncc train` for every trial."""
    n_trials: Count | None
    """Number of trials; None: one for every combination of the lists in the space."""
    sampler: str | dict[str, Any]
    """Name of a class of `optuna.samplers`, or a mapping with the key `name` and arguments of the class."""
    sampler_seed: Natural
    """Seed of the sampler's first draws."""
    pruner: str | dict[str, Any]
    """Name of a class of `optuna.pruners`, or a mapping with the key `name` and arguments of the class."""
    concurrent: Count
    """Number of trials at a time."""
    out: Annotated[str, Meta(min_length=1)]
    """Folder of trials, logs and the study."""

    def check(self) -> None:
        self.made_sampler(0)
        self.made_pruner()

    def made_sampler(self, n_before: int) -> optuna.samplers.BaseSampler:
        """Make the sampler. Its seed depends on the number of trials before, so that it does not repeat its draws."""
        sampler: optuna.samplers.BaseSampler = _made("sampler", self.sampler, seed=self.sampler_seed + n_before)
        return sampler

    def made_pruner(self) -> optuna.pruners.BasePruner:
        """Make the pruner."""
        pruner: optuna.pruners.BasePruner = _made("pruner", self.pruner)
        return pruner


@dataclass(frozen=True)
class Sweep:
    """A sweep whose configuration was checked."""

    spec: SweepSpec
    space: dict[str, BaseDistribution]
    """Distribution of the values of each key of `ncc train`. Values of a list are texts in Hydra's grammar."""
    datapath: str
    """Datapath on which returns are compared: the reference among those on which policies are evaluated."""

    @property
    def n_trials(self) -> int:
        """Number of trials in all."""
        return self.spec.n_trials or math.prod(len(choices) for choices in self._lists().values())

    def grid(self) -> list[dict[str, Any]]:
        """List every combination of the lists' values; empty if `n_trials` is set, because values are then drawn."""
        if self.spec.n_trials is not None:
            return []
        return [dict(zip(self.space, values, strict=True)) for values in product(*self._lists().values())]

    def _lists(self) -> dict[str, tuple[Any, ...]]:
        return {k: entry.choices for k, entry in self.space.items() if isinstance(entry, CategoricalDistribution)}

    def overrides(self, point: Mapping[str, Any]) -> tuple[str, ...]:
        """Overrides on the command line of a trial, without its folder.

        Args:
            point: values of the keys in the space.
        """
        return (*self.spec.train, *(f"{key}={value}" for key, value in point.items()))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], typed: Mapping[str, Any]) -> "Sweep":
        """Check the configuration, and compose a training with every value of each list and both ends of each range.

        Args:
            plain: contents of configs/sweep.yaml.
            typed: entries of `space` from the command line, by key with dots.

        Raises:
            ConfigError: something is invalid; the message names the key, and what is allowed.
        """
        rest = {key: value for key, value in plain.items() if key != "space"}
        spec: SweepSpec = from_dict(SweepSpec, rest, "configuration")
        if not isinstance(described := plain["space"] or {}, Mapping):
            raise ConfigError(f"space must be a mapping of keys to values, got {described!r}")
        space = space_from(described, typed)
        common = {override.partition("=")[0].lstrip("+~") for override in spec.train}
        if own := [key for key in OWN if key in common | space.keys()]:
            raise ConfigError(f"{own[0]} of each trial is set by the sweep: leave it out")
        for key, entry in space.items():
            if key in common:
                raise ConfigError(f"{key} is both in space and in train: leave one out")
            if spec.n_trials is None and not isinstance(entry, CategoricalDistribution):
                raise ConfigError(f"space.{key} is a range: say how often to draw from it, n_trials=<number>")
        first = {key: _values(entry)[0] for key, entry in space.items()}
        sweep = cls(spec, space, "")
        plan, _ = sweep.plan(first)
        for key, entry in space.items():
            for value in _values(entry)[1:]:
                _require_comparable(plan, sweep.plan({**first, key: value})[0], key)
        if RANKED not in plan.evaluation.controllers:
            raise ConfigError(f"evaluation.controllers must have {RANKED}: its return ranks the trials")
        return cls(spec, space, reference_last(plan.judged_on)[-1].name)

    def plan(self, point: Mapping[str, Any]) -> tuple[TrainPlan, int]:
        """Make the plan of the training at a point, and compute its number of periods.

        Raises:
            ConfigError: the settings are impossible.
        """
        at = " ".join(f"{key}={value}" for key, value in point.items())
        try:
            plan = training_plan(self.overrides(point))
            return plan, check_training(plan)[0].total_epochs
        except ConfigError as error:
            raise ConfigError(f"at {at}: {error}") from None
        except ValueError as error:  # Hydra raises it if a group is given a number
            raise ConfigError(
                f"at {at}: {str(error).rstrip('.')}; give a group names of its options, as in space.agent=[a2c, a3c]"
            ) from None


def space_from(plain: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, BaseDistribution]:
    """Make the distributions of all keys from the space in a YAML and on the command line.

    Args:
        plain: entries of the YAML, nested or by key with dots.
        typed: entries of the command line, by key with dots; they override `plain`.

    Raises:
        ConfigError: there are no entries, or one has neither a list of different values nor a range.
    """
    entries = {**flat(plain), **typed}
    if not entries:
        raise ConfigError("space is empty: say what is to be tried, for instance 'space.seed=[1, 2, 3]'")
    if "" in entries:
        raise ConfigError("space has an entry without a key: write space.<key>=[a, b], with a key of ncc train")
    return {key: _distribution(key, value) for key, value in entries.items()}


def _distribution(key: str, value: Any) -> BaseDistribution:
    if isinstance(value, Mapping) and value:
        whole = all(isinstance(value.get(end), int) for end in ("low", "high"))
        try:
            return IntDistribution(**value) if whole else FloatDistribution(**value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"space.{key} is {value!r}, which is no range of Optuna's ({error}): {_HOW}") from None
    if not isinstance(value, list) or not value:
        raise ConfigError(f"space.{key} is {value!r}: {_HOW}")
    texts = [written(element) for element in value]
    if twice := next((text for text in texts if texts.count(text) > 1), None):
        raise ConfigError(f"space.{key} has {twice} twice: leave one out")
    return CategoricalDistribution(texts)


def _values(entry: BaseDistribution) -> tuple[Any, ...]:
    """Return all values of a list, or the two ends of a range."""
    if isinstance(entry, CategoricalDistribution):
        return entry.choices
    assert isinstance(entry, IntDistribution | FloatDistribution), "made by _distribution"
    return entry.low, entry.high


def _require_comparable(first: TrainPlan, other: TrainPlan, key: str) -> None:
    """Raise `ConfigError`, which names `key`, unless the returns of both trainings can be compared."""
    same = {
        "scenario": first.scenario == other.scenario,
        "evaluation": first.evaluation == other.evaluation,
        "env.reward": first.env.reward == other.env.reward,
    }
    for part, equal in same.items():
        if not equal:
            raise ConfigError(
                f"trials would differ in {part} by space.{key}, so that their returns cannot be compared: "
                "take that out of space, and make a sweep for each"
            )


def _made(what: str, asked: str | Mapping[str, Any], **more: Any) -> Any:
    """Make an object of a class of `optuna.samplers` or `optuna.pruners`.

    Args:
        what: `sampler` or `pruner`.
        asked: name of the class, or a mapping with `name` and arguments.
        more: further arguments.
    """
    module: Any = getattr(optuna, f"{what}s")
    arguments = {"name": asked} if isinstance(asked, str) else dict(asked)
    known = [name for name in module.__all__ if name.endswith(what.capitalize()) and not name.startswith("Base")]
    if (name := str(arguments.pop("name", ""))) not in known:
        raise UnknownNameError(what, name, known)
    try:
        return getattr(module, name)(**arguments, **more)
    except (ImportError, TypeError, ValueError) as error:
        raise ConfigError(f"{what}={name} cannot be made ({error}): see optuna.{what}s.{name}") from None
