# SPDX-License-Identifier: BSD-3-Clause
"""What shape is expected: small frozen values that look at a table and say whether it has it, with the numbers.

Means over seeds are judged; their intervals stand beside them in the report. To add one: write a `Check` subclass with
a `tag`, `names` and `judge_at`, and add it to `AnyCheck`.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from ncc.comparison import MIN_SEEDS
from ncc.core.errors import ConfigError
from ncc.core.value import Count, Name, NonNegative, Positive
from ncc.experiment.check import NOT_JUDGED, Check, Finding, at_text, known_in, numeric_axis
from ncc.experiment.gap import GapClosed
from ncc.experiment.measures import AnyMeasure
from ncc.experiment.table import At, Table
from ncc.metrics.catalogue import Better
from ncc.metrics.stats import Interval, interval

NAN = math.nan


class Order(Check, frozen=True, kw_only=True, tag="order"):
    """At every point: the measure of `one`, `relation`, `factor` times that of `other`.

    `tolerance` is a share of the right side: ">=" with 0.02 holds down to 0.98 of it.
    """

    one: Name
    other: Name
    relation: Literal[">=", "<="]
    factor: Positive = 1.0
    tolerance: NonNegative = 0.0
    surely: bool = False
    """Not of the means alone: of the whole interval of paired differences. Fewer than `MIN_SEEDS` seeds have none."""

    def names(self) -> tuple[str, ...]:
        return self.one, self.other

    def winners(self, measure: AnyMeasure) -> tuple[str, ...]:
        if measure.better_of is Better.NEITHER:
            return self.names()
        return (self.one,) if (self.relation == "<=") == (measure.better_of is Better.LOWER) else (self.other,)

    def judge_at(self, table: Table, measure: AnyMeasure, points: list[At]) -> Finding:
        parts, holds = [], True
        for point in points:
            one, other = (table.value(self.measure, name, point) for name in self.names())
            bound = self.factor * other
            slack = self.tolerance * abs(bound)
            # Against NaN every comparison is false, so that what is undefined never holds.
            holds &= one >= bound - slack if self.relation == ">=" else one <= bound + slack
            ratio = f" ({one / other:.3g}x)" if other else ""
            sure = ""
            if self.surely:
                told = self._interval(table, point)
                if told.n >= MIN_SEEDS:
                    holds &= told.low >= -slack if self.relation == ">=" else told.high <= slack
                    sure = f", difference in [{measure.text(told.low)}, {measure.text(told.high)}]"
            parts.append(f"{at_text(table, point)}{measure.text(one)} to {measure.text(other)}{ratio}{sure}")
        return Finding(holds, "; ".join(parts))

    def _interval(self, table: Table, point: At) -> Interval:
        """Of the mean over seeds of `one` less `factor` times `other`."""
        one, other = (np.array(table.values[self.measure, name, point]) for name in self.names())
        return interval(one - self.factor * other)


class Rank(Check, frozen=True, kw_only=True, tag="rank"):
    """At every point: among `one` and `others`, `one` has the `place`-th smallest value or a smaller one.

    With `largest`, the `place`-th largest or a larger one. `tolerance` is a share of the value that is at that place:
    with 0.11, `one` may be that much above it, or below.
    """

    one: Name
    others: Annotated[tuple[Name, ...], Meta(min_length=1)]
    place: Count = 1
    tolerance: NonNegative = 0.0
    largest: bool = False

    def check(self) -> None:
        if self.place > len(self.others):
            raise ConfigError(
                f"Rank.place must be at most the number of others, got {self.place} of {len(self.others)}"
            )

    def names(self) -> tuple[str, ...]:
        return self.one, *self.others

    def winners(self, measure: AnyMeasure) -> tuple[str, ...]:
        if measure.better_of is Better.NEITHER:
            return self.names()
        return self.others if self.largest == (measure.better_of is Better.LOWER) else (self.one,)

    def judge_at(self, table: Table, measure: AnyMeasure, points: list[At]) -> Finding:
        parts, holds = [], True
        for point in points:
            values = {name: table.value(self.measure, name, point) for name in self.names()}
            ranked = sorted(values, key=values.__getitem__, reverse=self.largest)
            bound = values[ranked[self.place - 1]]
            ahead = values[self.one] - bound if not self.largest else bound - values[self.one]
            holds &= ahead <= self.tolerance * abs(bound) and not any(math.isnan(value) for value in values.values())
            order = ", ".join(f"{name} {measure.text(values[name])}" for name in ranked)
            parts.append(f"{at_text(table, point)}{order}")
        return Finding(holds, "; ".join(parts))


class Within(Check, frozen=True, kw_only=True, tag="within"):
    """At every point: the measure of `contender` lies in [low, high], in SI; of `axis`, if one is named, times it."""

    contender: Name
    low: float | None = None
    high: float | None = None
    axis: str = ""
    """Bounds are multiples of this axis's value."""
    axis_scale: Positive = 1.0
    """The axis's unit in SI: 1500 where it counts packets of that size and the measure is in bytes."""

    def check(self) -> None:
        if self.low is None and self.high is None:
            raise ConfigError("Within must have low or high")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ConfigError(f"Within.low must not be above high ({self.high}), got {self.low}")

    def names(self) -> tuple[str, ...]:
        return (self.contender,)

    def fits(
        self,
        where: str,
        measures: Mapping[str, AnyMeasure],
        contenders: Mapping[str, Any],
        axes: Mapping[str, tuple[float | str, ...]],
    ) -> None:
        super().fits(where, measures, contenders, axes)
        if self.axis:
            numeric_axis(where, self.axis, axes)

    def judge_at(self, table: Table, measure: AnyMeasure, points: list[At]) -> Finding:
        parts, holds = [], True
        for point in points:
            value = table.value(self.measure, self.contender, point)
            unit = float(table.along(self.axis, point)) * self.axis_scale if self.axis else 1.0
            low = -math.inf if self.low is None else self.low * unit
            high = math.inf if self.high is None else self.high * unit
            holds &= low <= value <= high
            share = f" ({value / unit:.3g} of it)" if self.axis else ""
            parts.append(f"{at_text(table, point)}{measure.text(value)}{share}")
        return Finding(holds, "; ".join(parts))


class Near(Check, frozen=True, kw_only=True, tag="near"):
    """Wherever the experiment's `values` say what the paper has of `contender`: ours over it lies in [low, high]."""

    contender: Name
    low: Positive
    high: Positive

    def names(self) -> tuple[str, ...]:
        return (self.contender,)

    def judge_at(self, table: Table, measure: AnyMeasure, points: list[At]) -> Finding:
        parts, holds = [], True
        for point in points:
            theirs = table.expected.get((self.measure, self.contender, point))
            if theirs is None:
                continue
            ours = table.value(self.measure, self.contender, point)
            holds &= self.low * theirs <= ours <= self.high * theirs
            ratio = f" ({ours / theirs:.3g}x)" if theirs else ""
            parts.append(f"{at_text(table, point)}{measure.text(ours)} for {measure.text(theirs)}{ratio}")
        return Finding(holds, "; ".join(parts)) if parts else NOT_JUDGED


class Trend(Check, frozen=True, kw_only=True, tag="trend"):
    """Along `axis` the measure of `contender` rises, or falls, from each point to the next.

    `tolerance` is a share of the value before: a rise may fall back by that much. From the first to the last point it
    must rise or fall by `total`, a share of the first.
    """

    contender: Name
    axis: Name
    direction: Literal["rises", "falls"]
    tolerance: NonNegative = 0.0
    total: NonNegative = 0.0

    def names(self) -> tuple[str, ...]:
        return (self.contender,)

    def fits(
        self,
        where: str,
        measures: Mapping[str, AnyMeasure],
        contenders: Mapping[str, Any],
        axes: Mapping[str, tuple[float | str, ...]],
    ) -> None:
        super().fits(where, measures, contenders, axes)
        known_in(f"axis in {where}", self.axis, axes)

    def judge_at(self, table: Table, measure: AnyMeasure, points: list[At]) -> Finding:
        sign = 1.0 if self.direction == "rises" else -1.0
        parts, holds, judged = [], True, False
        for line in table.lines(self.axis, points).values():
            values = [table.value(self.measure, self.contender, point) for point in line]
            parts.append(", ".join(f"{at_text(table, p)}{measure.text(v)}" for p, v in zip(line, values, strict=True)))
            if len(line) < 2:
                continue
            judged = True
            pairs = list(pairwise(values))
            holds &= all(sign * (after - before) >= -self.tolerance * abs(before) for before, after in pairs)
            holds &= sign * (values[-1] - values[0]) >= self.total * abs(values[0])
        return Finding(holds, "; ".join(parts)) if judged else NOT_JUDGED


class Reaches(Check, frozen=True, kw_only=True, tag="reaches"):
    """The first value of `axis` from which on the measure stays at or above `level` lies in [low, high].

    With `below`, from which on it stays at or below. Bounds are of the axis. Points outside [low, high] must have been
    run on both sides, or there is nothing to find: the measure must miss the level somewhere before.
    """

    contender: Name
    axis: Name
    level: float
    """In SI."""
    low: float
    high: float
    below: bool = False

    def names(self) -> tuple[str, ...]:
        return (self.contender,)

    def fits(
        self,
        where: str,
        measures: Mapping[str, AnyMeasure],
        contenders: Mapping[str, Any],
        axes: Mapping[str, tuple[float | str, ...]],
    ) -> None:
        super().fits(where, measures, contenders, axes)
        numeric_axis(where, self.axis, axes)

    def judge_at(self, table: Table, measure: AnyMeasure, points: list[At]) -> Finding:
        parts, holds, judged = [], True, False
        for line in table.lines(self.axis, points).values():
            at = [float(table.along(self.axis, point)) for point in line]
            if not (at[0] < self.low and at[-1] >= self.low):
                continue
            judged = True
            values = [table.value(self.measure, self.contender, point) for point in line]
            there = [value <= self.level if self.below else value >= self.level for value in values]
            misses = [i for i, reached in enumerate(there) if not reached]
            first = misses[-1] + 1 if misses else 0
            found = at[first] if first < len(at) else NAN
            holds &= self.low <= found <= self.high and not any(math.isnan(value) for value in values)
            last = f", {measure.text(values[first - 1])} at {at[first - 1]:g}" if first else ""
            what = f"from {self.axis} {found:g}" if first < len(at) else f"not by {self.axis} {at[-1]:g}"
            parts.append(f"{what} (expected in {self.low:g} to {self.high:g}){last}")
        return Finding(holds, "; ".join(parts)) if judged else NOT_JUDGED


AnyCheck = Order | Rank | Within | Near | Trend | Reaches | GapClosed
