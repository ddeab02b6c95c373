# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of controllers on one datapath: every metric with its interval over seeds, and the best controllers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.harness.controller import AnyLimit, Controller, Formula, NoLimit
from ncc.harness.results import Evaluation, StoredRun
from ncc.harness.run import eval_flow_seed
from ncc.metrics.bounds import BOUNDS, LOWEST, bound_summary, has_bounds
from ncc.metrics.catalogue import CATALOGUE, Better, worst
from ncc.metrics.stats import Interval, Statistic, gap_closed, interval
from ncc.palette import label

MIN_SEEDS = 5
"""Smallest number of paired seeds that can distinguish controllers; a bootstrap interval of two values is just these
two."""

GAP_START, GAP_METRIC = "dctcp", "fct_mean_s"
"""Controller from which gaps to the lowest bound are measured, and their metric."""

Values = list[float]
"""Values per seed, in the order of `Comparison.seeds`; NaN where the metric is undefined."""


@dataclass(frozen=True)
class Comparison:
    """Values of a comparison, by keys of `ncc.metrics.catalogue` and in SI units."""

    scenario: str
    controllers: tuple[str, ...]
    seeds: tuple[int, ...]
    values: Mapping[str, Mapping[str, Values]]
    """Values by controller, then metric."""
    n_flows: int
    """Flows given to each controller, over all seeds."""
    invalid: Mapping[str, Mapping[int, Sequence[str]]] = field(default_factory=dict)
    """Problems of invalid runs, by controller and seed. Their values count as they are, and their controller is never
    best."""
    statistic: Statistic = "mean"
    level: float = 0.95
    bounds: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    """Values under ideal sharing of the same flows, by bound (`ncc.metrics.bounds`), then metric. Bounds are not
    controllers and do not compete."""
    duration_s: float = float("nan")
    """Seconds in which flows arrive, in every run; NaN if unknown."""
    learned: tuple[str, ...] = ()
    """Controllers whose limits are learned or unknown, not a formula of ours."""
    classical: tuple[str, ...] = ()
    """Controllers without a limit, which are a transport alone."""
    warnings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Warnings about a controller's numbers, one sentence each, by controller."""
    _known: dict[tuple[str, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cached intervals and ranks, because a table asks for the same bootstrap many times while it finds its width."""

    def __post_init__(self) -> None:
        if both := sorted(set(self.bounds) & set(self.controllers)):
            raise ConfigError(f"a controller may not be called {both[0]!r}, as a bound is; give it another name")

    @property
    def valid(self) -> bool:
        """True if every run may be used."""
        return not any(self.invalid.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that are defined for at least one controller, in the catalogue's order."""
        return tuple(
            key for key in CATALOGUE if any(np.isfinite(self.values[name][key]).any() for name in self.controllers)
        )

    def cell(self, name: str, metric: str) -> Interval:
        """Estimate and bootstrap interval over seeds, for a controller or a bound."""
        key = (name, metric)
        if key not in self._known:
            values = self.bounds[name] if name in self.bounds else self.values[name]
            self._known[key] = interval(values[metric], self.statistic, self.level)
        found: Interval = self._known[key]
        return found

    @property
    def gaps(self) -> dict[str, Interval]:
        """Share of the way from DCTCP's mean FCT to the SRPT bound's that each controller goes (`stats.gap_closed`).

        It is empty without bounds or without DCTCP; DCTCP's own share, 0, is left out.
        """
        if LOWEST not in self.bounds or GAP_START not in self.controllers:
            return {}
        if ("gaps",) not in self._known:
            start, goal = self.values[GAP_START][GAP_METRIC], self.bounds[LOWEST][GAP_METRIC]
            self._known["gaps",] = {
                name: gap_closed(self.values[name][GAP_METRIC], start, goal, self.level)
                for name in self.controllers
                if name != GAP_START
            }
        found: dict[str, Interval] = self._known["gaps",]
        return found

    def best(self, metric: str) -> tuple[str, ...]:
        """The best controller and those that cannot be distinguished from it, best first; empty if that is all of them.

        Two controllers differ if the paired interval of their difference excludes 0. A controller with an invalid run
        is never among them.
        """
        key = ("best", "", metric)
        if key not in self._known:
            self._known[key] = self._rank(metric)
        found: tuple[str, ...] = self._known[key]
        return found

    def _rank(self, metric: str) -> tuple[str, ...]:
        better = CATALOGUE[metric].better
        sign = -1.0 if better is Better.HIGHER else 1.0
        level = {
            name: sign * self.cell(name, metric).estimate for name in self.controllers if not self.invalid.get(name)
        }
        level = {name: value for name, value in level.items() if np.isfinite(value)}
        refused = any(self.invalid.values()) and len(self.seeds) >= MIN_SEEDS
        if better is Better.NEITHER or not level or (len(level) < 2 and not refused):
            return ()
        first = min(level, key=lambda name: level[name])
        tied = [name for name in level if name != first and self._alike(first, name, metric)]
        return () if len(tied) == len(level) - 1 and not refused else (first, *tied)

    def _alike(self, one: str, other: str, metric: str) -> bool:
        """True if the seeds that both have cannot distinguish the two."""
        found = self.difference(one, other, metric)
        return found.n < MIN_SEEDS or 0.0 in found

    def difference(self, one: str, other: str, metric: str) -> Interval:
        """Value of `one` minus that of `other`, paired by seed, with the interval over seeds."""
        key = (one, other, metric)
        if key not in self._known:
            differences = np.array(self.values[one][metric]) - np.array(self.values[other][metric])
            self._known[key] = interval(differences, self.statistic, self.level)
        found: Interval = self._known[key]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data with the values of every seed; undefined numbers are null."""
        return {
            "scenario": self.scenario,
            "controllers": list(self.controllers),
            "seeds": list(self.seeds),
            "n_flows": self.n_flows,
            "duration_s": _null(self.duration_s),
            "learned": list(self.learned),
            "classical": list(self.classical),
            "warnings": {name: list(said) for name, said in self.warnings.items()},
            "invalid": {name: {str(s): list(why) for s, why in runs.items()} for name, runs in self.invalid.items()},
            "statistic": self.statistic,
            "level": self.level,
            "values": _plain(self.values),
            "bounds": _plain(self.bounds),
            "gap_closed": [
                {"controller": name, "from": GAP_START, "to": LOWEST, "metric": GAP_METRIC, **_span(gap)}
                for name, gap in self.gaps.items()
            ],
            "cells": [{**row, **{k: _null(row[k]) for k in ("estimate", "low", "high")}} for row in self.rows()],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Comparison":
        """Restore data of `to_dict`; `KeyError`, `TypeError`, `ValueError` or `AttributeError` if it is invalid."""
        return cls(
            scenario=data["scenario"],
            controllers=tuple(data["controllers"]),
            seeds=tuple(data["seeds"]),
            values=_values(data["values"]),
            n_flows=data["n_flows"],
            invalid={name: {int(s): why for s, why in runs.items()} for name, runs in data["invalid"].items()},
            statistic=data["statistic"],
            level=data["level"],
            # Results of earlier versions lack these keys.
            bounds=_values(data.get("bounds", {})),
            duration_s=float("nan") if data.get("duration_s") is None else data["duration_s"],
            learned=tuple(data.get("learned", ())),
            classical=tuple(data.get("classical", ())),
            warnings=dict(data.get("warnings", {})),
        )

    def rows(self) -> list[dict[str, Any]]:
        """Table as plain data: a row per metric and controller or bound."""
        rows = []
        for key in self.metrics:
            best = self.best(key)
            for name in (*self.controllers, *self.bounds):
                cell = self.cell(name, key)
                rows.append(
                    {
                        "metric": key,
                        "label": CATALOGUE[key].label,
                        "controller": name,
                        "controller_label": label(name),
                        "estimate": cell.estimate,
                        "low": cell.low,
                        "high": cell.high,
                        "n_seeds": cell.n,
                        "n_missing": cell.n_missing,
                        "better": str(CATALOGUE[key].better),
                        "best": name in best,
                        "bound": name in self.bounds,
                        "n_invalid": len(self.invalid.get(name, {})),
                    }
                )
        return rows


def comparison(
    summaries: Mapping[str, Sequence[Mapping[str, float]]],
    seeds: Sequence[int],
    *,
    scenario: str = "",
    n_flows: int = 0,
    invalid: Mapping[str, Mapping[int, Sequence[str]]] | None = None,
    statistic: Statistic = "mean",
    level: float = 0.95,
    bounds: Mapping[str, Mapping[str, Values]] | None = None,
    **about: Any,
) -> Comparison:
    """Compare controllers by the summaries of their runs (`ncc.metrics.summary.summarise`), one per seed each.

    If an invalid run leaves a metric undefined, it counts as the worst of that seed.

    Args:
        about: other fields of `Comparison`.

    Raises:
        ConfigError: a controller does not have exactly one summary per seed.
    """
    for name, runs in summaries.items():
        if len(runs) != len(seeds):
            raise ConfigError(
                f"controller {name!r} has {len(runs)} summaries for {len(seeds)} seeds; it takes one each"
            )
    refused = {name: dict(runs) for name, runs in (invalid or {}).items() if runs}
    values = {name: {key: [float(run[key]) for run in runs] for key in CATALOGUE} for name, runs in summaries.items()}
    for name, bad in refused.items():
        for i in (i for i, seed in enumerate(seeds) if seed in bad):
            for key, column in values[name].items():
                if np.isnan(column[i]):
                    column[i] = worst((other[key][i] for other in values.values()), CATALOGUE[key].better)
    return Comparison(
        scenario,
        tuple(summaries),
        tuple(seeds),
        values,
        n_flows,
        refused,
        statistic,
        level,
        dict(bounds or {}),
        **about,
    )


def compare(
    evaluation: Evaluation,
    *,
    statistic: Statistic = "mean",
    level: float = 0.95,
    bounds: bool = False,
    warnings: Mapping[str, Sequence[str]] | None = None,
) -> Comparison:
    """Compare the controllers of an evaluation on disk.

    Args:
        bounds: include those of `ncc.metrics.bounds`, unless the scenario has endless flows.
        warnings: as in `Comparison`.

    Raises:
        ConfigError: the controllers were not run with the same scenario and seeds, so there are no pairs.
    """
    seeds = {name: [run.seed for run in evaluation.of(name)] for name in evaluation.controllers}
    first = seeds[evaluation.controllers[0]]
    digests = {run.manifest.facts["scenario_digest"] for run in evaluation.runs}
    if any(sorted(other) != sorted(first) for other in seeds.values()) or len(digests) > 1:
        raise ConfigError(f"{evaluation.folder}: every controller needs the same scenario and seeds, found {seeds}")
    invalid = {
        name: {run.seed: run.problems for run in evaluation.of(name) if run.problems} for name in evaluation.controllers
    }
    limits = {run.controller: _limit(run) for run in evaluation.runs}
    summaries = evaluation.summaries()
    scenario = from_dict(Scenario, evaluation.runs[0].manifest.facts["scenario"], "manifest.scenario")
    return comparison(
        {name: [summaries[name][seed] for seed in first] for name in evaluation.controllers},
        first,
        scenario=scenario.name,
        n_flows=sum(run.manifest.facts["n_flows"] for run in evaluation.of(evaluation.controllers[0])),
        invalid=invalid,
        statistic=statistic,
        level=level,
        bounds=bounds_of(scenario, first) if bounds and has_bounds(scenario) else {},
        duration_s=scenario.duration_s,
        learned=tuple(name for name, limit in limits.items() if not isinstance(limit, Formula)),
        classical=tuple(name for name, limit in limits.items() if isinstance(limit, NoLimit)),
        warnings={name: tuple(said) for name, said in (warnings or {}).items() if said},
    )


def _limit(run: StoredRun) -> AnyLimit:
    return from_dict(Controller, run.manifest.facts["controller"], "manifest.controller").limit


def bounds_of(scenario: Scenario, seeds: Sequence[int]) -> dict[str, dict[str, Values]]:
    """Compute `Comparison.bounds` of the flows of these evaluation seeds."""
    found = {}
    for name in BOUNDS:
        summaries = [bound_summary(scenario, eval_flow_seed(seed), name) for seed in seeds]
        found[name] = {key: [summary[key] for summary in summaries] for key in CATALOGUE}
    return found


def _plain(values: Mapping[str, Mapping[str, Values]]) -> dict[str, dict[str, list[float | None]]]:
    return {
        name: {key: [_null(v) for v in column] for key, column in columns.items()} for name, columns in values.items()
    }


def _values(plain: Mapping[str, Mapping[str, Sequence[float | None]]]) -> dict[str, dict[str, Values]]:
    """Restore the values from which `_plain` was made."""
    return {
        name: {key: [float("nan") if v is None else float(v) for v in column] for key, column in columns.items()}
        for name, columns in plain.items()
    }


def _span(found: Interval) -> dict[str, Any]:
    return {key: _null(getattr(found, key)) for key in ("estimate", "low", "high")} | {"n_seeds": found.n}


def _null(value: float) -> float | None:
    return None if np.isnan(value) else value
