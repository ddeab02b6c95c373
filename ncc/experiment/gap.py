# SPDX-License-Identifier: BSD-3-Clause
"""How much of what there is to gain somebody gains: the check of gaps to a bound."""

import math
from collections.abc import Mapping
from typing import Any

from msgspec import field

from ncc.core.errors import ConfigError
from ncc.core.value import Name
from ncc.experiment.bound import Bound
from ncc.experiment.check import Check, Finding, at_text, known_in
from ncc.experiment.measures import AnyMeasure
from ncc.experiment.table import At, Table
from ncc.metrics.stats import gap_closed


class GapClosed(Check, frozen=True, kw_only=True, tag="gap_closed"):
    """At every point: of the way from the measure of contender `from` down to `bound`, `one` goes at least `low`.

    0 is as far as `from`, 1 as far as the bound, below 0 worse than `from`. Where `from` is not above the bound there
    is no gap, and the check does not hold.
    """

    origin: Name = field(name="from")
    one: Name
    bound: Name
    """A measure of kind `bound`, of the same flows in the same statistic; taken of the runs of `from`."""
    low: float
    high: float | None = None

    def check(self) -> None:
        if self.high is not None and self.low > self.high:
            raise ConfigError(f"GapClosed.low must not be above high ({self.high}), got {self.low}")
        if self.origin == self.one:
            raise ConfigError(f"GapClosed.from and one must be two contenders, got {self.one!r} for both")

    def names(self) -> tuple[str, ...]:
        return self.origin, self.one

    def winners(self, measure: AnyMeasure) -> tuple[str, ...]:
        return (self.one,)

    def fits(
        self,
        where: str,
        measures: Mapping[str, AnyMeasure],
        contenders: Mapping[str, Any],
        axes: Mapping[str, tuple[float | str, ...]],
    ) -> None:
        super().fits(where, measures, contenders, axes)
        bounds = {name: measure for name, measure in measures.items() if isinstance(measure, Bound)}
        known_in(f"measure of kind bound in {where}", self.bound, bounds)
        ours, theirs = measures[self.measure], bounds[self.bound]
        parts = ("size", "statistic", "traffic")
        if any(getattr(ours, part, None) != getattr(theirs, part) for part in parts):
            raise ConfigError(
                f"{where}: {self.measure!r} must be of kind fct, with the size, statistic and traffic of {self.bound!r}"
            )

    def judge_at(self, table: Table, measure: AnyMeasure, points: list[At]) -> Finding:
        parts, holds = [], True
        for point in points:
            start, ours = (table.value(self.measure, name, point) for name in self.names())
            goal = table.value(self.bound, self.origin, point)
            share = (start - ours) / (start - goal) if start > goal else math.nan
            holds &= self.low <= share <= (math.inf if self.high is None else self.high)
            undefined = "undefined" if math.isnan(start - goal) else "no gap"
            what = undefined if math.isnan(share) else f"{100 * share:z.0f} %{self._spread(table, point)}"
            numbers = f"{measure.text(ours)} on the way from {measure.text(start)} to {measure.text(goal)}"
            parts.append(f"{at_text(table, point)}{what}: {numbers}")
        return Finding(holds, "; ".join(parts))

    def _spread(self, table: Table, point: At) -> str:
        """The bootstrap interval over seeds, if it has one."""
        start, ours = (table.values[self.measure, name, point] for name in self.names())
        found = gap_closed(ours, start, table.values[self.bound, self.origin, point])
        return "" if math.isnan(found.low) else f" [{100 * found.low:z.0f}, {100 * found.high:z.0f}]"
