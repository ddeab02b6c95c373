# SPDX-License-Identifier: BSD-3-Clause
"""The table of an experiment: a value for each measure, contender, point of the grid and seed."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from ncc.metrics.stats import Interval, interval

At = tuple[float | str, ...]
"""A point of the grid: one value per axis, in the order of `Table.axes`."""
Values = tuple[float, ...]
"""One value per seed; NaN where the measure is undefined."""


@dataclass(frozen=True)
class Table:
    """Values in SI units, for every contender at every point."""

    axes: Mapping[str, tuple[float | str, ...]]
    """Points that were run, by axis."""
    contenders: tuple[str, ...]
    values: Mapping[tuple[str, str, At], Values]
    """Values by measure, contender and point; those of a contender that did not run at a point are NaN."""
    expected: Mapping[tuple[str, str, At], float] = field(default_factory=dict)
    """The paper's values by measure, contender and point, where the paper gives one."""
    invalid: Mapping[tuple[str, At], int] = field(default_factory=dict)
    """Numbers of invalid runs by contender and point, where there are any. Their values count as they are."""
    drawn: tuple[int, ...] = ()
    """Positions of the seeds that count, with repetitions, in a bootstrap sample; empty: every seed counts once."""
    _known: dict[tuple[str, str, At], Interval] = field(default_factory=dict, init=False, repr=False, compare=False)

    def points(self, at: Mapping[str, float | str] | None = None) -> list[At]:
        """Points that have the values of `at` on the axes that it names; empty if no such point was run."""
        wanted = at or {}
        return [
            point
            for point in product(*self.axes.values())
            if all(wanted.get(axis, x) == x for axis, x in zip(self.axes, point, strict=True))
        ]

    def cell(self, measure: str, contender: str, point: At) -> Interval:
        """Mean over all seeds and its bootstrap interval."""
        key = (measure, contender, point)
        if key not in self._known:
            self._known[key] = interval(self._of(*key))
        return self._known[key]

    def value(self, measure: str, contender: str, point: At) -> float:
        """Mean over all seeds, or over those of the bootstrap sample (`drawn`).

        It is NaN if any value is NaN, so that a verdict never rests on a part of the seeds.
        """
        return float(np.mean(self.of(measure, contender, point)))

    def of(self, measure: str, contender: str, point: At) -> Values:
        """Values of all seeds, or of those of the bootstrap sample (`drawn`)."""
        values = self._of(measure, contender, point)
        return tuple(values[i] for i in self.drawn) if self.drawn else values

    def _of(self, measure: str, contender: str, point: At) -> Values:
        n_seeds = len(next(iter(self.values.values()), ()))
        return self.values.get((measure, contender, point), (math.nan,) * n_seeds)

    def where(self, point: At) -> str:
        """Text with the point's value on each axis; axes with a single value are left out."""
        words = [f"{axis} {text_of(x)}" for axis, x in zip(self.axes, point, strict=True) if len(self.axes[axis]) > 1]
        return ", ".join(words)

    def lines(self, along: str, points: Iterable[At]) -> dict[At, list[At]]:
        """Group points into lines along an axis, by their values on the other axes.

        The points of a line differ only in their value on the axis, and keep their order.
        """
        at = list(self.axes).index(along)
        groups: dict[At, list[At]] = {}
        for point in points:
            groups.setdefault((*point[:at], *point[at + 1 :]), []).append(point)
        return groups

    def along(self, axis: str, point: At) -> float | str:
        """Value of the point on an axis."""
        return point[list(self.axes).index(axis)]


def rounded(value: float, digits: int = 6) -> float | None:
    """Round to `digits` significant digits, for JSON; NaN becomes None."""
    return None if math.isnan(value) else float(f"{value:.{digits}g}")


def text_of(x: float | str) -> str:
    """Format a value of an axis: a number, or the name of a case."""
    return x if isinstance(x, str) else f"{x:g}"
