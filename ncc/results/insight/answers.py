# SPDX-License-Identifier: BSD-3-Clause
"""Dependence of the rate on one observed number, and the effect of each number."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.harness.batch import ObsArray
from ncc.results.insight.learned import Learned
from ncc.results.insight.words import meaning

USUAL = (1, 99)
"""Percentiles of the observations between which an entry is moved."""
MET = 12
"""Approximate number of groups of observations in which the actual rate is averaged."""
SAME = 6
"""Decimals to which values are compared; an observation has single precision."""


@dataclass(frozen=True)
class Response:
    """Rates over the link's while one observed number is set to a value and all others stay as observed."""

    label: str
    """Label of the policy."""
    entry: str
    words: str
    """Description of the entry, with its unit."""
    places: tuple[tuple[float, str], ...]
    """Round values in that unit and their positions; empty: the number itself."""
    values: FloatArray
    """[n] values that it is set to, between the 1st and the 99th percentile of the observations."""
    mean: FloatArray
    """[n] geometric mean of the rate over observations."""
    low: FloatArray
    """[n] 25th percentile of the rate over observations."""
    high: FloatArray
    """[n] 75th percentile of the rate over observations."""
    met_values: FloatArray
    """[groups] mean of the actual values in each group; no two groups share a value."""
    met: FloatArray
    """[groups] geometric mean of the rate there, with all numbers as observed."""


def response(learned: Learned, obs: ObsArray, entry: str, *, points: int = 41) -> Response:
    """Compute the response of the rate to one entry, at observations [n, obs_dim].

    Raises:
        UnknownNameError: the policy observes no such entry.
        ConfigError: the entry is the same in all observations.
    """
    at = learned.at(entry)
    stood = obs[:, at].mean(axis=1)
    low, high = np.percentile(stood, USUAL)
    if not high > low:
        raise ConfigError(f"entry {entry!r} is {low:.3g} in all of these observations, so nothing goes with it")
    values = np.linspace(low, high, points)
    curves = []
    for value in values:
        moved = obs.copy()
        moved[:, at] = value
        log = learned.log_rate(moved)
        curves.append(np.exp([log.mean(), *np.percentile(log, [25, 75])]))
    means, lows, highs = np.array(curves).T
    groups, log = _groups(stood), learned.log_rate(obs)
    words, places = meaning(learned.observation, entry)
    return Response(
        label=learned.label,
        entry=entry,
        words=words,
        places=places,
        values=values,
        mean=means,
        low=lows,
        high=highs,
        met_values=np.array([stood[group].mean() for group in groups]),
        met=np.array([np.exp(log[group].mean()) for group in groups]),
    )


def _groups(stood: FloatArray) -> list[IntArray]:
    """Groups of observations with close values, ascending; equal values are always in one group.

    A value that fills a group is alone in it; the others are in groups of about equal size.
    """
    _, value, count = np.unique(np.round(stood, SAME), return_inverse=True, return_counts=True)
    alone = count * MET >= len(stood)
    others = np.where(alone, 0, count)
    middle = np.cumsum(others) - 0.5 * others  # of the ranks of a value among the others
    group = np.floor(max(1, MET - alone.sum()) * middle / max(1, others.sum()))
    stretch = 2 * np.cumsum(alone) - alone  # no group contains values on both sides of one that is alone
    place = (stretch * MET + np.where(alone, 0, group))[value]
    return [np.flatnonzero(place == at) for at in np.unique(place)]


@dataclass(frozen=True)
class Saliency:
    """Effect of each entry on the rate, over observations."""

    label: str
    """Label of the policy."""
    names: tuple[str, ...]
    """Names of the entries."""
    change: FloatArray
    """[entries, n] change of the logarithm of the rate as the entry rises by its spread, half of it on either side of
    its actual value, within the observed range."""
    spread: FloatArray
    """[entries] standard deviation of the entry over the observations."""
    moves: NDArray[np.bool_]
    """[entries] true unless the entry is the same in all but a few observations, so that `response` is meaningful."""

    @property
    def effect(self) -> FloatArray:
        """[entries] mean size of the change."""
        effects: FloatArray = np.abs(self.change).mean(axis=1)
        return effects

    @property
    def ranked(self) -> tuple[str, ...]:
        """Names of the entries that vary, in descending order of effect."""
        return tuple(self.names[i] for i in np.argsort(-self.effect, kind="stable") if self.moves[i])


def saliency(learned: Learned, obs: ObsArray) -> Saliency:
    """Compute the effect of a usual change of every entry on the expected log rate, at observations [n, obs_dim].

    Each entry is moved by its own standard deviation and not by a small fixed step, because an extrapolated slope
    overstates entries that matter in one place only. Entries that set the scale count as well: where rates are
    multiples of the fair share, moving that moves all rates.
    """
    changes, spreads, moves = [], [], []
    for places in learned.entries.values():
        at = list(places)
        stood = obs[:, at].mean(axis=1)
        spread, least, most = stood.std(), obs[:, at].min(), obs[:, at].max()
        above, below = obs.copy(), obs.copy()
        above[:, at] = np.minimum(above[:, at] + spread / 2, most)
        below[:, at] = np.maximum(below[:, at] - spread / 2, least)
        changes.append(learned.log_rate(above) - learned.log_rate(below))
        spreads.append(spread)
        moves.append(bool(np.ptp(np.percentile(stood, USUAL)) > 0))
    return Saliency(learned.label, tuple(learned.entries), np.array(changes), np.array(spreads), np.array(moves))
