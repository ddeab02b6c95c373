# SPDX-License-Identifier: BSD-3-Clause
"""Rows of groups.yaml, their figures, their table, and the page docs/speed.md."""

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
"""Every repeat of a figure, by its key in groups.yaml."""


@dataclass(frozen=True)
class Row:
    """One line of the table: the median of repeats, and their range."""

    what: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    why: str = ""
    """Reason for a target that moved."""
    values: tuple[float, ...] = ()
    """One for each repeat; empty if it was not measured."""

    @property
    def verdict(self) -> str:
        """Met or missed; empty without a target or a value."""
        if not self.values or (self.at_most is None and self.at_least is None):
            return ""
        middle = statistics.median(self.values)
        low, high = self.at_least is None or middle >= self.at_least, self.at_most is None or middle <= self.at_most
        return "met" if low and high else "missed"

    def cells(self) -> tuple[str, str, str, str, str]:
        """The printed texts, as `HEAD` calls them."""
        bounds = (("at most", self.at_most), ("at least", self.at_least))
        target = " ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)
        if not self.values:
            return self.what, "", "not measured", target, ""
        low, middle, high = (_digits(of(self.values)) for of in (min, statistics.median, max))
        return self.what, f"{middle} {self.unit}", f"{low} to {high}", target, self.verdict


def _digits(value: float) -> str:
    """Format a number with three digits, or with all digits before the decimal point."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def unmeasured(group: str) -> list[Row]:
    """The rows of a group of groups.yaml, without figures."""
    return [Row(**row) for part in GROUPS[group]["functions"].values() for row in part["rows"].values()]


def measured(group: str, preset: str, **given: Any) -> list[Row]:
    """The rows of a group with their figures.

    Args:
        given: arguments of its functions in addition to the preset's.
    """
    rows: list[Row] = []
    for name, part in GROUPS[group]["functions"].items():
        module, _, function = name.partition(".")
        figures: Figures = getattr(import_module(f"ncc.study.bench.{module}"), function)(**part[preset], **given)
        if figures.keys() != part["rows"].keys():
            raise ValueError(f"{name} measures {', '.join(figures)}, and groups.yaml has {', '.join(part['rows'])}")
        rows += [Row(**row, values=figures[key]) for key, row in part["rows"].items()]
    if preset == "short":  # a figure that means nothing meets and misses nothing
        rows = [replace(row, at_least=None, at_most=None) for row in rows]
    return rows


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    return markdown_table(HEAD, [map(plain, row.cells()) for row in rows], "lrrrl")


def in_turn(repeats: int, *tasks: Task) -> list[tuple[float, ...]]:
    """The results of each task, `repeats` times: one task after the other, and the next time in the opposite order.

    Other load on the machine, and the contents of its caches, then affect all tasks equally.
    """
    results: list[list[float]] = [[] for _ in tasks]
    for repeat in range(repeats):
        for index in range(len(tasks))[:: -1 if repeat % 2 else 1]:
            results[index].append(tasks[index]())
    return [tuple(values) for values in results]


def over(values: Sequence[float], others: Sequence[float]) -> tuple[float, ...]:
    """The ratio of each repeat."""
    return tuple(value / other for value, other in zip(values, others, strict=True))


def page(found: Mapping[str, Sequence[Row]], preset: str, made_on: str) -> str:
    """The Markdown page of the rows of all groups."""
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
        before: `ncc.harness.manifest.provenance` when the benchmark began.
    """
    (commit,) = commits_of([before])
    load = f"load average {before['load_average']['1_min']:.1f} before, {os.getloadavg()[0]:.1f} after"
    return (
        f"{before['processor']}, {before['cpus_usable']} cores, {_caches()}; {load}; "
        f"commit {commit}, {before['written_at'][:10]}, {spent_s:.0f} s."
    )


def _caches() -> str:
    """The data caches of a core, as the kernel lists them."""
    caches = []
    for folder in sorted(CACHES.glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    return f"caches {', '.join(caches)}" if caches else "caches unknown"
