# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons of the same controllers on the same flows, one for each datapath."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ncc.core.errors import ConfigError
from ncc.harness.atomic import write_text
from ncc.results.comparison import Comparison

JSON = "comparison.json"


@dataclass(frozen=True)
class Judgement:
    """Comparisons of the same controllers, one per datapath.

    Raises:
        ConfigError: there is no datapath, or datapaths differ in controllers, seeds or flows and cannot be paired.
    """

    comparisons: Mapping[str, Comparison]
    """Comparison by datapath; the last is that of `judged_by`."""

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
    def judged_by(self) -> str:
        """The last datapath, whose verdict comes first."""
        return self.datapaths[-1]

    @property
    def any(self) -> Comparison:
        """Comparison on `judged_by`, for data that all comparisons have in common, such as controllers and seeds."""
        return self.comparisons[self.judged_by]

    @property
    def valid(self) -> bool:
        """True if no run of any datapath is invalid."""
        return all(comparison.valid for comparison in self.comparisons.values())

    def save(self, folder: Path) -> None:
        """Write all values of every seed into `folder`/comparison.json."""
        comparisons = {name: c.to_dict() for name, c in self.comparisons.items()}
        plain = {"datapaths": self.datapaths, "comparisons": comparisons}
        write_text(folder / JSON, json.dumps(plain, indent=1, allow_nan=False) + "\n")
