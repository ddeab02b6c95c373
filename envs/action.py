# SPDX-License-Identifier: BSD-3-Clause
"""Decision of a host in each epoch: one of d+1 sending rates (wang2021 eq. 5.15), or a number in [-1, 1]."""

from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.value import Positive, Value
from ncc.envs.observation import ObservationSpec, fair_share_at, guard_at
from ncc.envs.ranges import TrustedRanges
from ncc.envs.residual import Residual
from ncc.envs.scales import scales_of
from ncc.harness.batch import ActionArray, ObsArray

FEW = 64
"""Number of small integers up to which Python's comparison is faster than numpy's reduction."""
NO_LIMIT_FROM = 0.95
"""Fraction of the range of continuous actions above which they mean no limit; a single point is hardly ever chosen."""

SHARES = (0.1, 0.25, 0.5, 0.7, 0.85, 0.97, 1.1, 1.3, 1.6, 2.0, 2.6, 3.5, 5.0)
"""Default multiples of a fair share, densest around 1, where a few percent decide whether a queue grows."""

GUARD_FRAC = 0.9
"""Fraction of the capacity that its neighbours leave a host that it may always use, so that no policy can starve it. It
is below 1 because limits that add up to more than the port's rate build a queue."""


class ActionSpec(Value, frozen=True):
    """The rates that a host can choose.

    `kind` ``levels``: index k in 0..d (d = `levels`) means k/d of the host's link rate, except at the ends. The top
    means *no limit*: a limiter at line rate would still hold back a burst, and idle hosts must be able to send a new
    small flow at once. Index 0 means `min_rate_frac`, not silence: the limiter delays ACKs too, and a stopped host
    could not even acknowledge the data that it receives.

    `kind` ``shares``: index k means `shares[k]` times the host's fair share as it is observed, which is the uplink's
    rate over the number of busy neighbours and the host itself (`ncc.envs.observation`); the top means no limit. These
    rates mean the same for any number of hosts and any link. Without observed neighbours the fair share is the uplink's
    rate over all hosts. No limit is below `min_rate_frac` of the link. With ranked neighbours, a host that had flows
    queued at the time of their reports is guarded, whatever it chooses: its limit is at least `GUARD_FRAC` of its
    "share among alike" (`ncc.envs.observation`), and all of that share if no neighbour had any flows. In the first
    period of a burst it may hold back.

    `kind` ``linear`` and ``log``: a number a in [-1, 1]; with u = (a + 1) / 2 and v = u / 0.95, v < 1 means
    min + v (1 - min) or min ** (1 - v) of the link rate, and v >= 1 no limit.

    `kind` ``residual``: a number a in [-1, 1] multiplies the limit of `formula` by exp(`scale` a), so that 0 is the
    formula itself. No limit counts as the link rate, also of an idle host. What goes below the formula ends at
    `min_rate_frac` of the link. Networks outside `within` have ``local``; a guard holds the rest (`ncc.envs.residual`).
    """

    kind: Literal["levels", "shares", "linear", "log", "residual"] = "levels"
    levels: Annotated[int, Meta(ge=1, le=1000)] = 10
    min_rate_frac: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    shares: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=1000)] = SHARES
    formula: Literal["local", "local_hold", "local_tuned"] | None = None
    scale: Annotated[float, Meta(gt=0, le=10)] = 3.0
    within: TrustedRanges | None = None

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
    def n_outputs(self) -> int:
        """Number of outputs of a policy's network: a logit per action index, or one number."""
        return self.n_actions or 1


class RateTable:
    """An `ActionMap` from action indices to rate limits.

    Args:
        spec: the rates.
        observation: spec of the observations; rates may be shares of an observed value.

    Raises:
        ConfigError: the spec is continuous.
    """

    def __init__(self, spec: ActionSpec, observation: ObservationSpec) -> None:
        if spec.kind not in ("levels", "shares"):
            raise ConfigError(f"ActionSpec.kind is {spec.kind!r}; action indices need 'levels' or 'shares'")
        self.spec = spec
        self._observed = fair_share_at(observation) if spec.kind == "shares" else None
        self._guard = guard_at(observation) if spec.kind == "shares" else None

    def reset(self, scenario: Scenario) -> None:
        """Compute the table for the hosts of a scenario."""
        scales = scales_of(scenario)
        shares = self.spec.kind == "shares"
        frac = np.array([*self.spec.shares, np.inf]) if shares else np.arange(self.spec.n_actions) / self.spec.levels
        if not shares:
            frac[0], frac[-1] = self.spec.min_rate_frac, np.inf
        self._names, self._link_bps = scales.names, scales.link_rate_bps
        uplink_bps, near = scales.uplink_capacity_bps[scales.area], scales.neighbours.shape[1]
        unit = np.minimum(uplink_bps / (near + 1), scales.link_rate_bps) if shares else scales.link_rate_bps
        self._frac, self._unit_bps = frac, unit
        self._middle = np.log(frac[:-1])[:-1] / 2 + np.log(frac[:-1])[1:] / 2
        self._table = np.outer(unit, frac).ravel()
        self._row = np.arange(scales.n_agents) * self.spec.n_actions

    def tables(self) -> dict[str, Any]:
        """Return the parts of the rates, max(frac x unit, floor, guard), for `ncc.envs.linux.decide`."""
        guard = self._guard and dict(zip(("share", "others", "before"), self._guard, strict=True))
        n = len(self._names)
        levels = self._observed is None and self.spec.kind == "levels"
        return {
            "frac": self._frac,
            "unit_bps": self._unit_bps,
            "link_bps": self._link_bps,
            "floor_bps": np.zeros(n) if levels else self.spec.min_rate_frac * self._link_bps,
            "observed": -1 if self._observed is None else self._observed,
            "guard": guard and {"frac": GUARD_FRAC, **guard},
        }

    def rates_bps(self, actions: ActionArray, obs: ObsArray) -> FloatArray:
        """Return limits in bits/s for indices, both [n_agents], chosen on observations [n_agents, obs_dim].

        A limit of inf means no limit.

        Raises:
            ConfigError: wrong shape, not whole numbers, or out of range, naming the host.
        """
        check_actions(actions, self._names, self.spec.n_actions)
        return self._limits(actions, obs)

    def rack_rates_bps(self, actions: ActionArray, obs: ObsArray, first: int) -> FloatArray:
        """Return limits for racks numbered from `first`: indices [n_racks, n_agents], observations with a leading axis.

        Raises:
            ConfigError: as `rates_bps`, naming rack and host.
        """
        check_rack_actions(actions, self._names, self.spec.n_actions, first)
        return self._limits(actions, obs)

    def nearest(self, limits_bps: FloatArray, obs: ObsArray) -> ActionArray:
        """Return the indices [..., n_agents] whose rates are nearest to limits, by ratio; no limit is the top index."""
        with np.errstate(divide="ignore"):
            log = np.log(limits_bps / self._unit(obs))
        found: ActionArray = np.searchsorted(self._middle, log).astype(np.int64)
        found[np.isinf(limits_bps)] = self.spec.n_actions - 1
        return found

    def _unit(self, obs: ObsArray) -> FloatArray:
        """Return the unit [..., n_agents] in bits/s of which the table has multiples."""
        if self._observed is None:
            return self._unit_bps
        return np.asarray(obs[..., self._observed] * self._link_bps, dtype=np.float64)

    def _limits(self, actions: ActionArray, obs: ObsArray) -> FloatArray:
        if self._observed is None and self.spec.kind == "levels":
            limits: FloatArray = self._table.take(self._row + actions)
            return limits
        limits = np.maximum(self._frac.take(actions) * self._unit(obs), self.spec.min_rate_frac * self._link_bps)
        return limits if self._guard is None else np.maximum(limits, self._guarded(obs, *self._guard))

    def _guarded(self, obs: ObsArray, share: int, others: int, before: int) -> FloatArray:
        """Return the guarded least limits [..., n_agents] in bits/s; 0: not guarded."""
        frac = np.where(obs[..., others] == 0, 1.0, GUARD_FRAC) * (obs[..., before] > 0)
        guarded: FloatArray = frac * obs[..., share] * self._link_bps
        return guarded


class RateScale:
    """A map from numbers in [-1, 1] to rate limits.

    Args:
        spec: the rates.
        observation: spec of the observations; a residual's formula is computed from what is observed.

    Raises:
        ConfigError: the spec has action indices, or a residual's formula needs what is not observed.
    """

    def __init__(self, spec: ActionSpec, observation: ObservationSpec) -> None:
        if spec.n_actions:
            raise ConfigError(f"ActionSpec.kind is {spec.kind!r}; numbers need 'linear', 'log' or 'residual'")
        self.spec = spec
        self._residual = Residual(observation, spec) if spec.kind == "residual" else None

    def reset(self, scenario: Scenario) -> None:
        """Take the hosts of a scenario.

        Raises:
            ConfigError: a residual cannot be trusted there (`ncc.envs.residual`).
        """
        scales = scales_of(scenario)
        self._names, self._link_bps = scales.names, scales.link_rate_bps
        if self._residual is not None:
            self._residual.reset(scenario)

    def rates_bps(self, actions: npt.ArrayLike, obs: ObsArray) -> FloatArray:
        """Return limits in bits/s [n_agents] for numbers chosen on `obs`, clipped to [-1, 1]; inf means no limit.

        Raises:
            ConfigError: wrong shape or NaN, naming the host.
        """
        given = np.clip(np.asarray(actions, dtype=np.float64), -1, 1)
        _check_shape(given, self._names)
        _refuse(given, np.isnan(given), self._names, "numbers")
        return self._limits(given, obs)

    def rack_rates_bps(self, actions: npt.ArrayLike, obs: ObsArray, first: int) -> FloatArray:
        """Return limits for racks numbered from `first`, for numbers [n_racks, n_agents].

        Raises:
            ConfigError: as `rates_bps`, naming rack and host.
        """
        given = np.clip(np.asarray(actions, dtype=np.float64), -1, 1)
        if given.shape[1:] == (len(self._names),) and not np.isnan(given).any():
            return self._limits(given, obs)
        for number, (row, seen) in enumerate(zip(given, obs, strict=True), first):
            try:
                self.rates_bps(row, seen)
            except ConfigError as error:
                raise ConfigError(f"rack {number}: {error}") from None
        return self._limits(given, obs)

    def _limits(self, given: FloatArray, obs: ObsArray) -> FloatArray:
        if self._residual is not None:
            return self._residual.limits(given, obs)
        v, low = np.minimum((given + 1) / 2 / NO_LIMIT_FROM, 1), self.spec.min_rate_frac
        frac = low + v * (1 - low) if self.spec.kind == "linear" else low ** (1 - v)
        return np.where(v < 1, frac * self._link_bps, np.inf)


AnyRateMap = RateTable | RateScale


def rate_map(spec: ActionSpec, observation: ObservationSpec) -> AnyRateMap:
    """Make the map that a spec describes, for hosts with such observations."""
    return RateTable(spec, observation) if spec.n_actions else RateScale(spec, observation)


def check_actions(actions: npt.NDArray[Any], names: tuple[str, ...], n_actions: int) -> None:
    """Raise `ConfigError` naming the first host whose action is not a whole number in [0, n_actions)."""
    _check_shape(actions, names)
    if _in_range(actions, n_actions):
        return
    allowed = f"whole numbers 0 to {n_actions - 1}"
    if actions.dtype.kind in "iuf":
        _refuse(actions, ~((actions >= 0) & (actions < n_actions) & (actions == np.floor(actions))), names, allowed)
    if actions.dtype.kind not in "iu":
        raise ConfigError(f"actions must be integers, got {actions.dtype}; allowed: {allowed}")


def check_rack_actions(actions: npt.NDArray[Any], names: tuple[str, ...], n_actions: int, first: int) -> None:
    """Do `check_actions` for actions [n_racks, n_agents]; the error also names the rack, counted from `first`."""
    if actions.shape[1:] == (len(names),) and _in_range(actions, n_actions):
        return
    for number, row in enumerate(actions, first):
        try:
            check_actions(row, names, n_actions)
        except ConfigError as error:
            raise ConfigError(f"rack {number}: {error}") from None


def _in_range(actions: npt.NDArray[Any], n_actions: int) -> bool:
    if actions.dtype.kind not in "iu":
        return False
    if actions.size <= FEW:
        plain = actions.ravel().tolist()
        return bool(min(plain) >= 0 and max(plain) < n_actions)
    if actions.dtype.kind == "i":  # as unsigned numbers, those below 0 are the largest
        actions = actions.view(f"u{actions.itemsize}")
    return bool(np.maximum.reduce(actions, axis=None) < n_actions)


def _check_shape(actions: npt.NDArray[Any], names: tuple[str, ...]) -> None:
    if np.shape(actions) != (len(names),):
        raise ConfigError(
            f"actions must have shape ({len(names)},), one per host {names[0]}..{names[-1]}, got {np.shape(actions)}"
        )


def _refuse(actions: npt.NDArray[Any], bad: npt.NDArray[np.bool_], names: tuple[str, ...], allowed: str) -> None:
    if bad.any():
        host = int(bad.argmax())
        raise ConfigError(f"action of host {names[host]} is {actions[host]}; allowed: {allowed}")
