# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of checks: each compares the measures in an experiment's table with the shape that a paper's figure has.

A check judges means over seeds, and says which numbers it compared. It judges again with resampled seeds; if that
often changes the outcome, the outcome is narrow. To add a kind, write a `Check` subclass with a `tag`, `names` and
`judge_at`, and add it to `AnyCheck`.
"""

import math
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta, field

from ncc.core.errors import ConfigError
from ncc.core.value import Count, Name, NonNegative, Positive
from ncc.metrics.stats import gap_closed
from ncc.study.checks_base import Check, Judged, Parts, at_text, favoured, known, numeric_axis
from ncc.study.measures import AnyMeasure
from ncc.study.measures_of_flows import Bound
from ncc.study.table import At, Table


class Order(Check, frozen=True, kw_only=True, tag="order"):
    """The measure of `one` is at least (or at most) `factor` times the measure of `other`, at every point.

    A point is one value for each axis of the experiment.
    `relation` is ">=" (at least) or "<=" (at most). `tolerance` is a share of the right side: with 0.02, ">=" holds if
    the left side is at least 0.98 of the right side.
    """

    one: Name
    other: Name
    relation: Literal[">=", "<="]
    factor: Positive = 1.0
    tolerance: NonNegative = 0.0

    def names(self) -> tuple[str, ...]:
        return self.one, self.other

    def winners(self, measure: AnyMeasure) -> tuple[str, ...]:
        return favoured(measure, (self.one,), (self.other,), less=self.relation == "<=")

    def judge_at(self, table: Table, measure: AnyMeasure, line: list[At]) -> Judged:
        (point,) = line
        one, other = (table.value(self.measure, name, point) for name in self.names())
        least = self.relation == ">="
        bound = self.factor * other
        slack = self.tolerance * abs(bound)
        # Comparisons with NaN are false, so the check does not hold where a value is undefined.
        holds = one >= bound - slack if least else one <= bound + slack
        text = f"{at_text(table, point)}{measure.text(one)} to {measure.text(other)}"
        text += f" ({one / other:.3g}x)" if other else ""
        return holds, text


class Rank(Check, frozen=True, kw_only=True, tag="rank"):
    """The value of `one` is among the `place` smallest of the values of `one` and `others`, at every point.

    `tolerance` is a share of the value at that place: with 0.11, `one` may be 11 % above it.
    """

    one: Name
    others: Annotated[tuple[Name, ...], Meta(min_length=1)]
    place: Count = 1
    tolerance: NonNegative = 0.0

    def check(self) -> None:
        if self.place > len(self.others):
            raise ConfigError(
                f"Rank.place must be at most the number of others, got {self.place} of {len(self.others)}"
            )

    def names(self) -> tuple[str, ...]:
        return self.one, *self.others

    def winners(self, measure: AnyMeasure) -> tuple[str, ...]:
        return favoured(measure, (self.one,), self.others, less=True)

    def judge_at(self, table: Table, measure: AnyMeasure, line: list[At]) -> Judged:
        (point,) = line
        values = {name: table.value(self.measure, name, point) for name in self.names()}
        ranked = sorted(values, key=values.__getitem__)
        bound = values[ranked[self.place - 1]]
        ahead = values[self.one] - bound
        holds = ahead <= self.tolerance * abs(bound) and not any(math.isnan(value) for value in values.values())
        order = ", ".join(f"{name} {measure.text(values[name])}" for name in ranked)
        return holds, f"{at_text(table, point)}{order}"


class Ascending(Check, frozen=True, kw_only=True, tag="ascending"):
    """The measure rises strictly from each contender of `order` to the next, at every point.

    The text of a point begins with "yes" or "no" and lists the contenders by their values.
    """

    order: Annotated[tuple[Name, ...], Meta(min_length=2)]

    def names(self) -> tuple[str, ...]:
        return self.order

    def winners(self, measure: AnyMeasure) -> tuple[str, ...]:
        return favoured(measure, self.order[:-1], self.order[-1:], less=True)

    def judge_at(self, table: Table, measure: AnyMeasure, line: list[At]) -> Judged:
        (point,) = line
        values = {name: table.value(self.measure, name, point) for name in self.order}
        holds = all(values[one] < values[other] for one, other in pairwise(self.order))
        ranked = ", ".join(f"{name} {measure.text(values[name])}" for name in sorted(values, key=values.__getitem__))
        return holds, f"{at_text(table, point)}{'yes' if holds else 'no'}: {ranked}"


def require_order(check: "Within | GapClosed") -> None:
    """Raise `ConfigError` if `low` is above `high`."""
    if check.low is not None and check.high is not None and check.low > check.high:
        raise ConfigError(f"{type(check).__name__}.low must not be above high ({check.high}), got {check.low}")


class OfOne(Check, frozen=True, kw_only=True):
    """Base of checks of a single contender."""

    contender: Name

    def names(self) -> tuple[str, ...]:
        return (self.contender,)


class Within(OfOne, frozen=True, kw_only=True, tag="within"):
    """The measure of `contender` lies in [low, high] at every point.

    The bounds are in SI units or, with `axis`, multiples of the point's value on that axis.
    """

    low: float | None = None
    """None: there is no lower bound."""
    high: float | None = None
    """None: there is no upper bound."""
    axis: str = ""
    """Axis whose value the bounds are multiples of; empty: they are in SI units."""
    axis_scale: Positive = 1.0
    """Unit of the axis in SI units: 1500 if it counts packets of 1500 bytes and the measure is in bytes."""

    def check(self) -> None:
        if self.low is None and self.high is None:
            raise ConfigError("Within must have low or high")
        require_order(self)

    def fits(self, where: str, parts: Parts) -> None:
        super().fits(where, parts)
        if self.axis:
            numeric_axis(where, self.axis, parts)

    def judge_at(self, table: Table, measure: AnyMeasure, line: list[At]) -> Judged:
        (point,) = line
        value = table.value(self.measure, self.contender, point)
        unit = float(table.along(self.axis, point)) * self.axis_scale if self.axis else 1.0
        low = -math.inf if self.low is None else self.low * unit
        high = math.inf if self.high is None else self.high * unit
        share = f" ({value / unit:.3g} of it)" if self.axis else ""
        return low <= value <= high, f"{at_text(table, point)}{measure.text(value)}{share}"


class Near(OfOne, frozen=True, kw_only=True, tag="near"):
    """Our value / the paper's lies in [low, high] at every point for which the paper gives a value of `contender`.

    The experiment's `values` hold the paper's values. Points without one are not judged.
    """

    low: Positive
    high: Positive

    def judge_at(self, table: Table, measure: AnyMeasure, line: list[At]) -> Judged | None:
        (point,) = line
        paper = table.expected.get((self.measure, self.contender, point))
        if paper is None:
            return None
        ours = table.value(self.measure, self.contender, point)
        ratio = f" ({ours / paper:.3g}x)" if paper else ""
        text = f"{at_text(table, point)}{measure.text(ours)} for {measure.text(paper)}{ratio}"
        return self.low * paper <= ours <= self.high * paper, text


class AlongAxis(OfOne, frozen=True, kw_only=True):
    """Base of checks of how a contender's measure changes along an axis."""

    axis: Name

    def fits(self, where: str, parts: Parts) -> None:
        super().fits(where, parts)
        known(f"axis in {where}", self.axis, parts.axes)

    def lines(self, table: Table, points: list[At]) -> list[list[At]]:
        return list(table.lines(self.axis, points).values())


class Trend(AlongAxis, frozen=True, kw_only=True, tag="trend"):
    """The measure of `contender` rises (or falls) along `axis`, from each point to the next.

    A step in the wrong direction is allowed if it is at most `tolerance`, as a share of the value before the step. From
    the first point to the last, the measure must rise (or fall) by at least `total`, as a share of the first value.
    """

    direction: Literal["rises", "falls"]
    tolerance: NonNegative = 0.0
    total: NonNegative = 0.0

    def judge_at(self, table: Table, measure: AnyMeasure, line: list[At]) -> Judged | None:
        if len(line) < 2:
            return None
        sign = 1.0 if self.direction == "rises" else -1.0
        values = [table.value(self.measure, self.contender, point) for point in line]
        holds = all(sign * (after - before) >= -self.tolerance * abs(before) for before, after in pairwise(values))
        holds &= sign * (values[-1] - values[0]) >= self.total * abs(values[0])
        text = ", ".join(f"{at_text(table, p)}{measure.text(v)}" for p, v in zip(line, values, strict=True))
        return holds, text


class Reaches(AlongAxis, frozen=True, kw_only=True, tag="reaches"):
    """The measure reaches `level` at a value of `axis` in [low, high], and is never below it at larger values.

    The check is judged only if a point below `low` and a point at or above `low` were run.
    """

    level: float
    """Level in SI units."""
    low: float
    """Lower bound, a value of the axis."""
    high: float
    """Upper bound, a value of the axis."""

    def fits(self, where: str, parts: Parts) -> None:
        super().fits(where, parts)
        numeric_axis(where, self.axis, parts)

    def judge_at(self, table: Table, measure: AnyMeasure, line: list[At]) -> Judged | None:
        at = [float(table.along(self.axis, point)) for point in line]
        if not (at[0] < self.low and at[-1] >= self.low):
            return None
        values = [table.value(self.measure, self.contender, point) for point in line]
        first = max((i for i, value in enumerate(values, start=1) if not value >= self.level), default=0)
        reached = at[first] if first < len(at) else math.nan
        holds = self.low <= reached <= self.high and not any(math.isnan(value) for value in values)
        last = f", {measure.text(values[first - 1])} at {at[first - 1]:g}" if first else ""
        what = f"from {self.axis} {reached:g}" if first < len(at) else f"not by {self.axis} {at[-1]:g}"
        return holds, f"{what} (expected in {self.low:g} to {self.high:g}){last}"


class GapClosed(Check, frozen=True, kw_only=True, tag="gap_closed"):
    """The share of the gap between `from` and `bound` that `one` closes lies in [low, high] at every point.

    The share is 0 if `one` equals contender `from`, 1 if it equals the bound, and below 0 if it is worse than `from`.
    If `from` is not above the bound, there is no gap, and the check does not hold.
    """

    origin: Name = field(name="from")
    one: Name
    bound: Name
    """Name of a measure of kind `bound` with the same flows and statistic; its value for `from` counts."""
    low: float
    high: float | None = None
    """None: there is no upper bound."""

    def check(self) -> None:
        require_order(self)
        if self.origin == self.one:
            raise ConfigError(f"GapClosed.from and one must be two contenders, got {self.one!r} for both")

    def names(self) -> tuple[str, ...]:
        return self.origin, self.one

    def winners(self, measure: AnyMeasure) -> tuple[str, ...]:
        return (self.one,)

    def fits(self, where: str, parts: Parts) -> None:
        super().fits(where, parts)
        bounds = {name: measure for name, measure in parts.measures.items() if isinstance(measure, Bound)}
        known(f"measure of kind bound in {where}", self.bound, bounds)
        fct, bound = parts.measures[self.measure], bounds[self.bound]
        if any(getattr(fct, part, None) != getattr(bound, part) for part in ("size", "statistic", "traffic")):
            raise ConfigError(
                f"{where}: {self.measure!r} must be of kind fct, with the size, statistic and traffic of {self.bound!r}"
            )

    def judge_at(self, table: Table, measure: AnyMeasure, line: list[At]) -> Judged:
        (point,) = line
        start, ours = (table.value(self.measure, name, point) for name in self.names())
        goal = table.value(self.bound, self.origin, point)
        share = (start - ours) / (start - goal) if start > goal else math.nan
        holds = self.low <= share <= (math.inf if self.high is None else self.high)
        what = "undefined" if math.isnan(start - goal) else "no gap"
        if not math.isnan(share):
            starts, ends = (table.of(self.measure, name, point) for name in self.names())
            closed = gap_closed(ends, starts, table.of(self.bound, self.origin, point))
            spread = "" if math.isnan(closed.low) else f" [{100 * closed.low:z.0f}, {100 * closed.high:z.0f}]"
            what = f"{100 * share:z.0f} %{spread}"
        numbers = f"{measure.text(ours)} on the way from {measure.text(start)} to {measure.text(goal)}"
        return holds, f"{at_text(table, point)}{what}: {numbers}"


AnyCheck = Order | Rank | Ascending | Within | Near | Trend | Reaches | GapClosed
