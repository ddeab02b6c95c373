# SPDX-License-Identifier: BSD-3-Clause
"""One table: metrics down, controllers across, intervals over seeds; for terminals, logs and Markdown."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncc.comparison import MIN_SEEDS, Comparison
from ncc.metrics.catalogue import CATALOGUE, Metric
from ncc.metrics.stats import Interval
from ncc.palette import label

ROWS = (
    *(key for key in CATALOGUE if key.startswith("slowdown_")),
    "fct_mean_s",
    "goodput_bps",
    "queue_delay_mean_s",
    "queue_delay_p99_s",
    "timeouts_per_flow",
    "loss_frac",
    "jain",
)
"""What the table shows: all of FCT slowdown by size of flow, then the network."""

STAR = "*"


def print_comparison(comparison: Comparison, console: Console | None = None, rows: Sequence[str] = ROWS) -> None:
    """Print the table as wide as it needs; in a narrow terminal intervals go below, then controllers take turns."""
    console = console or Console()
    blocks = [comparison.controllers]
    stacked = False
    if console.is_terminal:
        stacked = _width(_table(comparison, comparison.controllers, rows, stacked=False)) > console.width
        blocks = _blocks(comparison, rows, console.width) if stacked else blocks
    tables = [_table(comparison, block, rows, stacked=stacked) for block in blocks]
    width, before = max(_width(table) for table in tables), console.width
    # A pipe has no width of its own: there a table must not be cut or wrapped at rich's assumed 80 columns.
    console.width = max(width, before) if not console.is_terminal else before
    try:
        console.print(Text(_title(comparison), style="bold"), soft_wrap=not console.is_terminal)
        for table in tables:
            console.print(table)
        for line, style in _caption(comparison, rows):
            console.print(Text(line, style=style), soft_wrap=not console.is_terminal)
    finally:
        console.width = before


def markdown(comparison: Comparison, rows: Sequence[str] = ROWS) -> str:
    """The same as GitHub-flavoured Markdown; the best, and who cannot be told from it, in bold."""
    shown = _shown(comparison, rows)
    lines = [
        "| | " + " | ".join(_head(comparison, name).replace("\n", " ") for name in comparison.controllers) + " |",
        "|---|" + "---:|" * len(comparison.controllers),
    ]
    for key in shown:
        best = comparison.best(key)
        texts = (_cell(CATALOGUE[key], comparison.cell(name, key)) for name in comparison.controllers)
        cells = [
            (f"**{middle}** {spread}" if name in best else f"{middle} {spread}").strip()
            for name, (middle, spread) in zip(comparison.controllers, texts, strict=True)
        ]
        lines.append(f"| {CATALOGUE[key].title.replace('<', '&lt;').replace('>', '&gt;')} | {' | '.join(cells)} |")
    caption = [line.replace(f"{STAR} best", "Bold: best", 1) for line, _ in _caption(comparison, rows)]
    return "\n".join([_title(comparison), "", *lines, "", "  \n".join(caption), ""])


def _table(comparison: Comparison, controllers: Sequence[str], rows: Sequence[str], *, stacked: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True)
    table.add_column("", no_wrap=True)
    for name in controllers:
        style = "bold red" if comparison.invalid.get(name) else "bold"
        table.add_column(Text(_head(comparison, name), style=style), justify="right", no_wrap=True)
    for section, keys in groupby(_shown(comparison, rows), key=_section):
        if section:
            table.add_row(Text(section, style="italic"))
        for key in keys:
            metric, best = CATALOGUE[key], comparison.best(key)
            cells = []
            for name in controllers:
                middle, spread = _cell(metric, comparison.cell(name, key))
                style = "bold green" if best[:1] == (name,) else "green" if name in best else ""
                text = Text.assemble((middle + (STAR if name in best else " "), style))
                if spread:
                    text.append(("\n" if stacked else " ") + spread, style="dim")
                cells.append(text)
            table.add_row(f"  {metric.label.rsplit(', ', 1)[1]}" if section else metric.title, *cells)
        table.add_section()
    return table


def _blocks(comparison: Comparison, rows: Sequence[str], width: int) -> list[tuple[str, ...]]:
    """Controllers in as few groups as fit `width`, at least one each."""
    blocks: list[tuple[str, ...]] = []
    for name in comparison.controllers:
        wider = (*blocks[-1], name) if blocks else (name,)
        if blocks and _width(_table(comparison, wider, rows, stacked=True)) <= width:
            blocks[-1] = wider
        else:
            blocks.append((name,))
    return blocks


def _width(table: Table) -> int:
    return Console(width=10_000).measure(table).maximum


def _shown(comparison: Comparison, rows: Sequence[str]) -> list[str]:
    return [key for key in rows if key in comparison.metrics]


def _section(key: str) -> str:
    """What slowdowns of one size of flow have in common; nothing for other metrics."""
    return CATALOGUE[key].label.rsplit(", ", 1)[0] if key.startswith("slowdown_") else ""


def _head(comparison: Comparison, name: str) -> str:
    bad = len(comparison.invalid.get(name, {}))
    return label(name) + (f"\nINVALID {bad} of {len(comparison.seeds)}" if bad else "")


def _cell(metric: Metric, cell: Interval) -> tuple[str, str]:
    """Estimate and interval as text; an interval of width 0 (all seeds agree, mostly on 0) goes without saying."""
    if np.isnan(cell.low) or cell.low == cell.high:
        return metric.text(cell.estimate), ""
    return metric.text(cell.estimate), f"[{metric.text(cell.low)}, {metric.text(cell.high)}]"


def _title(comparison: Comparison) -> str:
    n = len(comparison.seeds)
    where = f" on {comparison.scenario}" if comparison.scenario else ""
    return f"Comparison{where}: {n} seed{'s' if n != 1 else ''}, {comparison.n_flows:,} flows per controller"


def _caption(comparison: Comparison, rows: Sequence[str]) -> list[tuple[str, str]]:
    """Lines below the table, with their style."""
    percent = f"{comparison.level * 100:g} %"
    lines = []
    if len(comparison.seeds) > 1:
        how = f"{comparison.statistic.capitalize()} over seeds [{percent} bootstrap interval]; seeds share their flows."
        lines.append((how, "dim"))
        if len(comparison.seeds) < MIN_SEEDS:
            lines.append((f"Fewer than {MIN_SEEDS} seeds: intervals too narrow for a claim. Use more.", "yellow"))
        else:
            told = f"{STAR} best, or not told from it: the paired {percent} interval of the difference holds 0."
            lines.append((told, "dim"))
    else:
        lines.append(("One seed: no intervals, so no claim. Use more seeds.", "yellow"))
    if missing := [CATALOGUE[key].label for key in rows if key not in comparison.metrics]:
        lines.append((f"Undefined in these runs: {'; '.join(missing)}.", "dim"))
    for name, runs in comparison.invalid.items():
        seeds_of: dict[str, list[str]] = {}
        for seed, why in runs.items():
            seeds_of.setdefault("; ".join(why), []).append(str(seed))
        for why_text, seeds in seeds_of.items():
            word = "seed" if len(seeds) == 1 else "seeds"
            lines.append((f"INVALID, left out: {label(name)}, {word} {', '.join(seeds)}: {why_text}", "bold red"))
    return lines
