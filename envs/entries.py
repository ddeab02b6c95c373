# SPDX-License-Identifier: BSD-3-Clause
"""Names of an observation's numbers and rates of the actions, for readers of a policy without its scenario."""

from typing import TYPE_CHECKING, Literal

from ncc.core.errors import ConfigError
from ncc.core.value import Name, NonNegative, Positive, Value
from ncc.envs import residual
from ncc.envs.observation import ObservationSpec, guard_at, names_of
from ncc.envs.observation.spec import tuned_constants

if TYPE_CHECKING:
    from ncc.envs.action import ActionSpec

GUARD_FRAC = 0.9
"""Fraction of the capacity that its neighbours leave a host that it may always use, so that no policy can starve it. It
is below 1 because limits that add up to more than the port's rate build a queue."""


class ActionTable(Value, frozen=True):
    """Rates by action index: max(multiples[k] x unit, `floor_frac` x link rate); the last is None, no limit.

    If the entry `queued flows before` is above 0, no limit is below `guard_frac` times the entry `share among alike`
    times the link rate; 1 takes the place of `guard_frac` if the entry `busy share` is 0 (`ncc.envs.action`).
    """

    unit: Literal["link rate", "fair share"]
    """Rate of the host's link, or the host's fair share of the uplink as it is observed."""
    multiples: tuple[Positive | None, ...]
    floor_frac: NonNegative
    """Least limit as a fraction of the host's link rate."""
    guard_frac: NonNegative
    """Guarded fraction, see above; 0: no host is guarded."""


def action_table(spec: "ActionSpec", observation: ObservationSpec) -> ActionTable:
    """Return the rates of `ncc.envs.action.RateTable` for a spec, in numbers that need no scenario.

    Raises:
        ConfigError: the spec is continuous.
    """
    if spec.kind == "shares":
        guard_frac = 0.0 if guard_at(observation) is None else GUARD_FRAC
        multiples = (*spec.shares, None)
        return ActionTable(unit="fair share", multiples=multiples, floor_frac=spec.min_rate_frac, guard_frac=guard_frac)
    if spec.kind == "levels":
        levels = (k / spec.levels for k in range(1, spec.levels))
        multiples = (spec.min_rate_frac, *levels, None)
        return ActionTable(unit="link rate", multiples=multiples, floor_frac=0.0, guard_frac=0.0)
    raise ConfigError(f"ActionSpec.kind is {spec.kind!r}; a table of actions needs 'levels' or 'shares'")


class FormulaTable(Value, frozen=True):
    """Numbers of the limits that a residual multiplies, and of its guard, as `ncc.envs.residual` explains them."""

    formula: Name
    tuned: dict[str, float] | None
    """Constants of ``local_tuned``, as fields of `ncc.harness.controller.LocalLimit`; None: another formula."""
    use_frac: Positive
    """Fraction of a share that is given away."""
    least_share: Positive
    """Fraction of its fair share that a host always has by the formula."""
    hold_frac: Positive
    """Fraction of what is given away that ``local_hold`` leaves a host in the first period of a burst."""
    scale: Positive
    """Largest logarithm of a multiple: the formula's limit is multiplied by exp(`scale` * tanh(output))."""
    floor_frac: Positive
    """Fraction of the link's rate at which a multiple ends, unless the formula itself gives less."""
    stale_periods: Positive
    """Age of a neighbour's last message from which the limit is that of ``local``."""
    wasted: Positive
    """Entry `wasted room` above which the limit is at least that of ``local``."""


def formula_table(spec: "ActionSpec") -> FormulaTable | None:
    """Return the numbers of a residual's formula and guard; None for a spec of another kind."""
    if spec.formula is None:
        return None
    return FormulaTable(
        formula=spec.formula,
        tuned=tuned_constants() if spec.formula == "local_tuned" else None,
        use_frac=residual.USE_FRAC,
        least_share=residual.LEAST_SHARE,
        hold_frac=residual.HOLD_FRAC,
        scale=spec.scale,
        floor_frac=spec.min_rate_frac,
        stale_periods=residual.STALE_PERIODS,
        wasted=residual.WASTED,
    )


def neighbours_of(spec: ObservationSpec, obs_dim: int) -> int | None:
    """Return the number of neighbours that gives observations of `obs_dim` numbers; None if any number does.

    Raises:
        ConfigError: no number of neighbours gives it.
    """
    rest = len(names_of(spec, 0))
    one = len(names_of(spec, 1)) - rest
    near, left = divmod(obs_dim - rest, one) if one else (0, obs_dim - rest)
    if near >= 0 and not left:
        return near if one else None
    needed = f"{rest} + {one} per neighbour" if one else str(rest)
    raise ConfigError(f"observations with neighbours {spec.neighbours!r} have {needed} numbers, got {obs_dim}")


def entry_names(spec: ObservationSpec, obs_dim: int) -> tuple[str, ...]:
    """Return the names of an observation's `obs_dim` numbers in order.

    Raises:
        ConfigError: observations of this kind cannot have that many numbers.
    """
    return names_of(spec, neighbours_of(spec, obs_dim) or 0)
