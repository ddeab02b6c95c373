# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons of the same controllers on the same flows, one for each datapath, and the agreement of datapaths."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ncc.core.errors import ConfigError
from ncc.harness.atomic import write_text
from ncc.metrics.stats import Interval
from ncc.results.comparison import Comparison, ratio_of

JSON = "comparison.json"

TOLERANCES: Mapping[str, float] = {"slowdown_all_mean": 0.05, "slowdown_all_p99": 0.10, "goodput_bps": 0.01}
"""Metrics by which datapaths are compared, each with the largest accepted distance of its ratio from 1."""


@dataclass(frozen=True)
class Judgement:
    """Comparisons of the same controllers, one per datapath.

    Raises:
        ConfigError: there is no datapath, or datapaths differ in controllers, seeds or flows and cannot be paired.
    """

    comparisons: Mapping[str, Comparison]
    """Comparison by datapath; the last is the reference for the others."""

    def __post_init__(self) -> None:
        if not self.comparisons:
            raise ConfigError("nothing to compare: name at least one datapath")
        asked = {(c.scenario, c.controllers, c.seeds, c.n_flows, *c.bounds) for c in self.comparisons.values()}
        if len(asked) > 1:
            raise ConfigError(
                f"the datapaths {', '.join(self.comparisons)} must have run the same scenario, controllers and seeds"
            )

    @property
    def datapaths(self) -> tuple[str, ...]:
        """Names of the datapaths, in order."""
        return tuple(self.comparisons)

    @property
    def reference(self) -> str:
        """Datapath with which the others are compared: the last."""
        return self.datapaths[-1]

    @property
    def any(self) -> Comparison:
        """Comparison on the reference, for data that all comparisons have in common, such as controllers and seeds."""
        return self.comparisons[self.reference]

    @property
    def valid(self) -> bool:
        """True if no run of any datapath is invalid."""
        return all(comparison.valid for comparison in self.comparisons.values())

    def ratio(self, datapath: str, controller: str, metric: str) -> Interval:
        """Mean over seeds on `datapath` over the mean on the reference, with the bootstrap interval over pairs."""
        judged, reference = (tuple(c.values[controller][metric]) for c in (self.comparisons[datapath], self.any))
        return ratio_of(judged, reference)

    def strays(self, datapath: str, controller: str, metric: str) -> bool:
        """True if the ratio differs from 1 by more than `TOLERANCES` allow; False if it is undefined."""
        estimate = self.ratio(datapath, controller, metric).estimate
        return bool(abs(estimate - 1.0) > TOLERANCES[metric])

    def save(self, folder: Path) -> None:
        """Write all values of every seed into `folder`/comparison.json."""
        comparisons = {name: c.to_dict() for name, c in self.comparisons.items()}
        plain = {"datapaths": self.datapaths, "comparisons": comparisons}
        write_text(folder / JSON, json.dumps(plain, indent=1, allow_nan=False) + "\n")
