# SPDX-License-Identifier: BSD-3-Clause
"""The rows of groups.yaml with their measured figures, as a table and as the page docs/speed.md."""

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ncc.results.grid import markdown_table
from ncc.study.bench import GROUPS
from ncc.study.page import plain, render
from ncc.study.result import commits_of

SEED = 1
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
HEAD = ("what", "median", "range", "target", "")
Task = Callable[[], float]
Figures = dict[str, tuple[float, ...]]
"""Measured values of figures, one for each repeat, by the figure's key in groups.yaml."""


@dataclass(frozen=True)
class Row:
    """One figure in the table: the median of its repeats, their range, and the target."""

    what: str
    unit: str
    at_most: float | None = None
    """Target for the median; None: there is no upper one."""
    at_least: float | None = None
    """Target for the median; None: there is no lower one."""
    why: str = ""
    """Reason why the target was changed; empty: it was not."""
    values: tuple[float, ...] = ()
    """One value for each repeat; empty: the figure was not measured."""

    @property
    def verdict(self) -> str:
        """Text `met` or `missed`, by the median; empty without a target or without values."""
        if not self.values or (self.at_most is None and self.at_least is None):
            return ""
        middle = statistics.median(self.values)
        low, high = self.at_least is None or middle >= self.at_least, self.at_most is None or middle <= self.at_most
        return "met" if low and high else "missed"

    def cells(self) -> tuple[str, str, str, str, str]:
        """Texts of the cells, in the order of `HEAD`."""
        bounds = (("at most", self.at_most), ("at least", self.at_least))
        target = " ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)
        if not self.values:
            return self.what, "", "not measured", target, ""
        low, middle, high = (_digits(of(self.values)) for of in (min, statistics.median, max))
        return self.what, f"{middle} {self.unit}", f"{low} to {high}", target, self.verdict


def _digits(value: float) -> str:
    """Format a number with three significant digits or, from 1000 on, as a whole number."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def unmeasured(group: str) -> list[Row]:
    """Make the rows of a group of groups.yaml, without values."""
    return [Row(**row) for part in GROUPS[group]["functions"].values() for row in part["rows"].values()]


def measured(group: str, preset: str, **given: Any) -> list[Row]:
    """Measure a group of groups.yaml and return its rows with their values.

    Args:
        group: name of the group.
        preset: `full` or `short`. A `short` measurement means nothing, so its rows have no targets.
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
    if preset == "short":  # figures that mean nothing have no target
        rows = [replace(row, at_least=None, at_most=None) for row in rows]
    return rows


def table(rows: Sequence[Row]) -> str:
    """Format rows as a Markdown table."""
    return markdown_table(HEAD, [map(plain, row.cells()) for row in rows], "lrrrl")


def in_turn(repeats: int, *tasks: Task) -> list[tuple[float, ...]]:
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


def page(found: Mapping[str, Sequence[Row]], preset: str, made_on: str) -> str:
    """Render the page with the rows of all groups, as Markdown.

    Args:
        found: rows by group.
        preset: preset that they were measured with.
        made_on: description of the machine, as `machine` returns it.
    """
    groups = [
        {
            "name": name,
            "title": GROUPS[name]["title"],
            "table": table(rows),
            "reasons": [row for row in rows if row.why],
        }
        for name, rows in found.items()
    ]
    return render("speed.md.jinja", groups=groups, preset=preset, made_on=made_on)


def machine(before: Mapping[str, Any], spent_s: float) -> str:
    """Describe the machine, its load and the checkout in one sentence.

    Args:
        before: value of `ncc.harness.manifest.provenance` when the benchmark began.
        spent_s: duration of the benchmark in seconds.
    """
    (commit,) = commits_of([before])
    load = f"load average {before['load_average']['1_min']:.1f} before, {os.getloadavg()[0]:.1f} after"
    return (
        f"{before['processor']}, {before['cpus_usable']} cores, {_caches()}; {load}; "
        f"commit {commit}, {before['written_at'][:10]}, {spent_s:.0f} s."
    )


def _caches() -> str:
    """Text on the data caches of a core, as the kernel lists them."""
    caches = []
    for folder in sorted(CACHES.glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    return f"caches {', '.join(caches)}" if caches else "caches unknown"
