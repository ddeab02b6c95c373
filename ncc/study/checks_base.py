# SPDX-License-Identifier: BSD-3-Clause
"""The base class of checks, the outcome of a check, and errors for names that an experiment does not have."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from msgspec import field

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.value import AbstractValue, Name, Value
from ncc.metrics.catalogue import Better
from ncc.study.measures import AnyMeasure
from ncc.study.table import At, Table

Judged = tuple[bool, str]
"""Judgement of a group of points: True if the check holds there, and a text with the numbers."""


@dataclass(frozen=True)
class Finding:
    """The outcome of a check."""

    holds: bool | None
    """None: the check was not judged, because its points were not run or do not meet its condition."""
    text: str
    """Text with the numbers, or with the reason why the check was not judged."""
    narrow: bool = False
    """True if other seeds may well change the outcome. The check is judged again for `DRAWS` samples of the seeds with
    replacement (a bootstrap); it is narrow if more than `TURNED_FRAC` of them have the other outcome. With fewer than
    `FEWEST_SEEDS` seeds it is always False."""


DRAWS = 200
TURNED_FRAC = 0.05
FEWEST_SEEDS = 3
NOT_JUDGED = Finding(None, "the preset leaves these points out")
NOWHERE = Finding(None, "its condition is met at no point")


class Parts(NamedTuple):
    """The named parts of an experiment that a check may refer to."""

    measures: Mapping[str, AnyMeasure]
    contenders: Mapping[str, Any]
    axes: Mapping[str, tuple[float | str, ...]]
    """Points by axis."""


class PointFilter(Value, frozen=True, kw_only=True):
    """A condition that selects points: a contender's measure is above a level, such as DCTCP's timeouts above 0."""

    measure: Name
    contender: Name
    above: float
    """Level in SI units."""


class Check(Value, metaclass=AbstractValue, frozen=True, kw_only=True, tag_field="kind"):
    """An expectation of the values of a measure; each subclass is one kind of expectation."""

    claim: str
    """The expectation in words, with its source."""
    measure: Name
    at: dict[str, float | str] = field(default_factory=dict)
    """Values of axes at which the claim is expected; it is expected at all values of an axis that is not named."""
    where: PointFilter | None = None
    """Condition that points must meet to be judged; None: all are."""

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the contenders that the check compares."""

    def fits(self, where: str, parts: Parts) -> None:
        """Raise `ConfigError` if the check refers to a part that the experiment does not have."""
        known(f"measure in {where}", self.measure, parts.measures)
        for name in self.names():
            known(f"contender in {where}", name, parts.contenders)
        if self.where is not None:
            known(f"measure in {where}.where", self.where.measure, parts.measures)
            known(f"contender in {where}.where", self.where.contender, parts.contenders)
        known_points(f"{where}.at", self.at, parts.axes)

    def judge(self, table: Table, measure: AnyMeasure) -> Finding:
        """Judge the table, and judge it again with resampled seeds to see if the outcome is narrow."""
        finding, n = self._judge(table, measure), len(next(iter(table.values.values()), ()))
        if finding.holds is None or n < FEWEST_SEEDS:
            return finding
        draws = np.random.default_rng(0).integers(n, size=(DRAWS, n)).tolist()
        changed = sum(
            self._judge(replace(table, drawn=tuple(drawn)), measure).holds is (not finding.holds) for drawn in draws
        )
        return replace(finding, narrow=changed > TURNED_FRAC * DRAWS)

    def _judge(self, table: Table, measure: AnyMeasure) -> Finding:
        points = table.points(self.at)
        if not points:
            return NOT_JUDGED
        if (limit := self.where) is not None:
            values = {point: table.value(limit.measure, limit.contender, point) for point in points}
            # A point with an undefined value or an invalid run counts as above: a failed run must not remove its point.
            points = [
                p for p, value in values.items() if not value <= limit.above or table.invalid.get((limit.contender, p))
            ]
        if not points:
            return NOWHERE
        judged = [f for line in self.lines(table, points) if (f := self.judge_at(table, measure, line)) is not None]
        if not judged:
            return NOT_JUDGED
        holds, text = all(held for held, _ in judged), "; ".join(text for _, text in judged)
        bad = [name for name in self.winners(measure) if any(table.invalid.get((name, point)) for point in points)]
        if holds and bad:
            return Finding(False, f"{text}; does not hold, because of invalid runs of {', '.join(bad)}")
        return Finding(holds, text)

    def winners(self, measure: AnyMeasure) -> tuple[str, ...]:
        """Contenders that look better if the check holds. It does not hold if one of them has an invalid run."""
        return self.names()

    def lines(self, table: Table, points: list[At]) -> list[list[At]]:
        """Groups of points that are judged together; by default each point alone."""
        return [[point] for point in points]

    @abstractmethod
    def judge_at(self, table: Table, measure: AnyMeasure, line: list[At]) -> Judged | None:
        """Judge one group of points that `lines` made; None if it cannot be judged: a single point has no trend."""


def known(what: str, name: str, names: Mapping[str, Any]) -> None:
    """Raise `UnknownNameError` unless `names` holds `name`."""
    if name not in names:
        raise UnknownNameError(what, name, names)


def known_points(where: str, at: Mapping[str, float | str], axes: Mapping[str, tuple[float | str, ...]]) -> None:
    """Raise `UnknownNameError` unless every axis named in `at` exists and has the value given there."""
    for axis, point in at.items():
        known(f"axis in {where}", axis, axes)
        if point not in axes[axis]:
            raise UnknownNameError(f"point of axis {axis!r} in {where}", f"{point}", map(str, axes[axis]))


def numeric_axis(where: str, axis: str, parts: Parts) -> None:
    """Raise `ConfigError` unless the axis exists and its points are numbers."""
    known(f"axis in {where}", axis, parts.axes)
    if not all(isinstance(x, float) for x in parts.axes[axis]):
        raise ConfigError(f"{where}.axis: {axis!r} has cases, not numbers")


def favoured(measure: AnyMeasure, one: tuple[str, ...], others: tuple[str, ...], *, less: bool) -> tuple[str, ...]:
    """Return the side that looks better if `one` has smaller values than `others` (`less`), or larger ones.

    The result is both sides if the measure has no better direction.
    """
    better = measure.shown.better
    if better is Better.NEITHER:
        return *one, *others
    return one if less == (better is Better.LOWER) else others


def at_text(table: Table, point: At) -> str:
    """Text of a point with a colon, for a finding; empty if no axis has several points."""
    where = table.where(point)
    return f"{where}: " if where else ""
