# SPDX-License-Identifier: BSD-3-Clause
"""Tables of a comparison, as text or Markdown: a row per metric and datapath, a column per controller.

Values are means over seeds with their intervals. The short table fits 80 columns. The full one has every metric.
"""

import textwrap
from collections.abc import Callable, Collection, Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from ncc.core.errors import UnknownNameError
from ncc.metrics.bounds import LOWEST
from ncc.metrics.catalogue import ABSENT, ALL, CATALOGUE, HEADLINE, Better, Metric, range_of
from ncc.metrics.stats import Interval
from ncc.results.captions import brief_lines, full_lines, head, runs, title
from ncc.results.comparison import GAP_METRIC, MIN_SEEDS, Comparison
from ncc.results.grid import BEST, Cell, Grid, Line, Row, is_bounded, markdown_grid, print_grid
from ncc.results.judgement import Judgement
from ncc.results.palette import label
from ncc.results.verdict import verdicts

BETTER, WORSE = "✓", "✗"
APART = "bright_black"
"""Style (grey) of columns of bounds, which do not compete with controllers."""
FIGURES = 3
"""Significant digits that the smallest number in a row of the short table has."""
HEAD_LETTERS = 12
"""Longest line in the head of a column of the short table, in letters; longer heads are broken between words."""
IF_THEY_DIFFER = ("jain",)
"""Metrics that the short table leaves out if all controllers have the same value, to the digits shown."""


def print_judgement(judgement: Judgement, console: Console | None = None, *, full: bool = False) -> None:
    """Print the verdict, the table and the verdicts on further controllers, if there are any.

    Args:
        console: console to print to; None: standard output.
        full: print every metric with its interval, and the bounds; else the short table.
    """
    console = console or Console()
    print_verdict(judgement, console)
    console.print()
    print_grid(full_table(judgement) if full else brief(judgement), console)
    for sentence in sentences(judgement)[1]:
        _say(console, sentence)


def print_verdict(judgement: Judgement, console: Console | None = None, *, named: bool = False) -> None:
    """Print the verdict: who finishes flows sooner, in one sentence or, if datapaths differ, in one for each of them.

    The output of a comparison begins and ends with the verdict.

    Args:
        console: console to print to; None: standard output.
        named: begin each sentence with the scenario's name.
    """
    console, where = console or Console(), f"{judgement.any.scenario}: " if named else ""
    for sentence in sentences(judgement)[0]:
        _say(console, where + sentence, "bold")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=not is_bounded(console))


def sentences(judgement: Judgement) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write the sentences of `ncc.results.verdict.verdicts`.

    If they are equal on all datapaths, they are given once. Otherwise they are given for each datapath, with its name,
    the reference first.

    Returns:
        The sentences about the first of `ncc.results.verdict.subjects`, and those about the others.
    """
    by_datapath = {name: verdicts(judgement.comparisons[name]) for name in (judgement.judged_by, *judgement.datapaths)}
    if len(set(by_datapath.values())) == 1:
        first, *others = by_datapath[judgement.judged_by]
        return (first,), tuple(others)
    named = [tuple(f"On {name}: {sentence}" for sentence in verdict) for name, verdict in by_datapath.items()]
    return tuple(first for first, *_ in named), tuple(sentence for _, *others in named for sentence in others)


def markdown(judgement: Judgement, rows: Collection[str] = CATALOGUE) -> str:
    """Format verdicts and full table as GitHub-flavoured Markdown, with the best values in bold.

    Args:
        rows: keys of the metrics to show.
    """
    first, others = (tuple(f"{sentence}\n" for sentence in part) for part in sentences(judgement))
    return "\n".join([*first, markdown_grid(full_table(judgement, rows)), *others, *first])


def full_table(judgement: Judgement, rows: Collection[str] = CATALOGUE) -> Grid:
    """Make the full table: a row per metric and datapath, a column per controller, then a column per bound.

    Args:
        rows: keys of the metrics to show.
    """
    comparison = judgement.any
    shown, defined = _shown(judgement, rows), _defined(judgement)
    met = {"", *map(range_of, defined)}
    absent = [key for key in rows if key not in defined and not CATALOGUE[key].special]
    missing = [CATALOGUE[key].label if range_of(key) in met else _section(key) for key in absent]
    bounds = tuple((label(name), APART) for name in comparison.bounds)
    return Grid(
        title=title(judgement),
        leads=_leads(judgement),
        columns=(*(head(judgement, name) for name in comparison.controllers), *bounds),
        rows=_rows(judgement, shown, _results),
        lines=tuple(full_lines(judgement, [*dict.fromkeys(missing)])),
        apart=len(bounds),
    )


def differences(judgement: Judgement, reference: str, rows: Collection[str] = CATALOGUE) -> Grid:
    """Make a table with the difference of every other controller from `reference`, on the same flows.

    A difference whose interval excludes 0 is marked as better or worse, unless it rounds to 0 from end to end. A metric
    without any difference has no row.

    Args:
        rows: keys of the metrics to show.

    Raises:
        UnknownNameError: `reference` was not compared.
    """
    if reference not in judgement.any.controllers:
        raise UnknownNameError("reference", reference, judgement.any.controllers)
    others = [name for name in judgement.any.controllers if name != reference]

    def cells(comparison: Comparison, key: str) -> list[Cell]:
        return [_difference(CATALOGUE[key], comparison.difference(name, reference, key)) for name in others]

    def told(key: str) -> bool:
        return any(
            cell.middle != ABSENT for comparison in judgement.comparisons.values() for cell in cells(comparison, key)
        )

    marks = f"{BETTER} better, {WORSE} worse than {label(reference)}"
    marked = f"{marks}: the paired 95 % interval excludes 0. No mark: no significant difference.", "dim"
    few = f"Fewer than {MIN_SEEDS} seeds: differences are not judged. Use more.", "yellow"
    paired = f"Below 0: less than {label(reference)}. Seeds are paired, for they share their flows.", "dim"
    return Grid(
        title=f"Difference to {label(reference)}, paired by seed, {runs(judgement)}",
        leads=_leads(judgement),
        columns=tuple((label(name), "bold") for name in others),
        rows=_rows(judgement, [*filter(told, _shown(judgement, rows))], cells),
        lines=(paired, few if len(judgement.any.seeds) < MIN_SEEDS else marked),
    )


def _leads(judgement: Judgement) -> tuple[str, ...]:
    return ("", "") if len(judgement.datapaths) > 1 else ("",)


def _defined(judgement: Judgement) -> set[str]:
    return {key for comparison in judgement.comparisons.values() for key in comparison.metrics}


def _shown(judgement: Judgement, rows: Collection[str]) -> list[str]:
    """Keys of the rows that have numbers. Where all flows are of one range of sizes, rows of all flows stand for it."""
    defined = _defined(judgement)
    met = {range_of(key) for key in defined} - {"", ALL}

    def said(key: str) -> bool:
        return {range_of(key)} == met and key.replace(f"_{range_of(key)}_", f"_{ALL}_") in rows

    return [key for key in rows if key in defined and not said(key)]


def _section(key: str) -> str:
    """Text of a range of sizes in the label of a metric of FCT slowdown; empty for other metrics."""
    return CATALOGUE[key].label.rpartition(", ")[0] if range_of(key) else ""


def _rows(judgement: Judgement, keys: Sequence[str], cells: Callable[[Comparison, str], list[Cell]]) -> tuple[Row, ...]:
    """Make a row for each metric and datapath. Rows of FCT slowdown stand in a section for each range of sizes."""
    rows = []
    for key in keys:
        metric = CATALOGUE[key]
        section = _section(key)
        short = metric.label.removeprefix(f"{section}, ") if section else metric.title
        for datapath, comparison in judgement.comparisons.items():
            lead = (short if datapath == judgement.datapaths[0] else "", datapath)
            row_cells = tuple(cells(comparison, key))
            rows.append(Row(lead[: len(_leads(judgement))], row_cells, title=metric.title, section=section))
    return tuple(rows)


def _results(comparison: Comparison, key: str) -> list[Cell]:
    """Make the cells of a row: those of the controllers, then those of the bounds."""
    text, best = CATALOGUE[key].text, comparison.best(key)
    cells = [Cell(*_spread(text, comparison.cell(name, key)), *_mark(name, best)) for name in comparison.controllers]
    return cells + [Cell(*_spread(text, comparison.cell(name, key)), style=APART) for name in comparison.bounds]


def _mark(name: str, best: tuple[str, ...]) -> tuple[str, str]:
    """Mark and style of a controller's cell; `best` are the best controllers."""
    return (BEST if name in best else ""), ("bold green" if best[:1] == (name,) else "green" if name in best else "")


def _spread(text: Callable[[float], str], interval: Interval) -> tuple[str, str]:
    """Texts of estimate and interval. An interval of width 0, where all seeds agree, is left out."""
    if np.isnan(interval.low) or interval.low == interval.high:
        return text(interval.estimate), ""
    return text(interval.estimate), f"[{text(interval.low)}, {text(interval.high)}]"


def _difference(metric: Metric, interval: Interval) -> Cell:
    """Cell of a difference. Its numbers have a plus or a minus sign, except those that are rounded to 0."""

    def text(value: float) -> str:
        shown = metric.text(value)
        return f"+{shown}" if value > 0 and shown.strip("0.") else shown.replace("-", "\N{MINUS SIGN}")

    seen = any(metric.text(end).strip("-0.") for end in (interval.low, interval.high))
    if metric.better is Better.NEITHER or interval.n < MIN_SEEDS or 0.0 in interval or not seen:
        return Cell(*_spread(text, interval))
    better = interval.high < 0 if metric.better is Better.LOWER else interval.low > 0
    return Cell(*_spread(text, interval), *((BETTER, "green") if better else (WORSE, "red")))


def brief(judgement: Judgement) -> Grid:
    """Make the short table: a row for each metric of `HEADLINE` or, where datapaths differ, one for each datapath."""
    comparison = judgement.any
    rows = [_brief_rows(judgement, key) for key in HEADLINE if key in comparison.metrics]
    split = any(len(of_metric) > 1 for of_metric in rows)
    leads = 2 if split else 1
    lowest = comparison.cell(LOWEST, GAP_METRIC).estimate if LOWEST in comparison.bounds else None
    metric = CATALOGUE[GAP_METRIC]
    spread = "±: half of the 95 % bootstrap interval. " if len(comparison.seeds) > 1 else ""
    more = "All metrics, intervals and bounds: table=full"
    return Grid(
        title=title(judgement),
        leads=("",) * leads,
        columns=tuple(_brief_head(judgement, name) for name in comparison.controllers),
        rows=tuple(Row(row.lead[:leads], row.cells, row.title) for of_metric in rows for row in of_metric),
        lines=tuple(
            brief_lines(
                judgement, "" if lowest is None else metric.brief(lowest, _digits(metric, [lowest])), split=split
            )
        ),
        brief=True,
        last=(f"{spread}{more}", more),
    )


def _brief_head(judgement: Judgement, name: str) -> Line:
    text, style = head(judgement, name)
    return "\n".join(textwrap.fill(line, HEAD_LETTERS, break_long_words=False) for line in text.split("\n")), style


def _brief_rows(judgement: Judgement, key: str) -> list[Row]:
    """Make the rows of a metric: one if all datapaths agree to the digits shown, else one for each datapath.

    A metric of `IF_THEY_DIFFER` on which all controllers agree has no row.
    """
    metric, names = CATALOGUE[key], judgement.any.controllers
    cells = {d: [c.cell(name, key) for name in names] for d, c in judgement.comparisons.items()}
    digits = _digits(metric, [cell.estimate for of in cells.values() for cell in of])
    shown = {d: tuple(metric.brief(cell.estimate, digits) for cell in of) for d, of in cells.items()}
    if key in IF_THEY_DIFFER and all(len(set(texts)) == 1 for texts in shown.values()):
        return []
    alike = len(set(shown.values())) == 1
    rows = []
    for datapath in [judgement.judged_by] if alike else judgement.datapaths:
        best = judgement.comparisons[datapath].best(key)
        row_cells = tuple(
            Cell(text, _half(metric, cell, digits), *_mark(name, best))
            for name, text, cell in zip(names, shown[datapath], cells[datapath], strict=True)
        )
        called = (metric.short or metric.title) if alike or datapath == judgement.datapaths[0] else ""
        rows.append(Row((called, "" if alike else datapath), row_cells, title=metric.title))
    return rows


def _digits(metric: Metric, values: list[float]) -> int:
    """Number of decimals at which the smallest non-zero value has `FIGURES` digits, at most the metric's own number."""
    sizes = [abs(metric.show(value)) for value in values if np.isfinite(value) and value]
    if not sizes:
        return min(metric.digits, FIGURES - 1)
    return int(np.clip(FIGURES - 1 - np.floor(np.log10(min(sizes))), 0, metric.digits))


def _half(metric: Metric, cell: Interval, digits: int) -> str:
    if np.isnan(cell.low) or cell.low == cell.high:
        return ""
    return f"±{metric.brief((cell.high - cell.low) / 2, digits)}"
