# SPDX-License-Identifier: BSD-3-Clause
"""How the rate goes with one observed number, and what matters at all."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.harness.batch import ObsArray
from ncc.insight.learned import Learned
from ncc.insight.words import meaning

USUAL = (1, 99)
"""Percentiles of what was observed, between which an entry is moved."""
MET = 12
"""Groups, about so many, of observations in which what really happened is averaged."""
SAME = 6
"""Decimals in which values are equal: an observation is of single precision."""


@dataclass(frozen=True)
class Response:
    """Rates, over the link's, while one observed number is set to a value and all others stay as they were observed."""

    label: str
    """Of the policy."""
    entry: str
    words: str
    """What the entry is, with its unit,"""
    places: tuple[tuple[float, str], ...]
    """and where round values in that unit stand; none: as the number says."""
    values: FloatArray
    """[n] what it is set to, between the 1st and the 99th percentile of what was observed."""
    mean: FloatArray
    """[n] geometric, over observations,"""
    low: FloatArray
    """[n] their 25th"""
    high: FloatArray
    """[n] and 75th percentile."""
    met_values: FloatArray
    """[groups] where the number really stood, the mean of each group, of which no two share a value,"""
    met: FloatArray
    """[groups] and the geometric mean of the rate there, all numbers as they were."""


def response(learned: Learned, obs: ObsArray, entry: str, *, points: int = 41) -> Response:
    """How the rate goes with one entry, at observations [n, obs_dim].

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
    """Which observations stood close together, ascending; equal values are always in one group.

    A value that fills a group stands alone; the others are in groups of about equally many.
    """
    _, value, count = np.unique(np.round(stood, SAME), return_inverse=True, return_counts=True)
    alone = count * MET >= len(stood)
    others = np.where(alone, 0, count)
    middle = np.cumsum(others) - 0.5 * others  # of the ranks that a value takes up among the others
    group = np.floor(max(1, MET - alone.sum()) * middle / max(1, others.sum()))
    stretch = 2 * np.cumsum(alone) - alone  # none reaches across a value that stands alone
    place = (stretch * MET + np.where(alone, 0, group))[value]
    return [np.flatnonzero(place == at) for at in np.unique(place)]


@dataclass(frozen=True)
class Saliency:
    """What each entry does to the rate, over observations."""

    label: str
    """Of the policy."""
    names: tuple[str, ...]
    """Of the entries."""
    change: FloatArray
    """[entries, n] of the logarithm of the rate as the entry rises by its spread, half of it on either side of where it
    stood, and not beyond what was met."""
    spread: FloatArray
    """[entries] standard deviation of the entry over the observations."""
    moves: NDArray[np.bool_]
    """[entries] whether it is not the same in all but a few of them, so that `response` has something to say."""

    @property
    def effect(self) -> FloatArray:
        """[entries] mean size of the change."""
        effects: FloatArray = np.abs(self.change).mean(axis=1)
        return effects

    @property
    def ranked(self) -> tuple[str, ...]:
        """Names of the entries that move, those of the largest effect first."""
        return tuple(self.names[i] for i in np.argsort(-self.effect, kind="stable") if self.moves[i])


def saliency(learned: Learned, obs: ObsArray) -> Saliency:
    """What a usual change of every entry does to the expected log rate, at observations [n, obs_dim].

    Each is moved by its own standard deviation, not by a fixed little: a slope, extrapolated, says too much where it is
    steep in one place only. Shares of what is observed count as well: where rates are multiples of the fair share,
    moving that moves them all.
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
