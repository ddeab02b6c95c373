# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of controllers on one datapath: every metric with its interval over seeds, and the best controllers."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.harness.controller import TUNED, AnyLimit, Controller, Formula, NoLimit
from ncc.harness.results import Evaluation, StoredRun
from ncc.harness.run import eval_flow_seed
from ncc.metrics.bounds import LOWEST, bound_summary, bounds_for
from ncc.metrics.catalogue import CATALOGUE, Better, worst
from ncc.metrics.stats import Interval, gap_closed, interval, paired_ratio

MIN_SEEDS = 5
"""Smallest number of paired seeds that can distinguish controllers; a bootstrap interval of two values is just these
two."""

GAP_START, GAP_METRIC = "dctcp", "fct_mean_s"
"""Controller from which gaps to the lowest bound are measured, and their metric."""

Values = list[float]
"""Values per seed, in the order of `Comparison.seeds`; NaN where the metric is undefined."""


_interval = lru_cache(maxsize=20_000)(interval)
"""`interval`, cached: a table asks for the same bootstrap many times while it finds its width."""
ratio_of = lru_cache(maxsize=20_000)(paired_ratio)
"""`paired_ratio` of tuples, cached."""


def _without_nan(value: Any) -> Any:
    """Plain data as JSON holds it: text for keys, lists, and null for an undefined number."""
    if isinstance(value, Mapping):
        return {str(key): _without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and np.isnan(value) else value


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Values of a comparison, by keys of `ncc.metrics.catalogue` and in SI units."""

    scenario: str = ""
    controllers: tuple[str, ...]
    seeds: tuple[int, ...]
    n_flows: int = 0
    """Flows given to each controller, over all seeds."""
    duration_s: float = math.nan
    """Seconds in which flows arrive, in every run; NaN if unknown."""
    learned: tuple[str, ...] = ()
    """Controllers with limits that are learned or unknown, and not one of our formulas."""
    classical: tuple[str, ...] = ()
    """Controllers without a limit, which are a transport alone."""
    warnings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Warnings about a controller's numbers, one sentence each, by controller."""
    invalid: Mapping[str, Mapping[int, Sequence[str]]]
    """Problems of invalid runs, by controller and seed. Their values count as they are, and their controller is never
    best."""
    values: Mapping[str, Mapping[str, Values]]
    """Values by controller, then metric."""
    bounds: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    """Values under ideal sharing of the same flows, by bound (`ncc.metrics.bounds`), then metric. Bounds are not
    controllers and do not compete."""

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
        values = self.bounds[name] if name in self.bounds else self.values[name]
        return _interval(tuple(values[metric]))

    def ratio(self, one: str, other: str, metric: str) -> Interval:
        """Ratio of the metric of `one` to that of `other`, with the interval over seeds in pairs."""
        return ratio_of(tuple(self.values[one][metric]), tuple(self.values[other][metric]))

    @cached_property
    def gaps(self) -> dict[str, Interval]:
        """Share that each controller closes of the gap from DCTCP's mean FCT to the SRPT bound's (`stats.gap_closed`).

        It is empty without bounds or without DCTCP; DCTCP's own share, 0, is left out.
        """
        if LOWEST not in self.bounds or GAP_START not in self.controllers:
            return {}
        start, goal = self.values[GAP_START][GAP_METRIC], self.bounds[LOWEST][GAP_METRIC]
        others = [name for name in self.controllers if name != GAP_START]
        return {name: gap_closed(self.values[name][GAP_METRIC], start, goal) for name in others}

    def best(self, metric: str) -> tuple[str, ...]:
        """The best controller and those that cannot be distinguished from it, best first; empty if these are all.

        Two controllers differ if the paired interval of their difference excludes 0. A controller with an invalid run
        is never among them.
        """
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
        difference = self.difference(one, other, metric)
        return difference.n < MIN_SEEDS or 0.0 in difference

    def difference(self, one: str, other: str, metric: str) -> Interval:
        """Value of `one` minus that of `other`, paired by seed, with the interval over seeds."""
        differences = np.array(self.values[one][metric]) - np.array(self.values[other][metric])
        return _interval(tuple(differences.tolist()))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data with the values of every seed; undefined numbers are null."""
        plain: dict[str, Any] = _without_nan({part.name: getattr(self, part.name) for part in fields(self)})
        return plain


def comparison(
    summaries: Mapping[str, Sequence[Mapping[str, float]]],
    seeds: Sequence[int],
    *,
    invalid: Mapping[str, Mapping[int, Sequence[str]]] | None = None,
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
    return Comparison(controllers=tuple(summaries), seeds=tuple(seeds), values=values, invalid=refused, **about)


def compare(
    evaluation: Evaluation,
    *,
    bounds: bool = False,
    warnings: Mapping[str, Sequence[str]] | None = None,
) -> Comparison:
    """Compare the controllers of an evaluation on disk.

    Args:
        bounds: include the bounds of `ncc.metrics.bounds`, unless the scenario has endless flows.
        warnings: as in `Comparison`.

    Raises:
        ConfigError: the controllers were not run with the same flows and seeds, so there are no pairs.
    """
    seeds = {name: [run.seed for run in evaluation.of(name)] for name in evaluation.controllers}
    first = seeds[evaluation.controllers[0]]
    flows = {_flows(run) for run in evaluation.runs}
    if any(sorted(other) != sorted(first) for other in seeds.values()) or len(flows) > 1:
        raise ConfigError(f"{evaluation.folder}: every controller needs the same flows and seeds, found {seeds}")
    invalid = {
        name: {run.seed: run.problems for run in evaluation.of(name) if run.problems} for name in evaluation.controllers
    }
    limits = {run.controller: _limit(run) for run in evaluation.runs}
    summaries = evaluation.summaries()
    plain = base_scenario(evaluation)
    scenario = from_dict(Scenario, plain, "manifest.scenario")
    texts = {name: list(sentences) for name, sentences in (warnings or {}).items()}
    for name in evaluation.controllers:
        if changed := _set_otherwise(plain, evaluation.of(name)[0].manifest.facts["scenario"]):
            texts.setdefault(name, []).append(f"runs with settings of its own: {changed}")
    return comparison(
        {name: [summaries[name][seed] for seed in first] for name in evaluation.controllers},
        first,
        scenario=scenario.name,
        n_flows=sum(run.manifest.facts["n_flows"] for run in evaluation.of(evaluation.controllers[0])),
        invalid=invalid,
        bounds=bounds_of(scenario, first) if bounds else {},
        duration_s=scenario.duration_s,
        learned=tuple(name for name, limit in limits.items() if not isinstance(limit, Formula)),
        classical=tuple(name for name, limit in limits.items() if isinstance(limit, NoLimit)),
        warnings={name: tuple(sentences) for name, sentences in texts.items() if sentences},
    )


def _flows(run: StoredRun) -> str:
    """Everything that decides a run's flows, as text. Tuned hosts and switches may have other settings."""
    scenario = dict(run.manifest.facts["scenario"])
    hosts = {key: value for key, value in scenario["topology"].items() if key != "mark_threshold_bytes"}
    return json.dumps([scenario["name"], scenario["workload"], scenario["duration_s"], hosts], sort_keys=True)


def base_scenario(evaluation: Evaluation) -> Mapping[str, Any]:
    """The plain scenario of an evaluation: that of the first controller that is not tuned, if there is one."""
    runs = [run for run in evaluation.runs if not run.controller.endswith(TUNED)] or evaluation.runs
    scenario: Mapping[str, Any] = runs[0].manifest.facts["scenario"]
    return scenario


def _set_otherwise(base: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Settings of hosts and switches in which a scenario differs from the base."""
    parts = [
        f"{part}.{key}={value}"
        for part in ("transport", "topology")
        for key, value in own[part].items()
        if value != base[part].get(key)
    ]
    return ", ".join(parts)


def _limit(run: StoredRun) -> AnyLimit:
    return from_dict(Controller, run.manifest.facts["controller"], "manifest.controller").limit


def bounds_of(scenario: Scenario, seeds: Sequence[int]) -> dict[str, dict[str, Values]]:
    """Compute `Comparison.bounds` of the flows of these evaluation seeds."""
    bounds = {}
    for name in bounds_for(scenario):
        summaries = [bound_summary(scenario, eval_flow_seed(seed), name) for seed in seeds]
        bounds[name] = {key: [summary[key] for summary in summaries] for key in CATALOGUE}
    return bounds
