# SPDX-License-Identifier: BSD-3-Clause
"""Limits of a formula, computed from what a host observes, that a policy multiplies: `ActionSpec.kind` ``residual``.

``local``: 0.97 of the host's "share among alike" (`ncc.envs.observation`), at least of a tenth of its fair share; no
limit if that share is its link's rate, or nothing is queued. ``local_hold``: besides, at most a tenth of 0.97 of the
uplink's rate if the host had nothing queued when its neighbours sent what it sees, as in the first period of a burst.
They are the limits of `ncc.harness.local.Local` with the constants of these controllers.

A guard holds what a policy says to what is known to be safe, alike in training, in evaluations and wherever it runs:

- **Alone.** If no neighbour was busy, the limit is at least the rate of the host's port, the uplink's or the link's.
  Only a host that has become busy since then may be held, until it hears of that time: for one period. It may not,
  and neither may an idle host, where hosts begin alone: those that began last did so with less than `LONE` others.
- **First.** The host whose next flow is first in the order that all hosts see has that rate too, from its second period
  on, while the uplink's queue is short.
- **Stale.** A host that has missed a neighbour's messages for `STALE_PERIODS` has ``local``'s limit. Where messages may
  get lost, it must therefore observe their ages.
- **Unknown.** In a network outside of `ncc.envs.ranges.TrustedRanges` all hosts have ``local``'s limits.
- **Waiting.** A host whose "wasted room" is above `WASTED` has at least ``local``'s limit: it had flows queued for
  three periods or more in which less than half of the uplink was used, and is held back again for one period in six
  at most until that has changed. A rack in which all hold back does not stay one.
"""

from typing import TYPE_CHECKING

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.envs.observation import ObservationSpec, aged, columns_of, reliable
from ncc.envs.scales import scales_of
from ncc.harness.batch import ObsArray
from ncc.harness.controller import LocalLimit

if TYPE_CHECKING:
    from ncc.envs.action import ActionSpec

USE_FRAC = 1 - LocalLimit().headroom_frac
"""Fraction of the uplink that the formulas share out: frames are larger than the packets that limits count."""
LEAST_SHARE = LocalLimit().floor_frac
"""Fraction of its fair share that the formulas always leave a host."""
HOLD_FRAC = 0.1
"""Fraction of what they share out that ``local_hold`` leaves a host in the first period of a burst."""
STALE_PERIODS = 3
"""Age of a neighbour's last message, beyond the delay of sharing, from which a policy is not trusted."""
LONE = 0.5 / 8
"""Number observed as "begin together" below which hosts begin alone: half a host."""
SHORT_QUEUE = 0.3
"""Number observed as "uplink queue" below which a queue is short: 2.5 packets where the buffer holds 67. It is
logarithmic, so that larger buffers have more."""
WASTED = 1.0
"""Number observed as "wasted room" above which a host is not held back."""
LINE_RATE = 0.999
"""Fraction of the link from which a limit counts as none."""

_SEEN = (
    "queued_flows",
    "queued flows before",
    "share among alike",
    "fair share",
    "busy share",
    "wasted room",
    "tuned limit",
    "begin together",
    "hosts before",
    "uplink queue",
)


def formula_columns(observation: ObservationSpec) -> tuple[int, ...]:
    """Return the columns of an observation from which the formulas are computed.

    Raises:
        ConfigError: hosts do not see who is ahead of them.
    """
    found = columns_of(observation, _SEEN)
    if found is None:
        lacks = [name for name in _SEEN if name in observation.leave_out]
        raise ConfigError(
            "action.kind 'residual' needs observation.neighbours 'ordered', from which its formula and its guard are "
            f"computed, got {observation.neighbours!r}"
            + (f" with observation.leave_out of {', '.join(lacks)}, which they read" if lacks else "")
        )
    return found


class Residual:
    """Multiples of a formula's limits; see `ncc.envs.action.ActionSpec`.

    Args:
        observation: spec of the observations.
        spec: the formula, the largest logarithm of a multiple, the fraction of the link's rate at which a multiple
            ends, and the networks in which policies are trusted.

    Raises:
        ConfigError: what the formula needs is not observed.
    """

    def __init__(self, observation: ObservationSpec, spec: "ActionSpec") -> None:
        self._columns, self._age = formula_columns(observation), columns_of(observation, ("age max",))
        self._formula, self._within = str(spec.formula), spec.within
        self._scale, self._least_frac = spec.scale, spec.min_rate_frac
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
        uplink_frac = scales.uplink_capacity_bps[scales.area] / scales.link_rate_bps
        self._held, self._port = HOLD_FRAC * USE_FRAC * uplink_frac, np.minimum(uplink_frac, 1.0)
        self._trusted = self._within is None or not self._within.outside(scenario)

    def limits(self, given: FloatArray, obs: ObsArray) -> FloatArray:
        """Return limits in bits/s [..., n_agents] for numbers in [-1, 1] chosen on observations; inf means no limit."""
        seen = (obs[..., c].astype(np.float64) for c in self._columns)
        queued, before, alike, fair, others, wasted, tuned, together, first, queue = seen
        share = np.maximum(alike, LEAST_SHARE * fair)
        local = np.where((queued > 0) & (share < 1), USE_FRAC * share, 1.0)
        if self._trusted:
            fresh = (queued > 0) & (before <= 0)
            held = np.where(fresh, np.minimum(local, self._held), local)
            formula = {"local": local, "local_hold": held, "local_tuned": tuned}[self._formula]
            frac = np.maximum(formula * np.exp(self._scale * given), np.minimum(formula, self._least_frac))
            room = (first <= 0) & (queue < SHORT_QUEUE) & (queued > 0) & ~fresh
            frac = np.where(room, np.maximum(frac, self._port), frac)
            alone = (others <= 0) & ((queued > 0) & ~fresh | (together < LONE))
            frac = np.where(alone, np.maximum(frac, self._port), frac)
            frac = np.where(wasted > WASTED, np.maximum(frac, local), frac)
            if self._age is not None:
                frac = np.where(obs[..., self._age[0]] >= self._stale, local, frac)
        else:
            frac = local
        return np.where(frac < LINE_RATE, frac * self._link_bps, np.inf)
