# SPDX-License-Identifier: BSD-3-Clause
"""Figures, the targets that they are held against, and the table of them."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from rich.table import Table

from ncc.study.bench import GROUPS

SEED = 1
Task = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One line of the table: the median of repeats, and their range."""

    what: str
    values: tuple[float, ...]
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    def cells(self) -> tuple[str, str, str, str, str]:
        """The printed texts: what, median, range, target, verdict."""
        middle = statistics.median(self.values)
        bound = self.at_most if self.at_most is not None else self.at_least
        met = (self.at_most is None or middle <= self.at_most) and (self.at_least is None or middle >= self.at_least)
        target = "" if bound is None else f"{'<=' if self.at_most is not None else '>='} {bound:g}"
        verdict = "" if bound is None else ("met" if met else "missed")
        spread = f"{min(self.values):.3g} to {max(self.values):.3g}"
        return self.what, f"{middle:.3g} {self.unit}".strip(), spread, target, verdict


def measured(group: str, preset: str) -> list[Row]:
    """The rows of a group of `groups.yaml`."""
    rows: list[Row] = []
    for name, presets in GROUPS[group]["rows"].items():
        module, _, function = name.partition(".")
        rows += getattr(import_module(f"ncc.study.bench.{module}"), function)(**presets[preset])
    return rows


def table(title: str, rows: Sequence[Row]) -> Table:
    """The rows as a table for the terminal."""
    made = Table(title=title, title_justify="left")
    for name, justify in (("what", "left"), ("median", "right"), ("range", "right"), ("target", "right"), ("", "left")):
        made.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        made.add_row(*row.cells())
    return made


def in_turn(repeats: int, *tasks: Task) -> list[tuple[float, ...]]:
    """The result of each task, `repeats` times: one after the other, and the next time in the opposite order.

    So whatever else the machine does, and whatever the last task left in its caches, falls on all of them alike.
    """
    results: list[list[float]] = [[] for _ in tasks]
    for repeat in range(repeats):
        for index in range(len(tasks))[:: -1 if repeat % 2 else 1]:
            results[index].append(tasks[index]())
    return [tuple(values) for values in results]


def over(values: Sequence[float], others: Sequence[float]) -> tuple[float, ...]:
    """The ratio of each repeat."""
    return tuple(value / other for value, other in zip(values, others, strict=True))
