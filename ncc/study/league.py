# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of contenders over all points of an experiment that has a `Ranking`, with what each contender needs.

Values of a seed belong together, because its flows are the same for all. A bootstrap draws seeds with replacement, the
same for all contenders (Efron 1979). In each draw the means over its seeds are ranked at each point. The interval of a
rank is that of its middle 95 %.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ncc.core.flows import BoolArray, FloatArray
from ncc.core.seeding import generator
from ncc.harness.atomic import write_text
from ncc.metrics.stats import BATCH, LEVEL, N_RESAMPLES, paired_ratio
from ncc.results.grid import BEST, Cell, Grid, Row
from ncc.results.report.page import render_ranks
from ncc.study.league_result import GROUPS, MEANING, Plain, group_of, where
from ncc.study.page import DASH
from ncc.study.table import At

PAGE = "league.html"


def write_page(league: "League", folder: Path) -> Path:
    """Write the tables as one HTML file, league.html in `folder`; return its path."""
    plain = league.plain
    lead = [
        plain["title"] + ".",
        f"On {plain['datapath']}, {plain['runs_text']}; commit {', '.join(plain['commits'])}.",
        plain["notes"],
        *league.own_places(),
    ]
    write_text(path := folder / PAGE, render_ranks("League", lead, league.grids(), league.cannot()))
    return path


@dataclass(frozen=True)
class League:
    """Ranks of all contenders of a result; arrays are [n_contenders], [n_contenders, n_points] or with bounds last."""

    plain: Plain
    own: tuple[str, ...] = ()
    """Names of contenders that the user added."""

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
        table = np.full((len(self.names), len(self.points), len(self.plain["seeds"])), np.nan)
        for entry in self.plain["per_seed"]:
            at = self.names.index(entry["contender"]), self.points.index(tuple(entry["at"]))
            table[at] = [np.nan if value is None else value for value in entry["values"]]
        return table

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
        samples = (np.concatenate(of, axis=-1) for of in (ranks, ratios, places))
        low = [np.moveaxis(np.quantile(of, between, axis=-1), 0, -1) for of in samples]
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
        cells_of = [where(point) for point in self.points]
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

    def own_places(self) -> list[str]:
        """Make a sentence about each contender that the user added: its time over the reference's, and its place."""
        rows = {row.title: row.cells for row in self.grids()[0].rows}
        n, said = int((self.ranked & self.everywhere).sum()), []
        for label in (self._label(self.names.index(name)) for name in self.own):
            place, ratio = rows[label][:2]
            text = f"place {place.middle} of {n}" if place.middle != DASH else "without a place"
            spread = f" ({place.spread})" if place.spread else ""
            time = " ".join(filter(None, (ratio.middle, ratio.spread)))
            said.append(f"{label}: {time} of the time of {self._label(self.reference)}, {text}{spread}.")
        return said

    def cannot(self) -> list[tuple[str, str, str]]:
        """Contenders, points and reason of each unmet need, by contender and reason."""
        points: dict[tuple[str, str], list[str]] = {}
        for entry in self.plain["cannot"]:
            points.setdefault((entry["contender"], entry["why"]), []).append(where(entry["at"]))
        return [(self.plain["contenders"][name], ", ".join(at), why) for (name, why), at in points.items()]

    def _row(self, i: int, cells: list[Cell]) -> Row:
        section = GROUPS[group_of(self.plain["needs"][self.names[i]])][0]
        return Row((self._label(i),), tuple(cells), title=self._label(i), section=section)

    def _label(self, i: int) -> str:
        name = self.names[i]
        return str(self.plain["contenders"][name]) + (" (yours)" if name in self.own else "")

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
        ratio = paired_ratio(self.values[i, p], self.values[self.reference, p])
        lowest = np.nanmin(np.where(self.ranked[:, None], self.values.mean(axis=2), np.nan)[:, p])
        best = BEST if self.ranked[i] and self.values[i, p].mean() == lowest else ""
        bounds = np.array([ratio.low, ratio.high])
        return Cell(f"{ratio.estimate:.2f}{self._mark(self.names[i], p)}", _spread(bounds, 2), best)

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
            f"{BEST} best. "
            + (
                f"Ranks have 95 % intervals over {n} seeds with the same flows."
                if n > 1
                else "One seed, so no intervals."
            ),
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
