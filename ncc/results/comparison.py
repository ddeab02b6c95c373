# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of controllers on one datapath: every metric with its interval over seeds, and the best controllers."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.harness.controller import OPPONENT, TUNED, AnyLimit, Controller, Formula, NoLimit
from ncc.harness.results import Evaluation, StoredRun
from ncc.harness.run import eval_flow_seed
from ncc.metrics.bounds import LOWEST, bound_summary, bounds_for
from ncc.metrics.catalogue import CATALOGUE, Better, worst
from ncc.metrics.stats import Interval, gap_closed, interval, paired_ratio

MIN_SEEDS = 5
"""Smallest number of paired seeds that can distinguish controllers: with fewer, bootstrap intervals are too narrow."""

GAP_METRIC = "fct_mean_s"
"""Metric of verdicts, and of the gap to the lowest bound."""

Values = list[float]
"""One value per seed, in the order of `Comparison.seeds`; NaN where the metric is undefined."""


_interval = lru_cache(maxsize=20_000)(interval)
"""`interval`, cached, because a table asks for the same bootstrap many times while it finds its width."""
ratio_of = lru_cache(maxsize=20_000)(paired_ratio)
"""`paired_ratio`, cached; its arguments must be tuples."""


def _without_nan(value: Any) -> Any:
    """Convert to plain data for JSON: keys become text, tuples lists, and NaN None."""
    if isinstance(value, Mapping):
        return {str(key): _without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and np.isnan(value) else value


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All values of a comparison, in SI units. Metrics are named by the keys of `ncc.metrics.catalogue`."""

    scenario: str = ""
    controllers: tuple[str, ...]
    seeds: tuple[int, ...]
    n_flows: int = 0
    """Number of flows that each controller was given, over all seeds."""
    duration_s: float = math.nan
    """Seconds in which flows arrive, in every run; NaN if unknown."""
    learned: tuple[str, ...] = ()
    """Controllers whose limits come from a policy, a model or a user's class, and not from a formula of ncc."""
    classical: tuple[str, ...] = ()
    """Controllers without rate limits, which consist of a transport alone."""
    reference: str = ""
    """Controller that the user wants the others to be compared with; empty: `ncc.results.verdict.opponent`."""
    warnings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Warnings about a controller's numbers, one sentence each, by controller."""
    invalid: Mapping[str, Mapping[int, Sequence[str]]]
    """Problems of invalid runs, by controller and seed. The values of such runs count as they are, but their controller
    is never the best."""
    values: Mapping[str, Mapping[str, Values]]
    """Values by controller, then metric."""
    bounds: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    """Values by bound (`ncc.metrics.bounds`), then metric: the same flows under ideal sharing. A bound is no controller
    and is never the best."""

    def __post_init__(self) -> None:
        if both := sorted(set(self.bounds) & set(self.controllers)):
            raise ConfigError(f"a controller may not be called {both[0]!r}, as a bound is; give it another name")

    @property
    def valid(self) -> bool:
        """True if every run may be used."""
        return not any(self.invalid.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that are defined in at least one run, in the catalogue's order."""
        return tuple(
            key
            for key in CATALOGUE
            if any(np.isfinite(self.values[name].get(key, ())).any() for name in self.controllers)
        )

    def cell(self, name: str, metric: str) -> Interval:
        """Mean over seeds and its bootstrap interval, for a controller or a bound."""
        values = self.bounds[name] if name in self.bounds else self.values[name]
        return _interval(tuple(values[metric]))

    def ratio(self, one: str, other: str, metric: str) -> Interval:
        """Mean of `one` divided by the mean of `other`, with the bootstrap interval over pairs of the same seed."""
        return ratio_of(tuple(self.values[one][metric]), tuple(self.values[other][metric]))

    @property
    def gap_start(self) -> str:
        """Controller from whose mean FCT the gap to the lowest bound is measured: the reference, else DCTCP."""
        return self.reference or OPPONENT

    @cached_property
    def gaps(self) -> dict[str, Interval]:
        """Share of the gap from the mean FCT of `gap_start` to that of the SRPT bound that each other one closes.

        See `ncc.metrics.stats.gap_closed`. The result is empty without bounds or if `gap_start` was not run.
        """
        if LOWEST not in self.bounds or self.gap_start not in self.controllers:
            return {}
        start, goal = self.values[self.gap_start][GAP_METRIC], self.bounds[LOWEST][GAP_METRIC]
        others = [name for name in self.controllers if name != self.gap_start]
        return {name: gap_closed(self.values[name][GAP_METRIC], start, goal) for name in others}

    def best(self, metric: str) -> tuple[str, ...]:
        """The best controller and those that cannot be distinguished from it, best first.

        Two controllers differ if the paired interval of their difference excludes 0 and they share `MIN_SEEDS` seeds.
        A controller with an invalid run is never among the best. The result is empty with fewer than `MIN_SEEDS` seeds,
        for a metric without a better direction, or if all controllers would be among the best.
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
        """True if the seeds with values of both controllers cannot distinguish the two."""
        difference = self.difference(one, other, metric)
        return difference.n < MIN_SEEDS or 0.0 in difference

    def difference(self, one: str, other: str, metric: str) -> Interval:
        """Mean over seeds of `one` minus `other`, paired by seed, with its bootstrap interval."""
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
    """Compare controllers by the summaries of their runs, as `ncc.metrics.summary.summarise` computes them.

    Where an invalid run leaves a metric undefined, it gets the worst value that any controller has for that seed.

    Args:
        summaries: for each controller, one summary per seed, in the order of `seeds`.
        invalid: problems of invalid runs, by controller and seed.
        about: other fields of `Comparison`.
    """
    refused = {name: dict(runs) for name, runs in (invalid or {}).items() if runs}
    values = {
        name: {key: [float(run[key]) for run in runs] for key in CATALOGUE if key in runs[0]}
        for name, runs in summaries.items()
    }
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
    reference: str | None = None,
) -> Comparison:
    """Compare the controllers of an evaluation on disk.

    A controller whose hosts or switches have other settings than the base scenario gets a warning that names them.

    Args:
        bounds: include the bounds of `ncc.metrics.bounds`, unless the scenario has endless flows.
        warnings: further warnings, as in `Comparison`.
        reference: `Comparison.reference`; None: that of the evaluation's settings.

    Raises:
        UnknownNameError: the reference was not run.
        ConfigError: the controllers were not run with the same flows and seeds, so there are no pairs.
    """
    seeds = {name: [run.seed for run in evaluation.of(name)] for name in evaluation.controllers}
    first = seeds[evaluation.controllers[0]]
    flows = {_flows(run) for run in evaluation.runs}
    if any(sorted(other) != sorted(first) for other in seeds.values()) or len(flows) > 1:
        raise ConfigError(f"{evaluation.folder}: every controller needs the same flows and seeds, found {seeds}")
    reference = reference or evaluation.settings.get("reference")
    if reference and reference not in evaluation.controllers:
        raise UnknownNameError(f"reference in {evaluation.folder}", reference, evaluation.controllers)
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
        reference=reference or "",
    )


def _flows(run: StoredRun) -> str:
    """Text that is equal for runs with equal flows; it leaves out settings in which tuned controllers may differ."""
    scenario = dict(run.manifest.facts["scenario"])
    hosts = {key: value for key, value in scenario["topology"].items() if key != "mark_threshold_bytes"}
    return json.dumps([scenario["name"], scenario["workload"], scenario["duration_s"], hosts], sort_keys=True)


def base_scenario(evaluation: Evaluation) -> Mapping[str, Any]:
    """Scenario, as plain data, of the first controller that is not tuned or, if all are tuned, of the first one."""
    runs = [run for run in evaluation.runs if not run.controller.endswith(TUNED)] or evaluation.runs
    scenario: Mapping[str, Any] = runs[0].manifest.facts["scenario"]
    return scenario


def _set_otherwise(base: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Text with the settings of hosts and switches in which `own` differs from `base`."""
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
    """Compute `Comparison.bounds` for the flows of these evaluation seeds."""
    bounds = {}
    for name in bounds_for(scenario):
        summaries = [bound_summary(scenario, eval_flow_seed(seed), name) for seed in seeds]
        bounds[name] = {key: [summary[key] for summary in summaries] for key in summaries[0]}
    return bounds
