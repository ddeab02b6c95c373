# SPDX-License-Identifier: BSD-3-Clause
"""The result of an experiment on one datapath: the table, the findings, the verdict, and their files."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncc.core.errors import ResultError
from ncc.harness.atomic import write_text
from ncc.harness.manifest import now
from ncc.results.palette import label
from ncc.study.checks_base import Finding
from ncc.study.load import runs_digest
from ncc.study.points import Grid
from ncc.study.table import At, Table, rounded

FORMAT = 2
FULL = "full"
JSON, FIGURE = "result.json", "figure.png"
NEEDED = {"name", "datapath", "complete", "written_at", "commits", "holds", "verdict", "cells"}
HOLDS, FAILS = "shape holds", "shape does not hold"
DIRTY = "+"
"""Suffix of a commit if files had uncommitted changes."""


@dataclass(frozen=True)
class Result:
    """Everything that was measured and judged."""

    grid: Grid
    datapath: str
    seeds: tuple[int, ...]
    table: Table
    findings: Mapping[str, Finding]
    problems: tuple[str, ...]
    """Problems of invalid runs. Their values count as they are, but their contenders win no check."""
    n_flows: int
    wall_s: float
    """Sum over all runs, one after the other."""
    cpu_s: float
    commits: tuple[str, ...]
    """Commits of the runs; those with uncommitted changes end in `DIRTY`."""
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Warnings about a contender's numbers, a sentence each, by contender."""

    @property
    def holds(self) -> bool:
        """True if every check that could be judged holds."""
        return not any(finding.holds is False for finding in self.findings.values())

    @property
    def runs_text(self) -> str:
        """Text such as `5 seeds of 2 s`: number and duration of arrivals; `of 0.5 to 2 s` if points differ in it."""
        durations = sorted({cell.scenario.duration_s for cell in self.grid.cells})
        long = " to ".join(f"{seconds:g}" for seconds in dict.fromkeys((durations[0], durations[-1])))
        return f"{len(self.seeds)} seed{'s' if len(self.seeds) != 1 else ''} of {long} s"

    @property
    def complete(self) -> bool:
        """True for the unchanged experiment with its full preset and all its seeds, which may be published."""
        preset = self.grid.experiment.presets[self.grid.preset]
        enough = len(self.seeds) >= preset.seeds and min(self.seeds) >= preset.first_seed
        return self.grid.as_written and self.grid.preset == FULL and enough

    @property
    def outcome(self) -> str:
        """The verdict on the shape and the number of checks that hold, in a few words."""
        judged = [finding.holds for finding in self.findings.values() if finding.holds is not None]
        left = len(self.findings) - len(judged)
        narrow = sum(finding.narrow for finding in self.findings.values())
        counted = f"{sum(judged)} of {len(judged)} checks hold" + (f", {left} not judged" if left else "")
        counted += (
            f", {narrow} narrowly decided (other seeds may turn {'it' if narrow == 1 else 'them'})" if narrow else ""
        )
        n = len(self.problems)
        bad = f"{n} invalid run{'s' if n > 1 else ''}; " if n else ""
        return f"{HOLDS if self.holds else FAILS}: {bad}{counted}"

    @property
    def verdict(self) -> str:
        """One line: `shape holds: <numbers>`, or `shape does not hold: <what fails, with numbers>`."""
        shown = {n: f for n, f in self.findings.items() if (f.holds is not None if self.holds else f.holds is False)}
        return f"{self.outcome}; " + " | ".join(f"{name}: {found.text}" for name, found in shown.items())

    def save(self, folder: Path) -> None:
        """Write `result.json`."""
        write_text(folder / JSON, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a page that need not know the experiment; undefined numbers are null."""
        experiment = self.grid.experiment
        return {
            "format": FORMAT,
            "name": self.grid.name,
            "title": experiment.title,
            "paper": experiment.paper.to_dict(),
            "notes": experiment.notes,
            "preset": self.grid.preset,
            "complete": self.complete,
            "runs": runs_digest(self.grid),
            "datapath": self.datapath,
            "seeds": list(self.seeds),
            "runs_text": self.runs_text,
            "warnings": {name: list(texts) for name, texts in self.warnings.items()},
            "commits": list(self.commits),
            "written_at": now(),
            "n_flows": self.n_flows,
            "wall_s": round(self.wall_s, 1),
            "cpu_s": round(self.cpu_s, 1),
            "holds": self.holds,
            "verdict": self.verdict,
            "problems": list(self.problems),
            "checks": [
                {
                    "name": name,
                    "claim": experiment.checks[name].claim,
                    "holds": found.holds,
                    "narrow": found.narrow,
                    "numbers": found.text,
                }
                for name, found in self.findings.items()
            ],
            "contenders": {name: contender_label(self.grid, name) for name in self.table.contenders},
            "axes": {
                name: {"label": experiment.axes[name].label, "points": list(p)} for name, p in self.table.axes.items()
            },
            "measures": {
                name: {"title": m.shown.title, "scale": m.shown.scale, "digits": m.shown.digits}
                for name, m in experiment.measures.items()
            },
            "values": [value.to_dict() for value in experiment.values],
            "cells": [self._cell(*key) for key in self.table.values],
        }

    def _cell(self, measure: str, contender: str, point: At) -> dict[str, Any]:
        cell = self.table.cell(measure, contender, point)
        bounds = {"value": cell.estimate, "low": cell.low, "high": cell.high}
        return {
            "measure": measure,
            "contender": contender,
            "at": list(point),
            **{key: rounded(value) for key, value in bounds.items()},
            "n_seeds": cell.n,
            "n_invalid": self.table.invalid.get((contender, point), 0),
            "paper": self.table.expected.get((measure, contender, point)),
        }


def contender_label(grid: Grid, name: str) -> str:
    """The name of a contender in tables and figures."""
    contender = grid.experiment.contenders[name]
    return contender.label or ("tuned " if contender.tuned else "") + label(contender.controller)


def commits_of(provenances: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Short commits of runs, each once."""
    git = [made["git"] for made in provenances]
    return tuple(sorted({f"{str(g['commit'])[:10]}{DIRTY if g['dirty'] else ''}" for g in git}))


def read_result(path: Path) -> dict[str, Any]:
    """Read data of `Result.to_dict` from a file; `ResultError` if it is not that."""
    try:
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}); run the experiment again") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT or not set(plain) >= NEEDED:
        raise ResultError(f"{path} is no result of an experiment in format {FORMAT}; run the experiment again")
    return plain
