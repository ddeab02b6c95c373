# SPDX-License-Identifier: BSD-3-Clause
"""The findings of a sweep: sweep.json, and a table, best setting first."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from ncc.core.errors import InvalidRunError, ResultError
from ncc.harness.atomic import write_text
from ncc.harness.trials import FAILED, FINISHED, UNFINISHED
from ncc.metrics.stats import Interval, interval
from ncc.results.grid import Cell, Grid, Row, print_grid
from ncc.study.sweep.space import Point, Range
from ncc.study.sweep.spec import RANKED, SEED, Sweep, Trial

JSON = "sweep.json"


@dataclass(frozen=True)
class Outcome:
    """The end of a trial."""

    state: str = UNFINISHED
    value: float = math.nan
    """Mean return of the trained policy on the held-out flows, where it finished."""
    said: str = ""
    """Why it failed."""


@dataclass(frozen=True)
class Ranked:
    """A setting: its trials differ in their seed only."""

    values: Point
    trials: tuple[Trial, ...]
    level: Interval
    """Mean over seeds, of the trials that finished."""


@dataclass
class Summary:
    """All trials, and the outcome of those that have ended."""

    sweep: Sweep
    command: str
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """Outcomes by trial."""

    @property
    def path(self) -> Path:
        """The path of sweep.json."""
        return Path(self.sweep.spec.out) / JSON

    @property
    def best(self) -> float | None:
        """The highest return of a trial."""
        return max((o.value for o in self.outcomes.values() if o.state == FINISHED), default=None)

    def outcome(self, trial: Trial) -> Outcome:
        """The trial's outcome; `UNFINISHED` if it has none yet."""
        return self.outcomes.get(trial.name, Outcome())

    def settings(self) -> list[Ranked]:
        """Best mean return first; those without a finished trial at the end, in the order of the sweep."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.sweep.trials:
            groups.setdefault(json.dumps(trial.setting), []).append(trial)
        found = []
        for trials in groups.values():
            done = [outcome.value for outcome in map(self.outcome, trials) if outcome.state == FINISHED]
            found.append(Ranked(trials[0].setting, tuple(trials), interval(done)))
        return sorted(found, key=lambda ranked: -ranked.level.estimate if ranked.level.n else math.inf)

    def require_no_failures(self) -> None:
        """`InvalidRunError` that names the trials that failed."""
        failed = [f"{name} ({outcome.said})" for name, outcome in self.outcomes.items() if outcome.state == FAILED]
        if failed:
            logs = Path(self.sweep.spec.out) / "logs"
            raise InvalidRunError(
                f"{len(failed)} of {len(self.sweep.trials)} trials failed, see {logs}: {'; '.join(failed)}"
            )

    def write(self) -> None:
        """Write sweep.json."""
        write_text(self.path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """The contents of sweep.json."""
        spec = self.sweep.spec
        return {
            "command": self.command,
            "metric": f"mean return of {RANKED} on the held-out flows on {self.sweep.datapath}",
            "space": {k: e.to_dict() if isinstance(e, Range) else e for k, e in self.sweep.space.items()},
            "train": list(spec.train),
            "samples": spec.samples,
            "sample_seed": spec.sample_seed,
            "scheduler": spec.scheduler,
            "settings": [
                {
                    "values": ranked.values,
                    "mean": _number(ranked.level.estimate),
                    "low": _number(ranked.level.low),
                    "high": _number(ranked.level.high),
                    "trials": [self._trial(trial) for trial in ranked.trials],
                }
                for ranked in self.settings()
            ],
        }

    def _trial(self, trial: Trial) -> dict[str, Any]:
        outcome = self.outcome(trial)
        return {
            "name": trial.name,
            "folder": str(self.sweep.folder(trial)),
            "overrides": list(trial.overrides),
            "state": outcome.state,
            "return": _number(outcome.value),
            **({"said": outcome.said} if outcome.said else {}),
        }


def read_states(path: Path) -> dict[str, str]:
    """The state of each trial, as sweep.json has it; nothing where there is none.

    Raises:
        ResultError: it cannot be read.
    """
    try:
        plain = json.loads(path.read_bytes())
        return {trial["name"]: trial["state"] for setting in plain["settings"] for trial in setting["trials"]}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"{path} cannot be read ({error}); delete it, trials are kept") from None


def show(summary: Summary, console: Console | None = None) -> None:
    """Print the table."""
    keys = [key for key in summary.sweep.space if key != SEED] or [SEED]
    seeds = " over seeds [95 % bootstrap interval]" if SEED in summary.sweep.space else ""
    grid = Grid(
        title=f"Mean return of {RANKED} on the held-out flows on {summary.sweep.datapath}{seeds}, best first",
        leads=tuple(keys),
        columns=(("return", ""), ("trials", "")),
        rows=tuple(_row(summary, ranked, keys, best=i == 0) for i, ranked in enumerate(summary.settings())),
        lines=((_counts(summary, summary.sweep.trials), ""),),
    )
    print_grid(grid, console or Console())


def _row(summary: Summary, ranked: Ranked, keys: Sequence[str], *, best: bool) -> Row:
    values = [ranked.values.get(key, "all") for key in keys]
    lead = tuple(value if isinstance(value, str) else json.dumps(value) for value in values)
    level = ranked.level
    spread = "" if math.isnan(level.low) else f"[{level.low:+.4f}, {level.high:+.4f}]"
    value = Cell(f"{level.estimate:+.4f}" if level.n else "-", spread, style="bold green" if best and level.n else "")
    return Row(lead, (value, Cell(_counts(summary, ranked.trials))), title=lead[0])


def _counts(summary: Summary, trials: Sequence[Trial]) -> str:
    """The number of trials in each state."""
    counted = Counter(summary.outcome(trial).state for trial in trials)
    return ", ".join(f"{n} {state}" for state, n in counted.items())


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
