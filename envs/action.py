# SPDX-License-Identifier: BSD-3-Clause
"""What a host may decide each epoch: one of d+1 sending rates (wang2021 eq. 5.15), or a number in [0, 1]."""

from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.value import Value
from ncc.envs.scales import scales_of
from ncc.harness.batch import ActionArray

FEW = 64
"""So many small integers Python compares faster than numpy reduces them."""
NO_LIMIT_FROM = 0.95
"""Continuous actions from here up to 1 mean no limit; a single point would hardly ever be chosen."""


class ActionSpec(Value, frozen=True):
    """The rates among which a host chooses.

    `kind` ``levels``: index k in 0..d (d = `levels`) means k/d of the host's link rate, except at the ends. The top
    means *no limit*: a limiter at line rate would still hold back a burst, and idle hosts must be able to send a new
    small flow at once. Index 0 means `min_rate_frac`, not silence: the limiter delays ACKs too, and a host that is
    stopped altogether could not even acknowledge what it receives.

    `kind` ``linear`` and ``log``: a number u in [0, 1]; with v = u / 0.95, v < 1 means min + v (1 - min) or
    min ** (1 - v) of the link rate, v >= 1 no limit.
    """

    kind: Literal["levels", "linear", "log"] = "levels"
    levels: Annotated[int, Meta(ge=1, le=1000)] = 10
    min_rate_frac: Annotated[float, Meta(gt=0, lt=1)] = 0.01

    def check(self) -> None:
        if self.kind == "levels" and self.min_rate_frac >= 1 / self.levels:
            raise ConfigError(
                f"ActionSpec.min_rate_frac must be below the first level, 1/levels = {1 / self.levels:.4g}, "
                f"got {self.min_rate_frac}"
            )

    @property
    def n_actions(self) -> int:
        """Number of action indices; 0 for continuous actions."""
        return self.levels + 1 if self.kind == "levels" else 0


class RateTable:
    """An `ActionMap`: action indices to rate limits.

    Raises:
        ConfigError: the spec is continuous.
    """

    def __init__(self, spec: ActionSpec) -> None:
        if spec.kind != "levels":
            raise ConfigError(f"ActionSpec.kind is {spec.kind!r}; action indices need 'levels'")
        self.spec = spec

    def reset(self, scenario: Scenario) -> None:
        """Work out the table for the hosts of a scenario."""
        scales = scales_of(scenario)
        frac = np.arange(self.spec.n_actions) / self.spec.levels
        frac[0], frac[-1] = self.spec.min_rate_frac, np.inf
        self._names = scales.names
        self._table = np.outer(scales.link_rate_bps, frac).ravel()
        self._row = np.arange(scales.n_agents) * self.spec.n_actions

    def rates_bps(self, actions: ActionArray) -> FloatArray:
        """Limits in bits/s for indices, both [n_agents]; inf means no limit.

        Raises:
            ConfigError: wrong shape, not whole numbers, or out of range, naming the host.
        """
        check_actions(actions, self._names, self.spec.n_actions)
        return self._limits(actions)

    def rack_rates_bps(self, actions: ActionArray, first: int) -> FloatArray:
        """The same for racks numbered from `first`, both [n_racks, n_agents].

        Raises:
            ConfigError: as above, naming rack and host.
        """
        check_rack_actions(actions, self._names, self.spec.n_actions, first)
        return self._limits(actions)

    def _limits(self, actions: ActionArray) -> FloatArray:
        limits: FloatArray = self._table.take(self._row + actions)
        return limits


class RateScale:
    """Numbers in [0, 1] to rate limits."""

    def __init__(self, spec: ActionSpec) -> None:
        if spec.kind == "levels":
            raise ConfigError("ActionSpec.kind is 'levels'; numbers in [0, 1] need 'linear' or 'log'")
        self.spec = spec

    def reset(self, scenario: Scenario) -> None:
        """Take the hosts of a scenario."""
        scales = scales_of(scenario)
        self._names, self._link_bps = scales.names, scales.link_rate_bps

    def rates_bps(self, actions: npt.ArrayLike) -> FloatArray:
        """Limits in bits/s [n_agents] for numbers in [0, 1]; inf means no limit.

        Raises:
            ConfigError: wrong shape, NaN, or out of range, naming the host.
        """
        u = np.asarray(actions, dtype=np.float64)
        _check_shape(u, self._names)
        if not (u.min() >= 0 and u.max() <= 1):
            _refuse(u, ~((u >= 0) & (u <= 1)), self._names, "numbers in [0, 1]")
        v, low = np.minimum(u / NO_LIMIT_FROM, 1), self.spec.min_rate_frac
        frac = low + v * (1 - low) if self.spec.kind == "linear" else low ** (1 - v)
        return np.where(v < 1, frac * self._link_bps, np.inf)


AnyRateMap = RateTable | RateScale


def rate_map(spec: ActionSpec) -> AnyRateMap:
    """The map that a spec describes."""
    return RateTable(spec) if spec.kind == "levels" else RateScale(spec)


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
    """`check_actions` for actions [n_racks, n_agents]; the error names the rack, counted from `first`, as well."""
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
