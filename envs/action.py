# SPDX-License-Identifier: BSD-3-Clause
"""Decision of a host in each period: one of d+1 sending rates (wang2021 eq. 5.15), or a number in [-1, 1]."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.value import Positive, Value
from ncc.envs.observation import ObservationSpec, fair_share_at, guard_at
from ncc.envs.observation.observer import extension
from ncc.envs.ranges import TrustedRanges
from ncc.envs.residual import formula_columns, formula_numbers
from ncc.envs.scales import scales_of
from ncc.harness.batch import ActionArray, ObsArray

FEW = 64
"""Largest number of action indices whose range Python checks faster than numpy."""
GUARD_FRAC = 0.9
"""A host may always use this fraction of the capacity that its neighbours leave it, so that no policy can starve it.
The fraction is below 1 because limits that add up to more than the port's rate build a queue."""
NO_LIMIT_FROM = 0.95
"""Fraction of the range of continuous actions from which on they mean no limit. If only the largest number meant it, a
policy would hardly ever choose it."""

SHARES = (0.1, 0.25, 0.5, 0.7, 0.85, 0.97, 1.1, 1.3, 1.6, 2.0, 2.6, 3.5, 5.0)
"""Default multiples of a fair share, densest around 1, where a few percent decide whether a queue grows."""


class ActionSpec(Value, frozen=True):
    """The rates that a host can choose.

    `kind` ``levels``: index k in 0..d (d = `levels`) means k/d of the host's link rate, except at the ends. The top
    means *no limit*: a limiter at line rate would still hold back a burst, and idle hosts must be able to send a new
    small flow at once. Index 0 means `min_rate_frac`, not silence: the limiter delays ACKs too, and a stopped host
    could not even acknowledge the data that it receives.

    `kind` ``shares``: index k means `shares[k]` times the host's observed fair share; the top means no limit. The fair
    share is the uplink's rate divided among the host and its busy neighbours (`ncc.envs.observation`), or among all
    hosts if neighbours are not observed. These rates mean the same for any number of hosts and any link. No limit is
    below `min_rate_frac` of the link. With ranked neighbours a guard protects each host that had flows queued when its
    neighbours sent their last messages. Whatever index it chooses, its limit is at least `GUARD_FRAC` of its "share
    among alike" (`ncc.envs.observation`), and all of that share if no neighbour had any flows. A host in the first
    period of a burst is not protected: it may hold back.

    `kind` ``linear`` and ``log``: a number a in [-1, 1]. With u = (a + 1) / 2, v = u / 0.95 and m = `min_rate_frac`,
    the limit is m + v (1 - m) of the link rate for ``linear`` and m ** (1 - v) for ``log``; v >= 1 means no limit.

    `kind` ``residual``: a number a in [-1, 1] multiplies the limit of `formula` by exp(`scale` a), so that 0 is the
    formula itself. Where the formula sets no limit, as for an idle host, it counts as the link rate. No action lowers
    the limit below `min_rate_frac` of the link. In networks outside `within` the formula ``local`` decides alone;
    elsewhere a guard restricts the actions (`ncc.envs.residual`).
    """

    kind: Literal["levels", "shares", "linear", "log", "residual"] = "levels"
    """Form of an action."""
    levels: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Number of rates of ``levels``, besides the smallest."""
    min_rate_frac: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    """Smallest limit, as a fraction of the link's rate."""
    shares: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=1000)] = SHARES
    """Multiples of the fair share, for ``shares``, rising."""
    formula: Literal["local", "local_hold", "local_tuned"] | None = None
    """Formula that a ``residual`` multiplies."""
    scale: Annotated[float, Meta(gt=0, le=10)] = 3.0
    """Logarithm of the largest factor of a ``residual``."""
    within: TrustedRanges | None = None
    """Networks in which a ``residual`` decides; null: all."""

    def check(self) -> None:
        if self.kind == "levels" and self.min_rate_frac >= 1 / self.levels:
            raise ConfigError(
                f"ActionSpec.min_rate_frac must be below the first level, 1/levels = {1 / self.levels:.4g}, "
                f"got {self.min_rate_frac}"
            )

        if (self.kind == "residual") != (self.formula is not None):
            raise ConfigError(
                "a residual multiplies the limit of a formula: set both action.kind to residual and action.formula to "
                f"local, local_hold or local_tuned, or the formula to null; got {self.kind!r} and {self.formula!r}"
            )
        if self.within is not None and self.kind != "residual":
            raise ConfigError(f"ActionSpec.within is of kind 'residual', which has a formula, got {self.kind!r}")
        if list(self.shares) != sorted(set(self.shares)):
            raise ConfigError(f"ActionSpec.shares must rise, got {list(self.shares)}")

    @property
    def n_actions(self) -> int:
        """Number of action indices; 0 for continuous actions."""
        several = {"levels": self.levels, "shares": len(self.shares)}
        return several[self.kind] + 1 if self.kind in several else 0

    @property
    def multiples(self) -> tuple[float, ...]:
        """Rate of each action index, in link rates (levels) or fair shares (shares); the last is inf, no limit."""
        if self.kind == "shares":
            return (*self.shares, np.inf)
        return (self.min_rate_frac, *(k / self.levels for k in range(1, self.levels)), np.inf)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a policy's network: a logit per action index, or one number."""
        return self.n_actions or 1


class _Rates:
    """Base of the maps from actions to rate limits. rates.h computes them alike for training, evaluation and hosts."""

    spec: ActionSpec
    parameters: dict[str, Any]
    """Numbers that rates.h reads, by name; known after `reset`."""
    _names: tuple[str, ...]
    _rates: Any  # made when it is first needed: until then this object can be pickled

    def _take(self, names: tuple[str, ...], link_bps: FloatArray, numbers: Mapping[str, Any]) -> None:
        """Set the hosts, the rates [n_agents] of their links, and the numbers that rates.h needs."""
        self._names, self._first, self._rates = names, 0, None
        self.parameters = {"link_bps": link_bps, **numbers}

    def among(self, begin: int, end: int) -> None:
        """Take actions and return limits for hosts `begin` to `end` - 1 only, from now on."""
        self._names, self._first = self._names[begin:end], begin

    def rates_bps(self, actions: npt.ArrayLike, obs: ObsArray, first: int = 0) -> FloatArray:
        """Return limits in bits/s for actions [..., n_agents] on observations [..., n_agents, obs_dim].

        A limit of inf means no limit.

        Args:
            actions: indices or, for continuous actions, real numbers, which are clipped to [-1, 1].
            obs: the observations that the actions were chosen on, with a leading axis if there are several racks.
            first: number of the first of several racks, for errors.

        Raises:
            ConfigError: actions of a wrong shape, kind or range; the message names the host and its rack.
        """
        given, names = np.asarray(actions), self._names
        if given.shape != obs.shape[:-1]:
            raise ConfigError(
                f"actions must have shape {obs.shape[:-1]}, one per host {names[0]}..{names[-1]}, got {given.shape}"
            )

        def place(at: tuple[int, ...]) -> str:
            return f"{f'rack {first + at[0]}: ' if len(at) > 1 else ''}action of host {names[at[-1]]}"

        check_actions(given, self.spec.n_actions, place)
        return self._limits(given if self.spec.n_actions else np.clip(given, -1, 1), obs)

    def _limits(self, given: npt.NDArray[Any], obs: ObsArray) -> FloatArray:
        self._rates = self._rates or extension().Rates(self.parameters)
        limits: FloatArray = np.empty(given.shape)
        self._rates.limits(given.astype(np.float64, copy=False), obs, limits, self._first)
        return limits


class RateTable(_Rates):
    """A map from action indices to rate limits.

    Args:
        spec: the rates.
        observation: spec of the observations; rates may be shares of an observed value.

    Raises:
        ConfigError: the spec is continuous.
    """

    def __init__(self, spec: ActionSpec, observation: ObservationSpec) -> None:
        if spec.kind not in ("levels", "shares"):
            raise ConfigError(f"ActionSpec.kind is {spec.kind!r}; action indices need 'levels' or 'shares'")
        self.spec, self._multiples = spec, np.array(spec.multiples)
        shares = spec.kind == "shares"
        fair = fair_share_at(observation) if shares else None
        self._seen = () if fair is None else (fair, *(guard_at(observation) or ()))
        self._floor_frac = spec.min_rate_frac if shares else 0.0
        self._guard_frac = GUARD_FRAC if shares and guard_at(observation) is not None else 0.0

    def reset(self, scenario: Scenario) -> None:
        """Compute the table for the hosts of a scenario."""
        scales = scales_of(scenario)
        self._unit_bps = self._link_bps = scales.link_rate_bps
        if self.spec.kind == "shares":
            share_bps = scales.fair_share_bps
            self._unit_bps = np.minimum(share_bps, self._link_bps)
        log = np.log(self._multiples[:-1])
        self._middle = log[:-1] / 2 + log[1:] / 2
        self._take(scales.names, scales.link_rate_bps, self._numbers(self._unit_bps))

    def over_link(self, obs: ObsArray) -> FloatArray:
        """Return the rate of every action as a fraction of the link's rate, [..., n_actions]; no scenario is needed.

        `obs` [..., obs_dim] are the observations of any host. With `shares` they must contain the fair share. Call
        `reset` before `rates_bps` is used again.
        """
        self._take(("any",), np.ones(1), self._numbers(np.ones(1)))
        seen, actions = obs[..., None, :], range(self.spec.n_actions)
        return np.stack([self._limits(np.full(seen.shape[:-1], action), seen)[..., 0] for action in actions], axis=-1)

    def _numbers(self, unit_bps: FloatArray) -> dict[str, Any]:
        return {
            "kind": "table",
            "multiples": self._multiples,
            "unit_bps": unit_bps,
            "floor_frac": self._floor_frac,
            "guard_frac": self._guard_frac,
            "seen": self._seen,
        }

    def nearest(self, limits_bps: FloatArray, obs: ObsArray) -> ActionArray:
        """Return the indices [..., n_agents] of the rates nearest, by ratio, to limits in bits/s; inf: the top one."""
        unit_bps = obs[..., self._seen[0]] * self._link_bps if self._seen else self._unit_bps
        with np.errstate(divide="ignore"):
            log = np.log(limits_bps / unit_bps)
        nearest: ActionArray = np.searchsorted(self._middle, log).astype(np.int64)
        nearest[np.isinf(limits_bps)] = self.spec.n_actions - 1
        return nearest


class RateScale(_Rates):
    """A map from numbers in [-1, 1] to rate limits.

    Args:
        spec: the rates.
        observation: spec of the observations; a residual's formula is computed from observed numbers.

    Raises:
        ConfigError: an input of a residual's formula is not observed.
    """

    def __init__(self, spec: ActionSpec, observation: ObservationSpec) -> None:
        self.spec, self._seen = spec, formula_columns(observation) if spec.kind == "residual" else ()

    def reset(self, scenario: Scenario) -> None:
        """Prepare for the hosts of a scenario.

        Raises:
            ConfigError: messages may get lost there, and a residual does not observe their age (`ncc.envs.residual`).
        """
        spec = self.spec
        numbers: dict[str, Any] = {"kind": spec.kind, "seen": self._seen, "floor_frac": spec.min_rate_frac}
        if spec.formula is None:
            numbers["no_limit_from"] = NO_LIMIT_FROM
        else:
            numbers |= {"formula": spec.formula, "scale": spec.scale}
            numbers |= formula_numbers(self._seen, scenario, spec.within)
        scales = scales_of(scenario)
        self._take(scales.names, scales.link_rate_bps, numbers)


AnyRateMap = RateTable | RateScale


def rate_map(spec: ActionSpec, observation: ObservationSpec) -> AnyRateMap:
    """Make the map from actions to rate limits that `spec` describes, for hosts with these observations."""
    return RateTable(spec, observation) if spec.n_actions else RateScale(spec, observation)


def check_actions(actions: npt.NDArray[Any], n_actions: int, place: Callable[[tuple[int, ...]], str]) -> None:
    """Raise `ConfigError` for the first invalid action, or for indices that are not of an integer type.

    An action is invalid if it is not an index below `n_actions`. If `n_actions` is 0, actions are continuous, and only
    NaN is invalid. `place` turns the position of an entry in the array into its name in the message.
    """
    if n_actions and _in_range(actions, n_actions):
        return
    allowed = f"whole numbers 0 to {n_actions - 1}" if n_actions else "numbers"
    wrong = np.isnan(actions)
    if n_actions:
        wrong |= ~((actions >= 0) & (actions < n_actions) & (actions == np.floor(actions)))
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0].tolist())
        raise ConfigError(f"{place(at)} is {actions[at]}; allowed: {allowed}")
    if n_actions:
        raise ConfigError(f"actions must be integers, got {actions.dtype}; allowed: {allowed}")


def _in_range(actions: npt.NDArray[Any], n_actions: int) -> bool:
    if actions.dtype.kind not in "iu":
        return False
    if actions.size <= FEW:
        plain = actions.ravel().tolist()
        return bool(min(plain) >= 0 and max(plain) < n_actions)
    if actions.dtype.kind == "i":  # as unsigned numbers, those below 0 are the largest
        actions = actions.view(f"u{actions.itemsize}")
    return bool(np.maximum.reduce(actions, axis=None) < n_actions)
