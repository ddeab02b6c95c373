# SPDX-License-Identifier: BSD-3-Clause
"""Text above and below every table: the title, and lines on bounds, warnings and invalid runs."""

import math

from ncc.metrics.bounds import LOWEST
from ncc.metrics.catalogue import ABSENT, CATALOGUE
from ncc.metrics.stats import Interval
from ncc.results.comparison import GAP_METRIC, MIN_SEEDS
from ncc.results.grid import BEST, Line
from ncc.results.judgement import Judgement
from ncc.results.palette import label
from ncc.results.verdict import signed, subjects

WARNED = "†"
"""Mark after the name of a controller with warnings."""


def title(judgement: Judgement) -> str:
    """Title of a table in one line: scenario, datapaths, number of seeds, duration of arrivals, number of flows."""
    comparison = judgement.any
    what = f"{comparison.scenario} on " if comparison.scenario else "On "
    flows = f"{comparison.n_flows:,} flows per controller"
    return f"{what}{' and '.join(judgement.datapaths)}: {runs(judgement)}, {flows}"


def runs(judgement: Judgement) -> str:
    """Number and duration of a judgement's runs; see `seeds_text`."""
    return seeds_text(len(judgement.any.seeds), judgement.any.duration_s)


def seeds_text(seeds: int, duration_s: float) -> str:
    """Text such as `10 seeds of 0.2 s`: the number of runs and, if known, the duration of arrivals in each."""
    count = f"{seeds} seed{'s' if seeds != 1 else ''}"
    return count if math.isnan(duration_s) else f"{count} of {duration_s:g} s"


def head(judgement: Judgement, name: str) -> Line:
    """Head of a controller's column: its name, a mark if there are warnings, and its invalid runs."""
    called = label(name) + (f" {WARNED}" if warnings_of(judgement, name) else "")
    bad = sum(len(comparison.invalid.get(name, {})) for comparison in judgement.comparisons.values())
    return (f"{called}\nINVALID {bad} of {_n_runs(judgement)}", "bold red") if bad else (called, "bold")


def warnings_of(judgement: Judgement, name: str) -> list[str]:
    """Warnings about a controller's numbers, a sentence each."""
    warnings = [text for comparison in judgement.comparisons.values() for text in comparison.warnings.get(name, ())]
    return list(dict.fromkeys(warnings))


def warning_lines(judgement: Judgement) -> list[Line]:
    """A line for each controller with warnings, then one for each with invalid runs: their number, and the first."""
    lines = [
        (f"{WARNED} {label(name)}: {'; '.join(warnings)}.", "yellow")
        for name in judgement.any.controllers
        if (warnings := warnings_of(judgement, name))
    ]
    for name in judgement.any.controllers:
        invalid = [
            f"on {datapath}, seed {seed}: {'; '.join(why)}"
            for datapath, comparison in judgement.comparisons.items()
            for seed, why in comparison.invalid.get(name, {}).items()
        ]
        if invalid:
            what = f"{len(invalid)} of {label(name)}'s {_n_runs(judgement)} runs, the first {invalid[0]}"
            lines.append((f"INVALID, counted as it ended and never best: {what}", "bold red"))
    return lines


def _n_runs(judgement: Judgement) -> int:
    return len(judgement.any.seeds) * len(judgement.datapaths)


def few_seeds(judgement: Judgement) -> Line | None:
    """Line that says that seeds are too few for a claim; None from `MIN_SEEDS` seeds on."""
    n = len(judgement.any.seeds)
    if n >= MIN_SEEDS:
        return None
    one = "One seed: no intervals, so no claim. Use more seeds."
    return (one if n == 1 else f"Fewer than {MIN_SEEDS} seeds: intervals too narrow for a claim. Use more."), "yellow"


def brief_lines(judgement: Judgement, lowest: str, *, split: bool) -> list[Line]:
    """Lines below the short table.

    Args:
        lowest: the lowest bound of the mean FCT, as a formatted number; empty: there is none.
        split: True if some metrics have a row for each datapath.
    """
    comparison = judgement.any
    enough = len(comparison.seeds) >= MIN_SEEDS
    lines = []
    if enough:
        lines.append((f"Mean over seeds. {BEST} best, or not significantly different from it, paired by seed.", "dim"))
    if len(judgement.datapaths) > 1:
        where = " where no datapath is named" if split else ""
        lines.append((f"{' and '.join(judgement.datapaths)} agree to the digits shown{where}.", "dim"))
    if lowest:
        gaps = {name: gap for name, gap in comparison.gaps.items() if name in subjects(comparison) and enough}
        closed = [
            f"by {label(name)}: {signed(100 * gap.estimate, 0)} %"
            for name, gap in gaps.items()
            if not math.isnan(gap.estimate)
        ]
        gap = f" Gap from {label(comparison.gap_start)} to it closed {'; '.join(closed)}." if closed else ""
        lines.append((f"{label(LOWEST)}: mean FCT {lowest} {CATALOGUE[GAP_METRIC].unit}.{gap}", "dim"))
    return [*lines, *warning_lines(judgement)]


def full_lines(judgement: Judgement, missing: list[str]) -> list[Line]:
    """Lines below the full table; `missing` has the labels of the metrics that are undefined in every run."""
    comparison = judgement.any
    lines: list[Line] = []
    if len(comparison.seeds) > 1:
        lines.append(("Mean over seeds [95 % bootstrap interval]; seeds share their flows.", "dim"))
    equal = "not significantly different from it: the paired 95 % interval of the difference contains 0."
    lines.append(few_seeds(judgement) or (f"{BEST} best, or {equal}", "dim"))
    if comparison.bounds:
        names = ", ".join(label(name) for name in comparison.bounds)
        ideal = "the same flows, all delivered, as ideally shared fluids; no controllers, so never best."
        lines.append((f"{names}: {ideal}", "dim"))
    for datapath, compared in judgement.comparisons.items():
        if compared.gaps and len(compared.seeds) >= MIN_SEEDS:
            where = f" on {datapath}" if len(judgement.datapaths) > 1 else ""
            shares = ", ".join(f"{label(name)} {_share(gap)}" for name, gap in compared.gaps.items())
            what = f"mean FCT, from {label(compared.gap_start)} (0 %) to {label(LOWEST)} (100 %){where}"
            lines.append((f"Gap closed, {what}: {shares}.", "dim"))
    if missing:
        lines.append((f"Undefined in these runs: {'; '.join(missing)}.", "dim"))
    return lines + warning_lines(judgement)


def _share(gap: Interval) -> str:
    """Format a share in per cent with its interval; a dash if there is no gap."""
    if math.isnan(gap.estimate):
        return ABSENT
    estimate, low, high = (signed(100 * value, 0) for value in (gap.estimate, gap.low, gap.high))
    return f"{estimate} %" + ("" if math.isnan(gap.low) else f" [{low}, {high}]")
