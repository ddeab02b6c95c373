# SPDX-License-Identifier: BSD-3-Clause
"""The result of an experiment on one datapath: the table, the findings and the verdict, and the file with them."""

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
from ncc.study.league_result import league_facts
from ncc.study.load import runs_digest
from ncc.study.points import Grid
from ncc.study.table import At, Table, rounded

FORMAT = 2
FULL = "full"
JSON, FIGURE = "result.json", "figure.png"
NEEDED = {"name", "datapath", "complete", "written_at", "commits", "holds", "verdict", "cells"}
HOLDS, FAILS = "shape holds", "shape does not hold"
DIRTY = "+"
"""Suffix of a commit's hash if there were uncommitted changes."""


@dataclass(frozen=True)
class Result:
    """All that was measured and judged in an experiment on one datapath."""

    grid: Grid
    datapath: str
    seeds: tuple[int, ...]
    table: Table
    findings: Mapping[str, Finding]
    """Outcomes of the checks, by name."""
    problems: tuple[str, ...]
    """Problems of invalid runs. The values of such runs count as they are, but no check holds in favour of their
    contenders."""
    n_flows: int
    """Number of flows in all runs."""
    wall_s: float
    """Wall-clock time, summed over all runs."""
    cpu_s: float
    """CPU time, summed over all runs."""
    commits: tuple[str, ...]
    """Commits of the code of the runs; those with uncommitted changes end in `DIRTY`."""
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Warnings about the numbers of contenders, one text each, by contender."""

    @property
    def holds(self) -> bool:
        """True if all checks that could be judged hold."""
        return not any(finding.holds is False for finding in self.findings.values())

    @property
    def runs_text(self) -> str:
        """Text such as `5 seeds of 2 s`: the number of seeds, and the time in which flows arrive.

        If points differ in that time, the shortest and the longest are given: `of 0.5 to 2 s`.
        """
        durations = sorted({cell.scenario.duration_s for cell in self.grid.cells})
        long = " to ".join(f"{seconds:g}" for seconds in dict.fromkeys((durations[0], durations[-1])))
        return f"{len(self.seeds)} seed{'s' if len(self.seeds) != 1 else ''} of {long} s"

    @property
    def complete(self) -> bool:
        """True if the result may be published: it is of the unchanged experiment, its full preset and all its seeds."""
        preset = self.grid.experiment.presets[self.grid.preset]
        enough = len(self.seeds) >= preset.seeds and min(self.seeds) >= preset.first_seed
        return self.grid.as_written and self.grid.preset == FULL and enough

    @property
    def outcome(self) -> str:
        """Text that says if the shape holds, with the numbers of invalid runs and of checks that hold."""
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
        """Line with the outcome and the numbers of the judged checks, or of the failed ones if there are any."""
        shown = {n: f for n, f in self.findings.items() if (f.holds is not None if self.holds else f.holds is False)}
        return f"{self.outcome}; " + " | ".join(f"{name}: {finding.text}" for name, finding in shown.items())

    def save(self, folder: Path) -> None:
        """Write the data of `to_dict` into `folder`/result.json."""
        write_text(folder / JSON, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data from which a page can be made without the experiment. Undefined numbers are None."""
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
                    "holds": finding.holds,
                    "narrow": finding.narrow,
                    "numbers": finding.text,
                }
                for name, finding in self.findings.items()
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
            **(league_facts(self.grid, self.seeds, self.table) if experiment.ranking is not None else {}),
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
    """Name of a contender in tables and figures."""
    contender = grid.experiment.contenders[name]
    return contender.label or ("tuned " if contender.tuned else "") + label(contender.controller)


def commits_of(provenances: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Short hashes of the commits in provenances, sorted and each once; `DIRTY` marks uncommitted changes."""
    git = [made["git"] for made in provenances]
    return tuple(sorted({f"{str(g['commit'])[:10]}{DIRTY if g['dirty'] else ''}" for g in git}))


def read_result(path: Path) -> dict[str, Any]:
    """Read the file that `Result.save` wrote; `ResultError` if it holds something else."""
    try:
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}); run the experiment again") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT or not set(plain) >= NEEDED:
        raise ResultError(f"{path} is no result of an experiment in format {FORMAT}; run the experiment again")
    return plain
