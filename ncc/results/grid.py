# SPDX-License-Identifier: BSD-3-Clause
"""A table of estimates with their intervals, printed as wide as a terminal allows or as Markdown."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

Line = tuple[str, str]
"""Text and its rich style."""
RULE = "│"
BEST = "*"
"""Mark after the best values; Markdown shows these values in bold instead."""


@dataclass(frozen=True)
class Cell:
    """A cell: the texts of an estimate and its interval, a mark after the estimate, and its rich style."""

    middle: str
    spread: str = ""
    """Interval; empty: there is none."""
    mark: str = ""
    style: str = ""


@dataclass(frozen=True)
class Row:
    """A row: leading cells, the first of which is the label, then one cell per column."""

    lead: tuple[str, ...]
    cells: tuple[Cell, ...]
    title: str
    """Label with the section included, for tables that do not show sections."""
    section: str = ""
    """Name of the section, below which its rows are indented; empty: the row is in none."""


@dataclass(frozen=True)
class Grid:
    """Content of a table."""

    title: str
    leads: tuple[str, ...]
    """Heads of the leading cells."""
    columns: tuple[Line, ...]
    """Heads of the other columns."""
    rows: tuple[Row, ...]
    lines: tuple[Line, ...]
    """Lines below the table."""
    apart: int = 0
    """Number of columns at the right end that a vertical rule separates from the others."""
    last: tuple[str, str] = ("", "")
    """Last line below the table: the first text if intervals are printed, else the second."""
    brief: bool = False
    """Print the table without lines at its edges, and leave out the intervals if it does not fit the terminal."""

    @property
    def rule(self) -> int:
        """Index of the first column to the right of the rule."""
        return len(self.columns) - self.apart


def print_grid(grid: Grid, console: Console) -> None:
    """Print the table as wide as it needs to be, within the terminal or, for a pipe, the width in COLUMNS.

    If a table is too wide, a brief one leaves out its intervals, and any other puts them below the estimates. If that
    is still too wide, the columns are split into several tables, one below the other.
    """
    blocks, spread = [list(range(len(grid.columns)))], " "
    bounded = is_bounded(console)
    if bounded and _width(_table(grid, blocks[0], spread)) > console.width:
        spread = "" if grid.brief else "\n"
        blocks = _blocks(grid, console.width, spread)
    tables = [_table(grid, block, spread) for block in blocks]
    width, before = max(_width(table) for table in tables), console.width
    # A pipe has no width, so a table must not be cut or wrapped at rich's assumed 80 columns.
    console.width = before if bounded else max(width, before)
    try:
        console.print(Text(grid.title, style="bold"), soft_wrap=not bounded)
        for table in tables:
            console.print(table)
        for line, style in [*grid.lines, (grid.last[not spread], "dim")]:
            if line:
                console.print(Text(line, style=style), soft_wrap=not bounded)
    finally:
        console.width = before


def is_bounded(console: Console) -> bool:
    """True if the width of lines is limited, by a terminal or, for a pipe, by COLUMNS."""
    return console.is_terminal or os.environ.get("COLUMNS", "").isdigit()


def markdown_table(head: Sequence[str], rows: Iterable[Iterable[object]], align: str = "l") -> str:
    """Format a Markdown table.

    Args:
        align: `l` (left) or `r` (right) for each column; the last letter also holds for all further columns.
    """
    sides = align + align[-1] * (len(head) - len(align))
    ruler = ["---:" if side == "r" else "---" for side in sides]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, ruler, *rows])


def markdown_grid(grid: Grid) -> str:
    """Format as GitHub-flavoured Markdown; cells marked `BEST` are bold."""
    heads = [*grid.leads, *(text.replace("\n", " ") for text, _ in grid.columns)]
    if grid.apart:  # Markdown has neither rules between columns nor grey
        heads[-grid.apart :] = [f"*{head}*" for head in heads[-grid.apart :]]
    rows = []
    for row in grid.rows:
        cells = []
        for cell in row.cells:
            middle = f"**{cell.middle}**" if cell.mark == BEST else cell.middle + cell.mark
            cells.append(f"{middle} {cell.spread}".strip())
        lead = [row.title if row.lead[0] else "", *row.lead[1:]]
        rows.append([_escaped(cell) for cell in [*lead, *cells]])
    below = "  \n".join(line.replace(f"{BEST} best", "Bold: best", 1) for line, _ in grid.lines)
    table = markdown_table(heads, rows, "l" * len(grid.leads) + "r")
    return "\n".join([grid.title, "", table, "", below, ""])


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _table(grid: Grid, columns: Sequence[int], spread: str) -> Table:
    """Make the table of these columns.

    Args:
        spread: a space or a line break between estimate and interval; empty: intervals are left out.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True, show_edge=not grid.brief)
    for head in grid.leads:
        table.add_column(Text(head), no_wrap=True)
    for i in columns:
        if _ruled(grid, columns, i):
            table.add_column(Text(RULE, style="dim"), no_wrap=True)
        head, style = grid.columns[i]
        table.add_column(Text(head, style=style), justify="right", no_wrap=True)
    for section, rows in groupby(grid.rows, key=lambda row: row.section):
        if section:
            table.add_row(Text(section, style="italic"))
        for row in rows:
            cells = []
            for i in columns:
                if _ruled(grid, columns, i):
                    cells.append(Text(RULE, style="dim"))
                cell = row.cells[i]
                text = Text.assemble((cell.middle + (cell.mark or " "), cell.style))
                if cell.spread and spread:
                    text.append(spread + cell.spread, style="dim")
                cells.append(text)
            indent = "  " if section else ""
            table.add_row(Text(indent + row.lead[0]), *(Text(lead) for lead in row.lead[1:]), *cells)
        table.add_section()
    return table


def _ruled(grid: Grid, columns: Sequence[int], i: int) -> bool:
    """True if the rule is drawn before column i: at the first separated column, unless the table begins there."""
    return grid.apart > 0 and i == grid.rule and i != columns[0]


def _blocks(grid: Grid, width: int, spread: str) -> list[list[int]]:
    """Split the columns, in order, into tables that fit `width`; a column that is too wide gets a table of its own."""
    blocks: list[list[int]] = []
    for i in range(len(grid.columns)):
        if blocks and _width(_table(grid, [*blocks[-1], i], spread)) <= width:
            blocks[-1].append(i)
        else:
            blocks.append([i])
    return blocks


def _width(table: Table) -> int:
    return Console(width=10_000).measure(table).maximum
