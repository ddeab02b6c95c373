# SPDX-License-Identifier: BSD-3-Clause
"""Limits of a formula, computed from what a host observes, that a policy multiplies: `ActionSpec.kind` ``residual``.

``local``: 0.97 of the host's "share among alike" (`ncc.envs.observation`), at least of a tenth of its fair share; no
limit if that share is its link's rate, or nothing is queued. ``local_hold``: besides, at most a tenth of 0.97 of the
uplink's rate if the host had nothing queued when its neighbours sent what it sees, as in the first period of a burst.

A host that has missed a neighbour's messages for `STALE_PERIODS` has ``local``'s limit, whatever the policy says. Where
messages may get lost, it must therefore observe their ages.
"""

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.envs.observation import ObservationSpec, aged, columns_of, reliable
from ncc.envs.scales import scales_of
from ncc.harness.batch import ObsArray

USE_FRAC = 0.97
"""Fraction of the uplink that the formulas share out: frames are larger than the packets that limits count."""
LEAST_SHARE = 0.1
"""Fraction of its fair share that the formulas always leave a host."""
HOLD_FRAC = 0.1
"""Fraction of what they share out that ``local_hold`` leaves a host in the first period of a burst."""
STALE_PERIODS = 3
"""Age of a neighbour's last message, beyond the delay of sharing, from which a policy is not trusted."""
LINE_RATE = 0.999
"""Fraction of the link from which a limit counts as none."""


def formula_columns(observation: ObservationSpec) -> tuple[int, ...]:
    """Return the columns of an observation from which the formulas are computed.

    Raises:
        ConfigError: hosts do not see who is ahead of them.
    """
    found = columns_of(observation, ("queued_flows", "queued flows before", "share among alike", "fair share"))
    if found is None:
        raise ConfigError(
            "action.kind 'residual' needs observation.neighbours 'ordered' or 'ranked', from which its formula is "
            f"computed, got {observation.neighbours!r}"
        )
    return found


class Residual:
    """Multiples of a formula's limits; see `ncc.envs.action.ActionSpec`.

    Args:
        observation: spec of the observations.
        hold: true for ``local_hold``, false for ``local``.
        scale: largest logarithm of a multiple.
        least_frac: fraction of the link's rate at which a multiple ends.

    Raises:
        ConfigError: what the formula needs is not observed.
    """

    def __init__(self, observation: ObservationSpec, *, hold: bool, scale: float, least_frac: float) -> None:
        self._columns, self._age = formula_columns(observation), columns_of(observation, ("age max",))
        self._holds, self._scale, self._least_frac = hold, scale, least_frac
        self._stale = aged(STALE_PERIODS - 0.5)

    def reset(self, scenario: Scenario) -> None:
        """Take the hosts of a scenario.

        Raises:
            ConfigError: messages may get lost there, and their ages are not observed.
        """
        if self._age is None and not reliable(scenario):
            raise ConfigError(
                f"messages may get lost in scenario {scenario.name!r}, and a residual is not to be trusted without "
                "them: set observation.ages to true, or let none get lost"
            )
        scales = scales_of(scenario)
        self._link_bps = scales.link_rate_bps
        self._held = HOLD_FRAC * USE_FRAC * scales.uplink_capacity_bps[scales.area] / scales.link_rate_bps

    def limits(self, given: FloatArray, obs: ObsArray) -> FloatArray:
        """Return limits in bits/s [..., n_agents] for numbers in [-1, 1] chosen on observations; inf means no limit."""
        queued, before, alike, fair = (obs[..., column].astype(np.float64) for column in self._columns)
        share = np.maximum(alike, LEAST_SHARE * fair)
        local = np.where((queued > 0) & (share < 1), USE_FRAC * share, 1.0)
        fresh = self._holds & (queued > 0) & (before <= 0)
        formula = np.where(fresh, np.minimum(local, self._held), local)
        frac = np.maximum(formula * np.exp(self._scale * given), np.minimum(formula, self._least_frac))
        if self._age is not None:
            frac = np.where(obs[..., self._age[0]] >= self._stale, local, frac)
        return np.where(frac < LINE_RATE, frac * self._link_bps, np.inf)
