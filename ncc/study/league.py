# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of contenders over all points of an experiment that has a `Ranking`, with what each contender needs.

Values of a seed belong together, because its flows are the same for all. A bootstrap draws seeds with replacement, the
same for all contenders (Efron 1979). In each draw the means over its seeds are ranked at each point. The interval of a
rank is that of its middle 95 %.

Tables are made from the plain data of `ncc.study.result.Result.to_dict`. A contender that was run later, on the same
flows, is placed among those of an earlier result (`placed`).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ncc.baselines import registry
from ncc.core.errors import ConfigError, ResultError
from ncc.core.flows import BoolArray, FloatArray, FlowTable, columns_of
from ncc.core.scenario import Scenario
from ncc.core.seeding import generator
from ncc.harness.atomic import write_text
from ncc.harness.controller import (
    Controller,
    LocalLimit,
    MaxMinLimit,
    NoLimit,
    PolicyLimit,
    ReceiverRuleLimit,
    ShortestFirstLimit,
)
from ncc.harness.run import eval_flow_seed
from ncc.metrics.stats import BATCH, LEVEL, N_RESAMPLES, paired_ratio
from ncc.results.grid import BEST, Cell, Grid, Row
from ncc.results.report.page import render_ranks
from ncc.study.page import DASH
from ncc.study.points import Grid as Runs
from ncc.study.spec import Contender, Need
from ncc.study.table import At, Table, text_of

Plain = Mapping[str, Any]
"""Data of `ncc.study.result.Result.to_dict`."""
MEANING: dict[Need, str] = {
    "marks": "switches mark packets (ECN)",
    "tuning": "settings for each kind of network, or a training",
    "sizes": "hosts know how long a flow is",
    "words": "messages beside data: of hosts, receivers or both ends",
    "agents": "a program on each host that limits rates or windows",
    "classes": "switches with priorities, which today's have",
    "routes": "another choice of paths than a hash of the flow",
    "switches": "switches do something that today's do not",
    "stack": "a new transport at both ends in place of TCP",
    "oracle": "perfect knowledge, which nobody has",
}
GROUPS: tuple[tuple[str, frozenset[Need]], ...] = (
    ("TCP, and ports that drop or mark", frozenset()),
    ("Agents on hosts", frozenset({"agents"})),
    ("Settings of today's switches", frozenset({"classes", "routes"})),
    ("New switches", frozenset({"switches"})),
    ("New transports of both ends", frozenset({"stack"})),
    ("Perfect knowledge, without a rank", frozenset({"oracle"})),
)
"""Groups of contenders, by their dearest need: a contender is in the last group one of whose needs it has."""
BY_SIZE = frozenset({"srpt", "sjf", "upsilon", "remaining", "by_size"})
"""Orders of hosts and tags that read sizes of flows."""
PUBLISHED, PAGE = "league.json", "league.html"
DIGITS = 6
"""Significant digits of stored values."""


def needs_of(contender: Contender, controller: Controller, scenario: Scenario) -> tuple[Need, ...]:
    """List what a contender needs, from its settings in a scenario, and from `Contender.needs`."""
    stack, topology = controller.stack, scenario.topology
    limits = [limit for limit in (controller.limit, controller.receivers) if not isinstance(limit, NoLimit | None)]
    known = registry.controllers()
    both_ends = any(name in registry.message_transports() for name in stack.transports)
    rules = [limit for limit in limits if isinstance(limit, ReceiverRuleLimit)]
    talks = any(isinstance(limit, LocalLimit | PolicyLimit) for limit in limits)
    found: dict[Need, bool] = {
        "marks": bool(topology.red)
        or any(known[name].ecn is not registry.Ecn.NONE for name in stack.transports if name in known),
        "tuning": bool(contender.tuned) or any(isinstance(limit, PolicyLimit) for limit in limits),
        "sizes": bool({stack.order, stack.tags} & BY_SIZE) or talks or any(r.order == "remaining" for r in rules),
        "words": both_ends or talks or controller.limit.needs_receivers or bool(rules),
        "agents": bool(limits),
        "classes": topology.classes > 1,
        "routes": scenario.routing != "ecmp",
        "switches": bool(topology.programs or topology.shaped_frac or topology.control_first or topology.bcc)
        or topology.mark_on_departure,
        "stack": both_ends,
        "oracle": stack.messages == "instant"
        or any(isinstance(limit, MaxMinLimit | ShortestFirstLimit) for limit in limits),
    }
    return tuple(need for need in get_args(Need) if found[need] or need in contender.needs)


def group_of(needs: Iterable[str]) -> int:
    """Index in `GROUPS` of a contender with these needs."""
    return max(i for i, (_, dear) in enumerate(GROUPS) if i == 0 or dear & set(needs))


def flows_digest(flows: FlowTable) -> str:
    """Digest (16 hex digits) of flows as they are drawn: starts, ends, sizes, components and requests."""
    columns = columns_of(flows)
    parts = [f"{name} {np.asarray(column).dtype.str} ".encode() + column.tobytes() for name, column in columns.items()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def flow_digests(runs: Runs, seeds: Sequence[int]) -> dict[At, list[str]]:
    """Compute the digest of the flows of each seed, by point.

    Raises:
        ConfigError: a contender would meet other flows than the others at a point.
    """
    found: dict[At, list[str]] = {}
    for cell in runs.cells:
        if cell.point not in found:
            found[cell.point] = [flows_digest(cell.scenario.flows(eval_flow_seed(seed))) for seed in seeds]
        elif flows_digest(cell.scenario.flows(eval_flow_seed(seeds[0]))) != found[cell.point][0]:
            raise ConfigError(
                f"contender {cell.contender!r} has other flows than the others at {_where(cell.point)}: let its "
                "changes leave the workload, the hosts, and the rates of links as they are"
            )
    return found


def league_facts(runs: Runs, seeds: Sequence[int], table: Table) -> dict[str, Any]:
    """Collect what tables of ranks need, as plain data: needs, unmet needs, digests of flows, and a value per seed."""
    ranking = runs.experiment.ranking
    assert ranking is not None
    needs: dict[str, dict[Need, None]] = {}
    for cell in runs.cells:
        contender = runs.experiment.contenders[cell.contender]
        found = needs_of(contender, cell.controller, cell.scenario)
        needs.setdefault(cell.contender, {}).update(dict.fromkeys(found))
    order = get_args(Need)
    return {
        "ranking": ranking.to_dict(),
        "needs": {name: sorted(of, key=order.index) for name, of in needs.items()},
        "cannot": [{"contender": name, "at": list(at), "why": why} for (name, at), why in runs.cannot.items()],
        "flows": [{"at": list(at), "digests": digests} for at, digests in flow_digests(runs, seeds).items()],
        "per_seed": [
            {
                "contender": cell.contender,
                "at": list(cell.point),
                "values": [_rounded(value) for value in table.values[ranking.measure, cell.contender, cell.point]],
            }
            for cell in runs.cells
        ],
    }


def placed(own: Plain, published: Plain) -> dict[str, Any]:
    """Add the contenders of a result to those of a published one, on the seeds of the former.

    Raises:
        ResultError: the two have other flows or points; or their reference, which both have run, has other values, so
            that the code of the published runs was another one. The message says how to run all contenders.
    """
    remedy = "run all contenders here: add all=true"
    reference, seeds = published["ranking"]["reference"], published["seeds"]
    if own["ranking"] != published["ranking"] or set(own["axes"]) != set(published["axes"]):
        raise ResultError(f"the published table has another ranking or other axes: {remedy}")
    if missing := [seed for seed in own["seeds"] if seed not in seeds]:
        raise ResultError(f"the published table has seeds {seeds[0]} to {seeds[-1]}, and not {missing[0]}: {remedy}")
    chosen = [seeds.index(seed) for seed in own["seeds"]]
    flows = {tuple(entry["at"]): [entry["digests"][i] for i in chosen] for entry in published["flows"]}
    points = [tuple(entry["at"]) for entry in own["flows"]]
    for entry in own["flows"]:
        if flows.get(tuple(entry["at"])) != entry["digests"]:
            raise ResultError(f"the published table has other flows at {_where(entry['at'])}: {remedy}")

    def per_seed(of: Plain) -> dict[tuple[str, At], list[float | None]]:
        return {(entry["contender"], tuple(entry["at"])): entry["values"] for entry in of["per_seed"]}

    theirs = {key: [values[i] for i in chosen] for key, values in per_seed(published).items() if key[1] in set(points)}
    ours = per_seed(own)
    for point in points:
        if ours[reference, point] != theirs[reference, point]:
            raise ResultError(
                f"this code's runs of {reference} at {_where(point)} differ from the published ones (commit "
                f"{', '.join(published['commits'])}): {remedy}"
            )
    new = [name for name in own["needs"] if name != reference]
    kept = {**published, **{key: own[key] for key in ("seeds", "runs_text", "flows", "axes")}}
    both = {**theirs, **{key: values for key, values in ours.items() if key[0] in new}}
    return {
        **kept,
        "contenders": {**published["contenders"], **{name: own["contenders"][name] for name in new}},
        "needs": {**published["needs"], **{name: own["needs"][name] for name in new}},
        "cannot": [entry for of in (published, own) for entry in of["cannot"] if tuple(entry["at"]) in set(points)],
        "per_seed": [{"contender": name, "at": list(at), "values": values} for (name, at), values in both.items()],
        "cells": [cell for cell in published["cells"] if tuple(cell["at"]) in set(points)]
        + [cell for cell in own["cells"] if cell["contender"] in new],
        "new": new,
    }


def published_in(path: str | None) -> dict[str, Any]:
    """Read a league's result: a result.json, a file of docs/experiments, or (None) the league that came with ncc.

    Raises:
        ConfigError: there is no such file.
        ResultError: it holds no result with ranks.
    """
    package = Path(str(files("ncc.study")))
    places = [folder / PUBLISHED for folder in (package.parents[1] / "docs" / "experiments", package)]
    file = Path(path) if path is not None else next((place for place in places if place.is_file()), places[-1])
    try:
        plain = json.loads(file.read_bytes())
    except FileNotFoundError:
        missing = "ncc came without a published league" if path is None else f"there is no file {path}"
        raise ConfigError(
            f"{missing}: run all contenders here, all=true, or name the result.json of such a run, published=<file>"
        ) from None
    except (OSError, ValueError) as error:
        raise ResultError(f"{file} cannot be read ({error}); name another one, published=<file>") from None
    for result in plain["results"].values() if "results" in plain else (plain,):
        if "per_seed" in result:
            return dict(result)
    raise ResultError(f"{file} holds no result with ranks; name the result.json of ncc league, published=<file>")


def write_page(league: "League", folder: Path) -> Path:
    """Write the tables as one HTML file, league.html in `folder`; return its path."""
    plain = league.plain
    lead = [
        plain["title"] + ".",
        f"On {plain['datapath']}, {plain['runs_text']}; commit {', '.join(plain['commits'])}.",
        plain["notes"],
    ]
    write_text(path := folder / PAGE, render_ranks("League", lead, league.grids(), league.cannot()))
    return path


@dataclass(frozen=True)
class League:
    """Ranks of all contenders of a result; arrays are [n_contenders], [n_contenders, n_points] or with bounds last."""

    plain: Plain

    @cached_property
    def names(self) -> list[str]:
        """Contenders that were run, in the order of the experiment."""
        return [name for name in self.plain["contenders"] if name in self.plain["needs"]]

    @cached_property
    def points(self) -> list[At]:
        """Points that were run."""
        return [tuple(entry["at"]) for entry in self.plain["flows"]]

    @cached_property
    def values(self) -> FloatArray:
        """Value of the measure, [n_contenders, n_points, n_seeds]; NaN for contenders that cannot run there."""
        found = np.full((len(self.names), len(self.points), len(self.plain["seeds"])), np.nan)
        for entry in self.plain["per_seed"]:
            at = self.names.index(entry["contender"]), self.points.index(tuple(entry["at"]))
            found[at] = [np.nan if value is None else value for value in entry["values"]]
        return found

    @cached_property
    def ranked(self) -> BoolArray:
        """Mask [n_contenders] of those that have ranks: all but oracles."""
        return np.array(["oracle" not in self.plain["needs"][name] for name in self.names])

    @cached_property
    def reference(self) -> int:
        """Index of the reference."""
        return self.names.index(self.plain["ranking"]["reference"])

    @property
    def _time(self) -> Plain:
        """Title, scale and digits of the measure of the ranks."""
        shown: Plain = self.plain["measures"][self.plain["ranking"]["measure"]]
        return shown

    @cached_property
    def everywhere(self) -> BoolArray:
        """Mask [n_contenders] of those that run at every point."""
        return np.asarray(~np.isnan(self.values).any(axis=(1, 2)))

    def ranks_of(self, means: FloatArray, among: BoolArray) -> FloatArray:
        """Rank means [n_contenders, ...] among the contenders of a mask, from 1; equal means share the lower rank."""
        with np.errstate(invalid="ignore"):
            ahead = (means[among][None] < means[:, None]).sum(axis=1)
        return np.where(np.isnan(means) | ~among.reshape(-1, *[1] * (means.ndim - 1)), np.nan, 1.0 + ahead)

    def ratios_of(self, means: FloatArray) -> FloatArray:
        """Geometric means over points of means [n_contenders, n_points, ...] divided by the reference's."""
        logs = np.log(means / means[self.reference])
        known = ~np.isnan(logs)
        return np.asarray(np.exp(np.where(known, logs, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)))

    @cached_property
    def drawn(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bounds of ranks [n_contenders, n_points, 2], of geometric means and of places [n_contenders, 2].

        They are NaN with a single seed.
        """
        n = self.values.shape[2]
        n_draws = N_RESAMPLES if n > 1 else 0
        rng, ranks, ratios, places = generator(0, "bootstrap"), [], [], []
        for first in range(0, n_draws, BATCH):
            drawn = rng.integers(0, n, (min(BATCH, n_draws - first), n))
            means = np.stack([self.values[:, :, seeds].mean(axis=2) for seeds in drawn], axis=2)
            ranks.append(self.ranks_of(means, self.ranked))
            ratios.append(self.ratios_of(means))
            places.append(self.ranks_of(ratios[-1], self.ranked & self.everywhere))
        if not ranks:
            nothing = np.full((len(self.names), len(self.points), 2), np.nan)
            return nothing, nothing[:, 0], nothing[:, 0]
        between = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
        found = (np.concatenate(of, axis=-1) for of in (ranks, ratios, places))
        low = [np.moveaxis(np.quantile(of, between, axis=-1), 0, -1) for of in found]
        return low[0], low[1], low[2]

    @cached_property
    def order(self) -> list[int]:
        """Indices of the contenders by group, and in a group by geometric mean."""
        ratios = self.ratios_of(self.values.mean(axis=2))
        return sorted(range(len(self.names)), key=lambda i: (group_of(self.plain["needs"][self.names[i]]), ratios[i]))

    def grids(self) -> tuple[Grid, Grid]:
        """Make two tables: ranks at each point and over all, and values at each point over the reference's."""
        means = self.values.mean(axis=2)
        ranks, ratios = self.ranks_of(means, self.ranked), self.ratios_of(means)
        places = self.ranks_of(ratios, self.ranked & self.everywhere)
        rank_bounds, ratio_bounds, place_bounds = self.drawn
        beside = [name for name in self.plain["ranking"]["beside"] if name in self.plain["measures"]]
        first, second = [], []
        for i in self.order:
            name = self.names[i]
            cells = [
                self._rank(places[i], place_bounds[i]),
                Cell(f"{ratios[i]:.2f}{self._few(i)}", _spread(ratio_bounds[i], 2)),
                *(self._rank(ranks[i, p], rank_bounds[i, p], self._mark(name, p)) for p in range(len(self.points))),
                *(Cell(self._mean(measure, name)) for measure in beside),
                Cell(", ".join(self.plain["needs"][name])),
            ]
            first.append(self._row(i, cells))
            second.append(self._row(i, [self._over(i, p) for p in range(len(self.points))]))
        cells_of = [_where(point) for point in self.points]
        titles = [self.plain["measures"][measure]["title"] for measure in beside]
        called = self._label(self.reference)
        return (
            Grid(
                "Ranks, in groups by what a contender needs",
                ("contender",),
                tuple((head, "") for head in ("place", f"over {called}", *cells_of, *titles, "needs")),
                tuple(first),
                self._lines(),
                apart=len(beside) + 1,
            ),
            Grid(
                f"{self._time['title']}, over that of {called}, whose own row has the times",
                ("contender",),
                tuple((cell, "") for cell in cells_of),
                tuple(second),
                (),
            ),
        )

    def cannot(self) -> list[tuple[str, str, str]]:
        """Contenders, points and reason of each unmet need, by contender and reason."""
        found: dict[tuple[str, str], list[str]] = {}
        for entry in self.plain["cannot"]:
            found.setdefault((entry["contender"], entry["why"]), []).append(_where(entry["at"]))
        return [(self.plain["contenders"][name], ", ".join(at), why) for (name, why), at in found.items()]

    def _row(self, i: int, cells: list[Cell]) -> Row:
        section = GROUPS[group_of(self.plain["needs"][self.names[i]])][0]
        return Row((self._label(i),), tuple(cells), title=self._label(i), section=section)

    def _label(self, i: int) -> str:
        name = self.names[i]
        return str(self.plain["contenders"][name]) + (" (yours)" if name in self.plain.get("new", ()) else "")

    def _rank(self, rank: float, bounds: FloatArray, mark: str = "") -> Cell:
        if np.isnan(rank):
            return Cell(DASH)
        spread = "" if np.isnan(bounds).any() else f"{bounds[0]:.0f}-{bounds[1]:.0f}"
        return Cell(f"{rank:.0f}{mark}", spread if bounds[0] != bounds[1] else "", BEST if rank == 1 else "")

    def _over(self, i: int, p: int) -> Cell:
        if np.isnan(self.values[i, p]).any():
            return Cell(DASH)
        if i == self.reference:
            return Cell(f"{self.values[i, p].mean() * self._time['scale']:.3g}{self._mark(self.names[i], p)}")
        found = paired_ratio(self.values[i, p], self.values[self.reference, p])
        lowest = np.nanmin(np.where(self.ranked[:, None], self.values.mean(axis=2), np.nan)[:, p])
        best = BEST if self.ranked[i] and self.values[i, p].mean() == lowest else ""
        bounds = np.array([found.low, found.high])
        return Cell(f"{found.estimate:.2f}{self._mark(self.names[i], p)}", _spread(bounds, 2), best)

    def _mark(self, name: str, p: int) -> str:
        bad = any(
            cell["n_invalid"]
            for cell in self.plain["cells"]
            if cell["contender"] == name and tuple(cell["at"]) == self.points[p]
        )
        return "†" * bad

    def _few(self, i: int) -> str:
        n = int((~np.isnan(self.values[i]).any(axis=1)).sum())
        return "" if n == len(self.points) else f" ({n})"

    def _mean(self, measure: str, name: str) -> str:
        shown = self.plain["measures"][measure]
        values = [c["value"] for c in self.plain["cells"] if c["contender"] == name and c["measure"] == measure]
        known = [value for value in values if value is not None]
        return DASH if not known else f"{sum(known) / len(known) * shown['scale']:.{shown['digits']}f}"

    def _lines(self) -> tuple[tuple[str, str], ...]:
        used = {need for name in self.names for need in self.plain["needs"][name]}
        needs = "; ".join(f"{need}: {text}" for need, text in MEANING.items() if need in used)
        n = len(self.plain["seeds"])
        lines = [
            f"{BEST} best. Ranks have 95 % intervals over {n} seed{'s' if n != 1 else ''} with the same flows.",
            f"over {self._label(self.reference)}: geometric mean over the cells of the mean time divided by that "
            "contender's; below 1 is sooner. The place is by this number, among those that run in every cell.",
            f"Needs. {needs}.",
        ]
        if not self.everywhere.all():
            lines.append("In brackets: the number of cells in which a contender can run, where it is not all of them.")
        if any(cell["n_invalid"] for cell in self.plain["cells"]):
            lines.append("†: some runs are invalid (flows that were not delivered); they count as they ended.")
        return tuple((line, "") for line in lines)


def _spread(bounds: FloatArray, digits: int) -> str:
    return (
        "" if np.isnan(bounds).any() or bounds[0] == bounds[1] else f"[{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]"
    )


def _where(at: Iterable[float | str]) -> str:
    return ", ".join(map(text_of, at))


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.{DIGITS}g}")
