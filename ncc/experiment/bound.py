# SPDX-License-Identifier: BSD-3-Clause
"""Yardsticks as a measure: completion times of the run's flows under ideal sharing."""

from collections.abc import Callable
from typing import ClassVar, Literal

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.experiment.measure import OfTraffic, Seen, Statistic, statistic
from ncc.metrics.bounds import bound_fct_s, has_bounds
from ncc.metrics.fluid import Sharing
from ncc.metrics.summary import buckets


class Bound(OfTraffic, frozen=True, kw_only=True, tag="bound"):
    """Flow completion time of the same flows as fluids that share ideally (`ncc.metrics.fluid`), as `Fct` counts it.

    All contenders with the same flows have the same. Every flow of it completes, whatever the run delivered.
    """

    sharing: Sharing
    size: Literal["all", "small", "medium", "large"] = "all"
    statistic: Statistic = "mean"

    unit: ClassVar[str] = "ms"
    scale: ClassVar[float] = 1e3

    def fits(self, where: str, scenario: Scenario) -> None:
        super().fits(where, scenario)
        if not has_bounds(scenario):
            raise ConfigError(f"{where}: scenario {scenario.name!r} has endless flows, which have no completion time")

    def of(self, seen: Seen, others: Callable[[str], float]) -> float:
        took_s = bound_fct_s(seen.run.scenario, seen.run.flow_seed, self.sharing)
        return statistic(took_s[seen.flows(self.traffic) & buckets(seen.run.flows)[self.size]], self.statistic)
