# SPDX-License-Identifier: BSD-3-Clause
"""The same controllers on the same flows, once per datapath: each datapath's results, and their agreement."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ncc.core.errors import ConfigError, ResultError
from ncc.harness.atomic import replacing, write_text
from ncc.metrics.catalogue import CATALOGUE
from ncc.metrics.stats import Interval
from ncc.results.comparison import Comparison, ratio_of, span, without_nan

FORMAT = 2
JSON, PARQUET = "comparison.json", "comparison.parquet"

TOLERANCES: Mapping[str, float] = {"slowdown_all_mean": 0.05, "slowdown_all_p99": 0.10, "goodput_bps": 0.01}
"""Metrics by which datapaths are compared, each with the tolerated distance of its ratio from 1."""


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
        """Datapath with which the others are compared."""
        return self.datapaths[-1]

    @property
    def any(self) -> Comparison:
        """One of the comparisons, for data that all have in common: scenario, controllers, seeds, number of flows."""
        return self.comparisons[self.reference]

    @property
    def valid(self) -> bool:
        """True if every run may be used."""
        return all(comparison.valid for comparison in self.comparisons.values())

    def ratio(self, datapath: str, controller: str, metric: str) -> Interval:
        """Ratio of the metric on `datapath` to that on the reference: means over seeds, resampled in pairs."""
        judged, reference = (tuple(c.values[controller][metric]) for c in (self.comparisons[datapath], self.any))
        return ratio_of(judged, reference, self.any.statistic, self.any.level)

    def strays(self, datapath: str, controller: str, metric: str) -> bool:
        """True if the datapath differs from the reference by more than `TOLERANCES` allow."""
        estimate = self.ratio(datapath, controller, metric).estimate
        return bool(abs(estimate - 1.0) > TOLERANCES[metric])

    def save(self, folder: Path) -> None:
        """Write `comparison.json` (with the values of every seed) and `comparison.parquet` (a row per cell)."""
        write_text(folder / JSON, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")
        rows = [{"datapath": name, **row} for name, c in self.comparisons.items() for row in c.rows()]
        with replacing(folder / PARQUET) as temporary:
            pq.write_table(pa.Table.from_pylist(rows), temporary)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data; undefined numbers are null."""
        return {
            "format": FORMAT,
            "datapaths": list(self.datapaths),
            "comparisons": {name: c.to_dict() for name, c in self.comparisons.items()},
            "agreement": without_nan(self._agreement()),
        }

    def _agreement(self) -> list[dict[str, Any]]:
        return [
            {
                "metric": metric,
                "label": CATALOGUE[metric].label,
                "datapath": datapath,
                "reference": self.reference,
                "controller": controller,
                **span(self.ratio(datapath, controller, metric)),
                "tolerance": tolerance,
                "strays": self.strays(datapath, controller, metric),
            }
            for datapath in self.datapaths[:-1]
            for metric, tolerance in TOLERANCES.items()
            for controller in self.any.controllers
        ]


def load_judgement(folder: Path) -> Judgement:
    """Read a judgement that `Judgement.save` wrote; `ResultError` if it is invalid."""
    path = folder / JSON
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != FORMAT:
            raise ResultError(f"{path} has format {data['format']!r}; this ncc reads format {FORMAT}: compare again")
        return Judgement({name: Comparison.from_dict(data["comparisons"][name]) for name in data["datapaths"]})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"{path} cannot be read as a comparison ({error!r}); compare again") from None
