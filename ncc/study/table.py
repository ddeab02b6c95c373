# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of an experiment: a value per measure, contender, point of the grid and seed."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from ncc.metrics.stats import Interval, interval

At = tuple[float | str, ...]
"""A point of the grid: one value per axis, in the order of `Table.axes`."""
Values = tuple[float, ...]
"""One per seed; NaN where undefined."""


@dataclass(frozen=True)
class Table:
    """Values in SI; every contender has every point."""

    axes: Mapping[str, tuple[float | str, ...]]
    """Points that were run, by axis."""
    contenders: tuple[str, ...]
    values: Mapping[tuple[str, str, At], Values]
    """Values by measure, contender and point."""
    expected: Mapping[tuple[str, str, At], float] = field(default_factory=dict)
    """The paper's values, where it has any."""
    invalid: Mapping[tuple[str, At], int] = field(default_factory=dict)
    """Numbers of invalid runs by contender and point, if there are any. Their values count as they are."""
    drawn: tuple[int, ...] = ()
    """Positions of resampled seeds, with repetitions; empty: every seed once."""
    _known: dict[tuple[str, str, At], Interval] = field(default_factory=dict, init=False, repr=False, compare=False)

    def points(self, at: Mapping[str, float | str] | None = None) -> list[At]:
        """Points that agree with `at` on the axes that it names; none if such a point was not run."""
        wanted = at or {}
        return [
            point
            for point in product(*self.axes.values())
            if all(wanted.get(axis, x) == x for axis, x in zip(self.axes, point, strict=True))
        ]

    def cell(self, measure: str, contender: str, point: At) -> Interval:
        """Mean over seeds and its bootstrap interval."""
        key = (measure, contender, point)
        if key not in self._known:
            self._known[key] = interval(self.values[key])
        return self._known[key]

    def value(self, measure: str, contender: str, point: At) -> float:
        """Mean over seeds; NaN if it is undefined for one seed, so that the others do not decide alone."""
        return float(np.mean(self.of(measure, contender, point)))

    def of(self, measure: str, contender: str, point: At) -> Values:
        """Values of the seeds that count."""
        values = self.values[measure, contender, point]
        return tuple(values[i] for i in self.drawn) if self.drawn else values

    def where(self, point: At) -> str:
        """A point in words; axes with a single point are left out."""
        words = [f"{axis} {text_of(x)}" for axis, x in zip(self.axes, point, strict=True) if len(self.axes[axis]) > 1]
        return ", ".join(words)

    def lines(self, along: str, points: Iterable[At]) -> dict[At, list[At]]:
        """Groups of points that differ along one axis only, in its order, by their values on the other axes."""
        at = list(self.axes).index(along)
        groups: dict[At, list[At]] = {}
        for point in points:
            groups.setdefault((*point[:at], *point[at + 1 :]), []).append(point)
        return groups

    def along(self, axis: str, point: At) -> float | str:
        """The point's value on an axis."""
        return point[list(self.axes).index(axis)]


def rounded(value: float, digits: int = 6) -> float | None:
    """The number to so many digits, as JSON has it; None if it is undefined."""
    return None if math.isnan(value) else float(f"{value:.{digits}g}")


def text_of(x: float | str) -> str:
    """A point of an axis in words."""
    return x if isinstance(x, str) else f"{x:g}"
