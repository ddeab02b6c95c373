# SPDX-License-Identifier: BSD-3-Clause
"""Scenario families: scenarios with some keys drawn anew for each episode of training.

A policy that is trained on a single scenario fits that one only. A policy that is trained on many must infer the
network from its observation (domain randomisation: Tobin et al., IROS 2017).
"""

import copy
import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, field

from ncc.core.errors import ConfigError
from ncc.core.keys import get_key, set_key
from ncc.core.scenario import MAX_EPOCHS, Scenario, scenario_from_dict
from ncc.core.seeding import generator
from ncc.core.value import Name, Positive, Value, from_dict
from ncc.envs.observation import ObservationSpec, obs_dim
from ncc.envs.ranges import TrainedRanges, TrustedRanges, trained_ranges
from ncc.envs.scales import scales_of
from ncc.envs.spec import EnvSpec

TRIED = 8
"""Number of episodes of each family that `check_families` draws, in addition to the ends of each key."""
NOT_VARIED = {
    "name": "a drawn scenario is called after its family",
    "duration_s": "families.epochs says how many periods an episode has",
}


class Choice(Value, frozen=True, tag_field="kind", tag="choice"):
    """One of `values`, all equally likely."""

    values: Annotated[tuple[Any, ...], Meta(min_length=1)]

    def sample(self, rng: np.random.Generator) -> Any:
        """Draw a value."""
        return self.values[int(rng.integers(len(self.values)))]

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values to check: all of them, so that no draw can fail later."""
        return self.values


class Range(Value, frozen=True, tag_field="kind"):
    """A number from `low` to `high`; if `whole`, a whole number with both ends included."""

    low: float
    high: float
    whole: bool = False
    by: dict[Name, float] = field(default_factory=dict)
    """Exponents by key of the scenario: the drawn number is multiplied by the key's value to that power. Exponents of 1
    for a link's rate and for the period, for example, draw a buffer as a multiple of rate times period."""

    def check(self) -> None:
        name = type(self).__name__
        if self.low > self.high:
            raise ConfigError(f"{name}.low must not exceed high ({self.high:g}), got {self.low:g}")
        for end in ("low", "high"):
            if self._draws_whole and not float(getattr(self, end)).is_integer():
                raise ConfigError(f"{name}.{end} must be a whole number where `whole` is set, got {getattr(self, end)}")

    @property
    def _draws_whole(self) -> bool:
        """True if a whole number is drawn. With `by`, the product is rounded instead."""
        return self.whole and not self.by

    @property
    def ends(self) -> tuple[Any, ...]:
        """Both ends of the range."""
        return tuple(dict.fromkeys(int(x) if self._draws_whole else x for x in (self.low, self.high)))


class Uniform(Range, frozen=True, tag="uniform"):
    """A number from a range, all values equally likely."""

    def sample(self, rng: np.random.Generator) -> Any:
        """Draw a number."""
        if self._draws_whole:
            return int(rng.integers(int(self.low), int(self.high), endpoint=True))
        return float(rng.uniform(self.low, self.high))


class LogUniform(Range, frozen=True, tag="log_uniform"):
    """A number from a range whose logarithm is uniform: all magnitudes are equally likely."""

    def check(self) -> None:
        super().check()
        if self.low <= 0:
            raise ConfigError(f"LogUniform.low must be above 0, got {self.low:g}")

    def sample(self, rng: np.random.Generator) -> Any:
        """Draw a number."""
        if self._draws_whole:  # k stands for [k, k + 1)
            drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high + 1)))
            return int(min(max(math.floor(drawn), self.low), self.high))
        return min(max(math.exp(rng.uniform(math.log(self.low), math.log(self.high))), self.low), self.high)


AnyDraw = Choice | Uniform | LogUniform


class Family(Value, frozen=True):
    """A scenario, and the keys of it that are drawn anew for each episode."""

    scenario: dict[str, Any]
    """Scenario as plain data for `ncc.core.scenario.scenario_from_dict`; its name and duration_s are not used."""
    varies: dict[str, AnyDraw] = field(default_factory=dict)
    """Distributions of keys of the scenario, by dotted name: topology.hosts, workload.background.load_frac. Keys that
    depend on others (`Range.by`) are set last, in the order in which they are listed."""
    weight: Positive = 1.0
    """Relative frequency with which the family is drawn."""

    def check(self) -> None:
        try:
            plain = self.plain()
        except ConfigError as error:
            raise ConfigError(f"Family.{error}") from None
        for key, draw in self.varies.items():
            if key in NOT_VARIED:
                raise ConfigError(f"Family.varies cannot have {key!r}: {NOT_VARIED[key]}")
            try:
                for other in draw.by if isinstance(draw, Range) else ():
                    get_key(plain, other)
                set_key(plain, key, draw.ends[0], new=False)
            except ConfigError as error:
                raise ConfigError(f"Family.varies: {error}") from None

    def plain(self) -> dict[str, Any]:
        """Return the scenario with all its keys, its workload as a mapping of named components."""
        plain = scenario_from_dict(self.scenario).to_dict()
        return {**plain, "workload": dict(plain["workload"])}


class Families(Value, frozen=True):
    """Families of scenarios, from which each episode of training draws its own scenario.

    An environment has several slots, each of which plays one scenario at a time. All slots have `hosts_per_slot` hosts:
    if a scenario has fewer, its slot runs several networks of it, each with flows of its own. All episodes have the
    same number of periods.
    """

    hosts_per_slot: Annotated[int, Meta(ge=1, le=4096)] = 64
    epochs: Annotated[int, Meta(ge=1, le=MAX_EPOCHS)] = 500
    """Periods of every episode in which flows arrive, whatever its `Scenario.period_s`."""
    drain_epochs: Annotated[int, Meta(ge=0, le=MAX_EPOCHS)] = 0
    """Periods after `epochs`, without new flows, so that flows that hosts have postponed cost reward too."""
    of: dict[Name, Family] = field(default_factory=dict)
    """The families by name; empty: training uses one scenario."""

    def draw(self, seed: int, slot: int, episode: int) -> Scenario:
        """Draw the scenario of an episode; its name is that of its family. Equal arguments give equal scenarios.

        Raises:
            ConfigError: there are no families, or the drawn scenario cannot be an episode; the message then names the
                family and the drawn keys.
        """
        name = self.pick(seed, slot, episode)
        return self._made(name, self._values(name, seed, slot, episode))

    def pick(self, seed: int, slot: int, episode: int) -> str:
        """Draw the name of an episode's family."""
        # Sorted by name, so that the order in the configuration does not matter.
        weights = {name: self.of[name].weight for name in sorted(self.of)}
        if not weights:
            raise ConfigError("families.of names no family to draw an episode from")
        mark = generator(seed, "families", "lottery", slot, episode).random() * sum(weights.values())
        for name, weight in weights.items():
            mark -= weight
            if mark < 0:
                return name
        return list(weights)[-1]  # reached only by rounding

    def tried(self, name: str) -> list[Scenario]:
        """Return scenarios that represent a family: `TRIED` drawn ones, and one for each end of each key's range.

        Raises:
            ConfigError: one of them cannot be an episode; the message names the family and its keys.
        """
        drawn = [self._values(name, 0, slot, 0) for slot in range(TRIED)]
        ends = [
            {key: end, **{other: value for other, value in drawn[0].items() if other != key}}
            for key, draw in self.of[name].varies.items()
            for end in draw.ends
        ]
        return [self._made(name, values) for values in (*ends, *drawn)]

    def _values(self, name: str, seed: int, slot: int, episode: int) -> dict[str, Any]:
        """Draw the keys; each has its own random stream, so that a new key does not change the others."""
        return {
            key: draw.sample(generator(seed, "families", name, key, slot, episode))
            for key, draw in self.of[name].varies.items()
        }

    def _made(self, name: str, values: Mapping[str, Any]) -> Scenario:
        plain = self.of[name].plain()
        try:
            for key, value in sorted(values.items()):  # parents of a key before the key
                set_key(plain, key, copy.deepcopy(value), new=False)
            for key, draw in self.of[name].varies.items():
                if isinstance(draw, Range) and draw.by:
                    factor = math.prod(get_key(plain, other) ** power for other, power in draw.by.items())
                    product = get_key(plain, key) * factor
                    set_key(plain, key, round(product) if draw.whole else product, new=False)
            plain |= {"name": name, "duration_s": self.epochs * plain["period_s"]}
            scenario = scenario_from_dict(plain)
            if EnvSpec(scenario=scenario).finite:
                raise ConfigError(
                    "scenario.workload is a finite list of flows, whose delivery would end one network before the "
                    "others of its slot; it needs random arrivals"
                )
            hosts = scales_of(scenario).n_agents
            if self.hosts_per_slot % hosts:
                raise ConfigError(
                    f"networks of {hosts} hosts do not fill a slot of families.hosts_per_slot = {self.hosts_per_slot}; "
                    "choose a number of hosts that divides it"
                )
        except ConfigError as error:
            drawn = ", ".join(f"{key} {value!r}" for key, value in values.items())
            raise ConfigError(f"family {name!r}{f' with {drawn}' if drawn else ''}: {error}") from None
        return scenario


def check_families(families: Families, observation: ObservationSpec, within: TrustedRanges | None = None) -> int:
    """Check every family (`Families.tried`), and that a host's observation is equally long in all of them.

    Args:
        families: the families.
        observation: the observation of hosts.
        within: ranges in which a policy is trusted (`ActionSpec.within`); all families must lie inside.

    Returns:
        The length of a host's observation, obs_dim.

    Raises:
        ConfigError: a family cannot be used; the message names the family and the keys.
    """
    sizes: dict[int, str] = {}
    for name in families.of:
        for scenario in families.tried(name):
            if within is not None and (outside := within.outside(scenario)):
                raise ConfigError(
                    f"family {name!r} draws networks outside action.within, where the policy would not decide: "
                    f"{'; '.join(outside)}; widen action.within or narrow families.of.{name}.varies"
                )
            sizes.setdefault(obs_dim(observation, scenario), f"family {name!r} with {scenario.n_agents} hosts")
    if not sizes:
        raise ConfigError("families.of names no family to draw an episode from")
    if len(sizes) > 1:
        listed = ", ".join(f"{numbers} numbers in {where}" for numbers, where in sizes.items())
        raise ConfigError(
            f"a host observes {listed}; one policy needs as many everywhere: set env.observation.neighbours to pooled, "
            "or let all networks have equally many hosts"
        )
    return next(iter(sizes))


def families_from(plain: Mapping[str, Any]) -> Families:
    """Make families from plain data.

    Raises:
        ConfigError: a field is wrong; the message names it, and what is allowed.
    """
    # Converted one by one, so that an error names the family and the key.
    of = plain.get("of")
    for name, family in of.items() if isinstance(of, Mapping) else ():
        varies = family.get("varies") if isinstance(family, Mapping) else None
        for key, draw in varies.items() if isinstance(varies, Mapping) else ():
            from_dict(_ANY_DRAW, draw, f"families.of.{name}.varies.{key}")
        from_dict(Family, family, f"families.of.{name}")
    return from_dict(Families, plain, "families")


_ANY_DRAW: Any = AnyDraw


def ranges_of_training(scenario: Scenario, families: Families) -> TrainedRanges:
    """Return the ranges of networks that a training meets: those of its families (`Families.tried`), or of `scenario`.

    `scenario` counts only if there are no families.
    """
    tried = [each for name in families.of for each in families.tried(name)]
    return trained_ranges(tried or [scenario])
