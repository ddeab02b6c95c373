# SPDX-License-Identifier: BSD-3-Clause
"""Scenario families: networks and workloads of which some keys are drawn anew for each episode of training.

A policy that has met one network has learned that network; one that has met many must read from its observation what
it stands in (domain randomisation: Tobin et al., IROS 2017).
"""

import copy
import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, field

from ncc.core.errors import ConfigError
from ncc.core.keys import set_key
from ncc.core.scenario import MAX_EPOCHS, Scenario, scenario_from_dict
from ncc.core.seeding import generator
from ncc.core.value import Count, Name, Natural, Positive, Value, from_dict
from ncc.envs.observation import ObservationSpec, obs_dim
from ncc.envs.scales import scales_of
from ncc.envs.spec import EnvSpec

TRIED = 8
"""Episodes of each family that `check_families` draws beside the ends of each key."""
NOT_VARIED = {
    "name": "a drawn scenario is called after its family",
    "duration_s": "families.epochs says how many periods an episode has",
}


class Draw(Value, frozen=True, tag_field="kind"):
    """How a key is drawn."""

    def sample(self, rng: np.random.Generator) -> Any:
        """A value."""
        raise TypeError(f"{type(self).__name__} does not say how it is drawn")

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values that must fit if all are to: every one that is listed, both ends of a range."""
        raise TypeError(f"{type(self).__name__} does not say its ends")


class Choice(Draw, frozen=True, tag="choice"):
    """One of `values`, all alike in probability."""

    values: Annotated[tuple[Any, ...], Meta(min_length=1)]

    def sample(self, rng: np.random.Generator) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.values


class Range(Draw, frozen=True):
    """A number from `low` to `high`; a whole one, both included, if `whole`."""

    low: float
    high: float
    whole: bool = False

    def check(self) -> None:
        name = type(self).__name__
        if self.low > self.high:
            raise ConfigError(f"{name}.low must not exceed high ({self.high:g}), got {self.low:g}")
        for end in ("low", "high"):
            if self.whole and not float(getattr(self, end)).is_integer():
                raise ConfigError(f"{name}.{end} must be a whole number where `whole` is set, got {getattr(self, end)}")

    @property
    def ends(self) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(int(x) if self.whole else x for x in (self.low, self.high)))


class Uniform(Range, frozen=True, tag="uniform"):
    """All values alike in probability."""

    def sample(self, rng: np.random.Generator) -> Any:
        if self.whole:
            return int(rng.integers(int(self.low), int(self.high), endpoint=True))
        return float(rng.uniform(self.low, self.high))


class LogUniform(Range, frozen=True, tag="log_uniform"):
    """All magnitudes alike in probability: the logarithm is uniform."""

    def check(self) -> None:
        super().check()
        if self.low <= 0:
            raise ConfigError(f"LogUniform.low must be above 0, got {self.low:g}")

    def sample(self, rng: np.random.Generator) -> Any:
        if self.whole:  # k stands for [k, k + 1)
            drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high + 1)))
            return int(min(max(math.floor(drawn), self.low), self.high))
        return min(max(math.exp(rng.uniform(math.log(self.low), math.log(self.high))), self.low), self.high)


AnyDraw = Choice | Uniform | LogUniform


class Family(Value, frozen=True):
    """Scenarios that differ in some keys."""

    scenario: dict[str, Any]
    """Plain data, as `ncc.core.scenario.scenario_from_dict` takes it; its name and duration_s are not used."""
    varies: dict[str, AnyDraw] = field(default_factory=dict)
    """How a key below the scenario is drawn, by its dotted name: topology.hosts, workload.background.load_frac."""
    weight: Positive = 1.0
    """How often it is drawn, beside the others."""
    from_episode: Natural = 0
    """It joins the lottery in this episode of a slot: what is harder may come later."""

    def check(self) -> None:
        try:
            plain = self.plain()
        except ConfigError as error:
            raise ConfigError(f"Family.{error}") from None
        for key, draw in self.varies.items():
            if key in NOT_VARIED:
                raise ConfigError(f"Family.varies cannot have {key!r}: {NOT_VARIED[key]}")
            try:
                set_key(plain, key, draw.ends[0], new=False)
            except ConfigError as error:
                raise ConfigError(f"Family.varies: {error}") from None

    def plain(self) -> dict[str, Any]:
        """The scenario with every key that there is, its workload a mapping of named components."""
        plain = scenario_from_dict(self.scenario).to_dict()
        return {**plain, "workload": dict(plain["workload"])}


class Families(Value, frozen=True):
    """What episodes are drawn from. Each slot of an environment plays one scenario at a time.

    All episodes have as many epochs, and all slots as many hosts: a slot holds as many networks of its scenario, each
    with flows of its own, as make `hosts_per_slot`.
    """

    hosts_per_slot: Annotated[int, Meta(ge=1, le=4096)] = 64
    epochs: Annotated[int, Meta(ge=1, le=MAX_EPOCHS)] = 500
    """Length of every episode in epochs, whatever `Scenario.period_s` is drawn."""
    stuck_frac: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of the time, the start of an episode apart, in which a slot's hosts hold limits drawn at random, whatever
    they decide: so that learners meet what good decisions never lead to, a rack in which all hold back for instance,
    and the way out of it. What is decided meanwhile has no effect, which is noise to a learner's gradient and no
    bias."""
    stuck_epochs: Count = 100
    """How long each time."""
    of: dict[Name, Family] = field(default_factory=dict)
    """The families themselves; none: training takes place on one scenario."""

    def check(self) -> None:
        if self.of and all(family.from_episode > 0 for family in self.of.values()):
            raise ConfigError("Families.of needs a family with from_episode 0: an episode 0 is drawn, too")

    def draw(self, seed: int, slot: int, episode: int) -> Scenario:
        """The scenario of an episode, called after its family. Equal arguments give equal scenarios.

        Raises:
            ConfigError: what was drawn cannot be an episode, naming the family and its drawn keys; or no families.
        """
        name = self.pick(seed, slot, episode)
        return self._made(name, self._values(name, seed, slot, episode))

    def pick(self, seed: int, slot: int, episode: int) -> str:
        """The name of an episode's family."""
        # In the order of their names, so that only what the families are decides.
        weights = {name: self.of[name].weight for name in sorted(self.of) if self.of[name].from_episode <= episode}
        if not weights:
            raise ConfigError("families.of names no family to draw an episode from")
        mark = generator(seed, "families", "lottery", slot, episode).random() * sum(weights.values())
        for name, weight in weights.items():
            mark -= weight
            if mark < 0:
                return name
        return list(weights)[-1]  # where the weights do not add up exactly

    def tried(self, name: str) -> list[Scenario]:
        """Scenarios of a family that stand for all of them: some episodes, and one with each end of each key.

        Raises:
            ConfigError: one of them cannot be an episode, naming the family and its keys.
        """
        drawn = [self._values(name, 0, slot, self.of[name].from_episode) for slot in range(TRIED)]
        ends = [
            {key: end, **{other: value for other, value in drawn[0].items() if other != key}}
            for key, draw in self.of[name].varies.items()
            for end in draw.ends
        ]
        return [self._made(name, values) for values in (*ends, *drawn)]

    def _values(self, name: str, seed: int, slot: int, episode: int) -> dict[str, Any]:
        """Drawn keys; each has a stream of its own, so that another key changes none of them."""
        return {
            key: draw.sample(generator(seed, "families", name, key, slot, episode))
            for key, draw in self.of[name].varies.items()
        }

    def _made(self, name: str, values: Mapping[str, Any]) -> Scenario:
        plain = self.of[name].plain()
        try:
            for key, value in sorted(values.items()):  # what holds a key before the key
                set_key(plain, key, copy.deepcopy(value), new=False)
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


def check_families(families: Families, observation: ObservationSpec) -> int:
    """Try every family (`Families.tried`), and that hosts of all of them see equally many numbers.

    Returns:
        How many: obs_dim.

    Raises:
        ConfigError: names the family and the keys.
    """
    found: dict[int, str] = {}
    for name in families.of:
        for scenario in families.tried(name):
            found.setdefault(obs_dim(observation, scenario), f"family {name!r} with {scenario.n_agents} hosts")
    if not found:
        raise ConfigError("families.of names no family to draw an episode from")
    if len(found) > 1:
        told = ", ".join(f"{numbers} numbers in {where}" for numbers, where in found.items())
        raise ConfigError(
            f"a host observes {told}; one policy needs as many everywhere: set env.observation.neighbours to pooled, "
            "or let all networks have equally many hosts"
        )
    return next(iter(found))


def families_from(plain: Mapping[str, Any], where: str = "families") -> Families:
    """Families from plain data.

    Raises:
        ConfigError: names the field below `where` and what is allowed.
    """
    # One by one, so that an error names the family and the key.
    for name, family in _entries(plain.get("of")):
        for key, draw in _entries(family.get("varies")):
            from_dict(_Varied, {"by": draw}, f"{where}.of.{name}.varies.{key}")
        from_dict(Family, family, f"{where}.of.{name}")
    return from_dict(Families, plain, where)


def _entries(plain: Any) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(plain, Mapping):
        return []
    return [(str(name), entry) for name, entry in plain.items() if isinstance(entry, Mapping)]


class _Varied(Value, frozen=True):
    by: AnyDraw
