# SPDX-License-Identifier: BSD-3-Clause
"""Text above and below every table: title, invalid runs, warnings, datapaths that disagree."""

import math

from ncc.judgement import TOLERANCES, Judgement
from ncc.metrics.catalogue import CATALOGUE
from ncc.palette import label

Line = tuple[str, str]
"""Text and its rich style."""
WARNED = "†"
"""Mark after the name of a controller with warnings."""


def title(judgement: Judgement) -> str:
    """Title of a run in one line: scenario, datapaths, seeds, duration of arrivals, number of flows."""
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
    of = len(judgement.any.seeds) * len(judgement.datapaths)
    return (f"{called}\nINVALID {bad} of {of}", "bold red") if bad else (called, "bold")


def warnings_of(judgement: Judgement, name: str) -> list[str]:
    """Warnings about a controller's numbers, a sentence each."""
    return list(
        dict.fromkeys(said for found in judgement.comparisons.values() for said in found.warnings.get(name, ()))
    )


def warning_lines(judgement: Judgement) -> list[Line]:
    """Lines on controllers with warnings, then on those with invalid runs: their number and the first."""
    lines = [
        (f"{WARNED} {label(name)}: {'; '.join(said)}.", "yellow")
        for name in judgement.any.controllers
        if (said := warnings_of(judgement, name))
    ]
    runs = len(judgement.any.seeds) * len(judgement.datapaths)
    for name in judgement.any.controllers:
        found = [
            f"on {datapath}, seed {seed}: {'; '.join(why)}"
            for datapath, comparison in judgement.comparisons.items()
            for seed, why in comparison.invalid.get(name, {}).items()
        ]
        if found:
            what = f"{len(found)} of {label(name)}'s {runs} runs, the first {found[0]}"
            lines.append((f"INVALID, counted as it ended and never best: {what}", "bold red"))
    return lines


def strays(judgement: Judgement) -> str:
    """Sentence on datapaths that differ by more than is tolerated; empty if none do."""
    far = [
        f"{label(name)} in {CATALOGUE[metric].label} ({judgement.ratio(datapath, name, metric).estimate:.3f})"
        for datapath in judgement.datapaths[:-1]
        for metric in TOLERANCES
        for name in judgement.any.controllers
        if judgement.strays(datapath, name, metric)
    ]
    return f"The datapaths do not agree within the tolerance: {'; '.join(far)}." if far else ""
