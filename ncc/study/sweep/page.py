# SPDX-License-Identifier: BSD-3-Clause
"""The table of a sweep: a row for each setting, the best first. Trials of a setting differ only in their seed."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console

from ncc.metrics.stats import interval
from ncc.results.grid import Cell, Grid, Row, print_grid
from ncc.study.sweep.run import FOLDER, latest
from ncc.study.sweep.spec import RANKED, Sweep

SEED = "seed"
"""Key of `ncc train` that does not count as a setting: returns are means over its values."""


def show(sweep: Sweep, study: optuna.Study, console: Console | None = None) -> None:
    """Print the table of the trials that have ended, and the command that makes a page of the best one.

    Args:
        console: console to print to; None: standard output.
    """
    keys = [key for key in sweep.space if key != SEED] or [SEED]
    settings: dict[tuple[str, ...], list[FrozenTrial]] = {}
    tried = [trial for trial in latest(study) if trial.state.is_finished()]
    for trial in tried:
        settings.setdefault(tuple(_shown(trial.params[key]) for key in keys), []).append(trial)
    rows: list[Row] = []
    for at, trials in sorted(settings.items(), key=lambda setting: _order(_returns(setting[1]))):
        returns = _returns(trials)
        level = interval(returns)
        spread = "" if math.isnan(level.low) else f"[{level.low:+.4f}, {level.high:+.4f}]"
        value = Cell(f"{level.estimate:+.4f}" if returns else "-", spread, style="" if rows else "bold green")
        folders = ", ".join(trial.user_attrs["folder"] for trial in trials)
        rows.append(Row(at, (value, Cell(_counts(trials)), Cell(folders)), title=at[0]))
    seeds = " over seeds [95 % bootstrap interval]" if SEED in sweep.space else ""
    grid = Grid(
        title=f"Mean return of {RANKED} on the held-out flows on {sweep.datapath}{seeds}, best first",
        leads=tuple(keys),
        columns=(("return", ""), ("trials", ""), ("folders", "")),
        rows=tuple(rows),
        lines=((_counts(tried), ""),),
    )
    print_grid(grid, console or Console())
    if done := [trial for trial in tried if _returns([trial])]:
        best = max(done, key=lambda trial: _returns([trial]))
        print(f"The best trial as a page: ncc report run={Path(sweep.spec.out) / best.user_attrs[FOLDER]}")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _returns(trials: Sequence[FrozenTrial]) -> list[float]:
    return [trial.value for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None]


def _order(returns: Sequence[float]) -> float:
    return -sum(returns) / len(returns) if returns else math.inf


def _counts(trials: Sequence[FrozenTrial]) -> str:
    """Text with the number of trials in each state."""
    counted = Counter(trial.state.name.lower() for trial in trials)
    return ", ".join(f"{n} {state}" for state, n in counted.items())
