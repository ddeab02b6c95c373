# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks of speed, which `ncc bench` measures and prints. Most figures are ratios of two speeds in one run."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from ncc.results.grid import markdown_table
from ncc.study.page import plain

GROUPS: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("groups.yaml").read_text(encoding="utf-8"))
SEED = 1
Figures = dict[str, tuple[float, ...]]
"""Measured values of figures, one for each repeat, by the figure's key in groups.yaml."""


@dataclass(frozen=True)
class Row:
    """One figure in the table: the median of its repeats, their range, and the target for the median."""

    what: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    why: str = ""
    """Reason why the target was changed; empty: it was not."""
    values: tuple[float, ...] = ()
    """One value for each repeat; empty: the figure was not measured."""

    def cells(self) -> list[str]:
        """Texts of the cells: what, median, range, target, and `met` or `missed`."""
        bounds = (("at most", self.at_most), ("at least", self.at_least))
        target = " ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)
        cells, verdict = ["", "not measured"], ""
        if self.values:
            low, middle, high = (of(self.values) for of in (min, statistics.median, max))
            cells = [f"{_digits(middle)} {self.unit}", f"{_digits(low)} to {_digits(high)}"]
            low, high = (bound if bound is not None else middle for bound in (self.at_least, self.at_most))
            verdict = ("met" if low <= middle <= high else "missed") if target else ""
        return [plain(cell) for cell in (self.what, *cells, target, verdict)]


def _digits(value: float) -> str:
    """Format a number with three significant digits or, from 1000 on, as a whole number."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def unmeasured(group: str) -> list[Row]:
    """Make the rows of a group of groups.yaml, without values."""
    return [Row(**row) for part in GROUPS[group]["functions"].values() for row in part["rows"].values()]


def measured(group: str, preset: str = "full", **given: Any) -> list[Row]:
    """Measure a group of groups.yaml and return its rows with their values.

    Args:
        group: name of the group.
        preset: `full` or, for tests, `short`.
        given: arguments of the group's functions in addition to those of the preset.

    Raises:
        ValueError: a function measures other figures than groups.yaml has.
    """
    rows: list[Row] = []
    for name, part in GROUPS[group]["functions"].items():
        module, _, function = name.partition(".")
        figures: Figures = getattr(import_module(f"ncc.study.bench.{module}"), function)(**part[preset], **given)
        if figures.keys() != part["rows"].keys():
            raise ValueError(f"{name} measures {', '.join(figures)}, and groups.yaml has {', '.join(part['rows'])}")
        rows += [Row(**row, values=figures[key]) for key, row in part["rows"].items()]
    return rows


def table(rows: Sequence[Row]) -> str:
    """Format rows as a Markdown table."""
    return markdown_table(("what", "median", "range", "target", ""), [row.cells() for row in rows], "lrrrl")


def in_turn(repeats: int, *tasks: Callable[[], float]) -> list[tuple[float, ...]]:
    """Do all tasks one after the other, `repeats` times, every second time in the opposite order.

    Other load on the machine, and the contents of its caches, then affect all tasks equally.

    Returns:
        For each task, its results in the order of the repeats.
    """
    results: list[list[float]] = [[] for _ in tasks]
    for repeat in range(repeats):
        for index in range(len(tasks))[:: -1 if repeat % 2 else 1]:
            results[index].append(tasks[index]())
    return [tuple(values) for values in results]


def over(values: Sequence[float], others: Sequence[float]) -> tuple[float, ...]:
    """Ratio of `values` to `others` in each repeat."""
    return tuple(value / other for value, other in zip(values, others, strict=True))
