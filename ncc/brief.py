# SPDX-License-Identifier: BSD-3-Clause
"""The table for 80 columns: about eight metrics with three digits each; datapaths that agree share a row."""

import textwrap

import numpy as np

from ncc.captions import Line, head, strays, title, warning_lines
from ncc.comparison import GAP_METRIC, GAP_START, MIN_SEEDS
from ncc.grid import BEST, Cell, Grid, Row
from ncc.judgement import Judgement
from ncc.metrics.bounds import LOWEST
from ncc.metrics.catalogue import CATALOGUE, HEADLINE, Metric
from ncc.metrics.stats import Interval
from ncc.palette import label
from ncc.verdict import signed, subjects

FIGURES = 3
"""Significant digits of the smallest number of a row."""
HEAD_LETTERS = 12
"""Letters of a head in one line; longer heads continue in a second line, between words."""
IF_THEY_DIFFER = ("jain",)
"""Metrics that are left out if they are the same for all controllers."""


def brief(judgement: Judgement) -> Grid:
    """Make rows for the metrics of `HEADLINE`; a metric in which datapaths differ has a row for each."""
    found = [_rows(judgement, key) for key in HEADLINE if key in judgement.any.metrics]
    rows = [row for of_metric in found for row in of_metric]
    split = any(len(of_metric) > 1 for of_metric in found)
    n = len(judgement.any.seeds)
    level = f"{judgement.any.level * 100:g} %"
    spread = f"±: half of the {level} bootstrap interval. " if n > 1 else ""
    more = "All metrics, intervals and bounds: table=full"
    return Grid(
        title=title(judgement),
        leads=("", "") if split else ("",),
        columns=tuple(_head(judgement, name) for name in judgement.any.controllers),
        rows=tuple(rows if split else (Row(row.lead[:1], row.cells, row.title) for row in rows)),
        lines=tuple(_lines(judgement, split=split)),
        brief=True,
        last=(f"{spread}{more}", more),
    )


def _head(judgement: Judgement, name: str) -> Line:
    text, style = head(judgement, name)
    return "\n".join(textwrap.fill(line, HEAD_LETTERS, break_long_words=False) for line in text.split("\n")), style


def _rows(judgement: Judgement, key: str) -> list[Row]:
    metric, names = CATALOGUE[key], judgement.any.controllers
    cells = {d: [c.cell(name, key) for name in names] for d, c in judgement.comparisons.items()}
    digits = _digits(metric, [cell.estimate for of in cells.values() for cell in of])
    shown = {d: tuple(metric.brief(cell.estimate, digits) for cell in of) for d, of in cells.items()}
    if key in IF_THEY_DIFFER and all(len(set(texts)) == 1 for texts in shown.values()):
        return []
    alike = len(set(shown.values())) == 1
    rows = []
    for datapath in [judgement.reference] if alike else judgement.datapaths:
        best = judgement.comparisons[datapath].best(key)
        of = tuple(
            Cell(text, _spread(metric, cell, digits), *_mark(name, best))
            for name, text, cell in zip(names, shown[datapath], cells[datapath], strict=True)
        )
        called = (metric.short or metric.title) if alike or datapath == judgement.datapaths[0] else ""
        rows.append(Row((called, "" if alike else datapath), of, title=metric.title))
    return rows


def _mark(name: str, best: tuple[str, ...]) -> tuple[str, str]:
    """Mark and style of a cell."""
    return (BEST if name in best else ""), ("bold green" if best[:1] == (name,) else "green" if name in best else "")


def _digits(metric: Metric, values: list[float]) -> int:
    """Digits after the decimal point: `FIGURES` of the smallest non-zero number, at most those of the metric."""
    sizes = [abs(metric.show(value)) for value in values if np.isfinite(value) and value]
    if not sizes:
        return min(metric.digits, FIGURES - 1)
    return int(np.clip(FIGURES - 1 - np.floor(np.log10(min(sizes))), 0, metric.digits))


def _spread(metric: Metric, cell: Interval, digits: int) -> str:
    if np.isnan(cell.low) or cell.low == cell.high:
        return ""
    return f"±{metric.brief((cell.high - cell.low) / 2, digits)}"


def _lines(judgement: Judgement, *, split: bool) -> list[Line]:
    n, several = len(judgement.any.seeds), len(judgement.datapaths) > 1
    statistic = judgement.any.statistic.capitalize()
    lines = [(f"{statistic} over seeds. {BEST} best, or not told from it in pairs.", "dim")] if n >= MIN_SEEDS else []
    if several:
        where = " where no datapath is named" if split else ""
        lines.append((f"{' and '.join(judgement.datapaths)} agree to the digits shown{where}.", "dim"))
    if far := strays(judgement):
        lines.append((far, "yellow"))
    return [*lines, *_bound(judgement), *warning_lines(judgement)]


def _bound(judgement: Judgement) -> list[Line]:
    """Lines on the lowest bound and, with enough seeds, on the share of the way from DCTCP to it."""
    comparison = judgement.any
    if LOWEST not in comparison.bounds:
        return []
    metric = CATALOGUE[GAP_METRIC]
    at = comparison.cell(LOWEST, metric.key).estimate
    few = len(comparison.seeds) < MIN_SEEDS
    gaps = {name: comparison.gaps[name] for name in subjects(comparison) if not few and name in comparison.gaps}
    closed = [
        f"by {label(name)}: {signed(100 * gap.estimate, 0)} %"
        for name, gap in gaps.items()
        if np.isfinite(gap.estimate)
    ]
    told = f" Gap from {label(GAP_START)} to it closed {'; '.join(closed)}." if closed else ""
    shown = metric.brief(at, _digits(metric, [at]))
    return [(f"{label(LOWEST)}: mean FCT {shown} {metric.unit}.{told}", "dim")]
