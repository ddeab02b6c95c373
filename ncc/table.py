# SPDX-License-Identifier: BSD-3-Clause
"""A table with metrics and datapaths in rows, controllers in columns, and intervals over seeds; as text or Markdown.

With several datapaths, a small table below compares them.
"""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from ncc.brief import brief
from ncc.captions import head, runs, title, warning_lines
from ncc.comparison import GAP_START, MIN_SEEDS
from ncc.core.errors import UnknownNameError
from ncc.grid import BEST, Cell, Grid, Row, markdown_grid, print_grid
from ncc.judgement import TOLERANCES, Judgement
from ncc.metrics.bounds import LOWEST
from ncc.metrics.catalogue import CATALOGUE, Better, Metric
from ncc.metrics.stats import Interval
from ncc.palette import label
from ncc.verdict import signed, verdicts

ROWS = (
    *(key for key in CATALOGUE if key.startswith("slowdown_")),
    "fct_mean_s",
    "fct_p99_s",
    "goodput_bps",
    "queue_delay_mean_s",
    "queue_delay_p99_s",
    "timeouts_per_flow",
    "loss_frac",
    "jain",
)
"""Metrics of the table: FCT slowdown by size of flow, then the network."""

STRAYS = "!"
BETTER, WORSE = "✓", "✗"
APART = "bright_black"
"""Style of columns that do not compete."""


def print_judgement(judgement: Judgement, console: Console | None = None, *, full: bool = False) -> None:
    """Print the verdict, the table and, if any, further sentences; `print_verdict` ends the output.

    Args:
        full: every metric with its interval, the bounds and the agreement of datapaths; else a table of 80 columns.
    """
    console = console or Console()
    print_verdict(judgement, console)
    console.print()
    for i, grid in enumerate(grids(judgement) if full else [brief(judgement)]):
        if i:
            console.print()
        print_grid(grid, console)
    for sentence in sentences(judgement)[1:]:
        _say(console, sentence)


def print_verdict(judgement: Judgement, console: Console | None = None) -> None:
    """Print the first and last line of every comparison: the controllers that finish flows sooner."""
    _say(console or Console(), sentences(judgement)[0], "bold")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=not console.is_terminal)


def sentences(judgement: Judgement) -> tuple[str, ...]:
    """Sentences of `ncc.verdict.verdicts` for the reference, then those of other datapaths that differ."""
    found = {name: verdicts(judgement.comparisons[name]) for name in (judgement.reference, *judgement.datapaths)}
    if len(set(found.values())) == 1:
        return found[judgement.reference]
    return tuple(f"On {name}: {sentence}" for name, told in found.items() for sentence in told)


def markdown(judgement: Judgement, rows: Sequence[str] = ROWS) -> str:
    """Format the full table as GitHub-flavoured Markdown, with the best, and those equal to it, in bold."""
    first, *others = sentences(judgement)
    return "\n".join([f"{first}\n", *map(markdown_grid, grids(judgement, rows)), *(f"{s}\n" for s in [*others, first])])


def grids(judgement: Judgement, rows: Sequence[str] = ROWS) -> list[Grid]:
    """Make the full table and, for several datapaths, one of their agreement."""
    return [_results(judgement, rows), *([_agreement(judgement)] if len(judgement.datapaths) > 1 else [])]


def _results(judgement: Judgement, rows: Sequence[str]) -> Grid:
    several = len(judgement.datapaths) > 1
    return Grid(
        title=title(judgement),
        leads=("", "") if several else ("",),
        columns=(
            *(head(judgement, name) for name in judgement.any.controllers),
            *((label(name), APART) for name in judgement.any.bounds),
        ),
        rows=tuple(
            _row(judgement, key, datapath, several=several)
            for key in _shown(judgement, rows)
            for datapath in judgement.datapaths
        ),
        lines=tuple(_caption(judgement, rows)),
        apart=len(judgement.any.bounds),
    )


def _row(judgement: Judgement, key: str, datapath: str, *, several: bool) -> Row:
    comparison, metric = judgement.comparisons[datapath], CATALOGUE[key]
    best = comparison.best(key)
    cells = []
    for name in comparison.controllers:
        style = "bold green" if best[:1] == (name,) else "green" if name in best else ""
        middle, spread = _cell(metric, comparison.cell(name, key))
        cells.append(Cell(middle, spread, BEST if name in best else "", style))
    cells += [Cell(*_cell(metric, comparison.cell(name, key)), style=APART) for name in comparison.bounds]
    section, short = _named(key)
    first = datapath == judgement.datapaths[0]
    lead = (short if first else "", *([datapath] if several else []))
    return Row(lead, tuple(cells), title=metric.title, section=section)


def _named(key: str) -> tuple[str, str]:
    """Section of a metric, and its name there."""
    metric = CATALOGUE[key]
    section, _, short = metric.label.rpartition(", ") if key.startswith("slowdown_") else ("", "", metric.title)
    return section, short


def _agreement(judgement: Judgement) -> Grid:
    reference, comparison, others = judgement.reference, judgement.any, judgement.datapaths[:-1]
    several = len(others) > 1
    whose = "each datapath" if several else others[0]
    rows = []
    for key, tolerance in TOLERANCES.items():
        for datapath in others:
            cells = []
            for name in comparison.controllers:
                ratio, strays = judgement.ratio(datapath, name, key), judgement.strays(datapath, name, key)
                cells.append(Cell(*_ratio(ratio), STRAYS if strays else "", "bold yellow" if strays else ""))
            metric = CATALOGUE[key].label
            lead = (metric if datapath == others[0] else "", *([datapath] if several else []), f"{tolerance:.0%}")
            rows.append(Row(lead, tuple(cells), title=metric))
    how = f"Ratio of {comparison.statistic}s over seeds"
    if len(comparison.seeds) > 1:
        how += f" [{comparison.level * 100:g} % bootstrap interval, resampled in pairs]"
    lines = [(f"{how}; 1: they agree.", "dim")]
    if any(cell.mark for row in rows for cell in row.cells):
        lines.append((f"{STRAYS} not within the tolerance: there, believe {reference} alone.", "yellow"))
    return Grid(
        title=f"Agreement: {whose} over {reference}, on the same flows, {runs(judgement)}",
        leads=("", *([""] if several else []), "within"),
        columns=tuple((label(name), "bold") for name in comparison.controllers),
        rows=tuple(rows),
        lines=tuple(lines),
    )


def differences(judgement: Judgement, reference: str, rows: Sequence[str] = ROWS) -> Grid:
    """Differences of every controller from `reference`, on the same flows, with a mark if the interval excludes 0.

    Raises:
        UnknownNameError: `reference` was not compared.
    """
    if reference not in judgement.any.controllers:
        raise UnknownNameError("reference", reference, judgement.any.controllers)
    several, others = len(judgement.datapaths) > 1, [n for n in judgement.any.controllers if n != reference]
    lines = []
    for key in _shown(judgement, rows):
        for datapath in judgement.datapaths:
            comparison, metric = judgement.comparisons[datapath], CATALOGUE[key]
            cells = []
            for name in others:
                found = comparison.difference(name, reference, key)
                told = found.n >= MIN_SEEDS and 0.0 not in found
                better = {Better.LOWER: found.high < 0, Better.HIGHER: found.low > 0}.get(metric.better, False)
                mark, style = (BETTER, "green") if better else (WORSE, "red")
                judged = told and metric.better is not Better.NEITHER
                cells.append(Cell(*_signed(metric, found), mark if judged else "", style if judged else ""))
            section, short = _named(key)
            lead = (short if datapath == judgement.datapaths[0] else "", *([datapath] if several else []))
            lines.append(Row(lead, tuple(cells), title=metric.title, section=section))
    percent = f"{judgement.any.level * 100:g} %"
    below = [(f"Below 0: less than {label(reference)}. Seeds are paired, for they share their flows.", "dim")]
    if len(judgement.any.seeds) < MIN_SEEDS:
        below.append((f"Fewer than {MIN_SEEDS} seeds: nobody is told apart. Use more.", "yellow"))
    else:
        marks = f"{BETTER} better, {WORSE} worse than {label(reference)}"
        below.append((f"{marks}: the paired {percent} interval leaves out 0. No mark: not told apart.", "dim"))
    return Grid(
        title=f"Difference to {label(reference)}, paired by seed, {runs(judgement)}",
        leads=("", *([""] if several else [])),
        columns=tuple((label(name), "bold") for name in others),
        rows=tuple(lines),
        lines=tuple(below),
    )


def _signed(metric: Metric, found: Interval) -> tuple[str, str]:
    """Format a difference and its interval with the signs of the rounded numbers; rounded zeros have none."""

    def text(value: float) -> str:
        shown = metric.text(value)
        return f"+{shown}" if value > 0 and shown.strip("0.") else shown.replace("-", "\N{MINUS SIGN}")

    if np.isnan(found.low) or found.low == found.high:
        return text(found.estimate), ""
    return text(found.estimate), f"[{text(found.low)}, {text(found.high)}]"


def _ratio(ratio: Interval) -> tuple[str, str]:
    if np.isnan(ratio.estimate):
        return "–", ""  # noqa: RUF001
    spread = "" if np.isnan(ratio.low) or ratio.low == ratio.high else f"[{ratio.low:.3f}, {ratio.high:.3f}]"
    return f"{ratio.estimate:.3f}", spread


def _shown(judgement: Judgement, rows: Sequence[str]) -> list[str]:
    defined = {key for comparison in judgement.comparisons.values() for key in comparison.metrics}
    return [key for key in rows if key in defined]


def _cell(metric: Metric, cell: Interval) -> tuple[str, str]:
    """Format estimate and interval; an interval of width 0 (all seeds agree, mostly on 0) is left out."""
    if np.isnan(cell.low) or cell.low == cell.high:
        return metric.text(cell.estimate), ""
    return metric.text(cell.estimate), f"[{metric.text(cell.low)}, {metric.text(cell.high)}]"


def _caption(judgement: Judgement, rows: Sequence[str]) -> list[tuple[str, str]]:
    """Lines below the table, with their style."""
    comparison = judgement.any
    percent = f"{comparison.level * 100:g} %"
    lines = []
    if len(comparison.seeds) > 1:
        how = f"{comparison.statistic.capitalize()} over seeds [{percent} bootstrap interval]; seeds share their flows."
        lines.append((how, "dim"))
        if len(comparison.seeds) < MIN_SEEDS:
            lines.append((f"Fewer than {MIN_SEEDS} seeds: intervals too narrow for a claim. Use more.", "yellow"))
        else:
            told = f"{BEST} best, or not told from it: the paired {percent} interval of the difference holds 0."
            lines.append((told, "dim"))
    else:
        lines.append(("One seed: no intervals, so no claim. Use more seeds.", "yellow"))
    lines += _bounds(judgement)
    shown = _shown(judgement, rows)
    if missing := [CATALOGUE[key].label for key in rows if key not in shown]:
        lines.append((f"Undefined in these runs: {'; '.join(missing)}.", "dim"))
    return lines + warning_lines(judgement)


def _bounds(judgement: Judgement) -> list[tuple[str, str]]:
    """Lines on the separate columns and, with enough seeds, on the share of the gap that each controller closes."""
    if not judgement.any.bounds:
        return []
    names = ", ".join(label(name) for name in judgement.any.bounds)
    lines = [
        (f"{names}: the same flows, all delivered, as ideally shared fluids; no controllers, so never best.", "dim")
    ]
    for datapath, found in judgement.comparisons.items():
        if found.gaps and len(found.seeds) >= MIN_SEEDS:
            where = f" on {datapath}" if len(judgement.datapaths) > 1 else ""
            shares = ", ".join(f"{label(name)} {_share(gap)}" for name, gap in found.gaps.items())
            what = f"mean FCT, from {label(GAP_START)} (0 %) to {label(LOWEST)} (100 %){where}"
            lines.append((f"Gap closed, {what}: {shares}.", "dim"))
    return lines


def _share(gap: Interval) -> str:
    """Format a share in per cent with its interval; a dash if there is no gap."""
    if np.isnan(gap.estimate):
        return "–"  # noqa: RUF001
    estimate, low, high = (signed(100 * value, 0) for value in (gap.estimate, gap.low, gap.high))
    return f"{estimate} %" + ("" if np.isnan(gap.low) else f" [{low}, {high}]")
