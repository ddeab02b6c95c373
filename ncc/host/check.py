# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host check`` and ``sweep``: requirements of the Linux datapath, and remains of killed runs."""

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ncc.envs.linux.check import Row, State, can_run, check_machine

STYLES = {State.THERE: "green", State.MISSING: "red", State.UNTRIED: "yellow"}


def table(rows: Sequence[Row]) -> Table:
    """Return a table for the terminal, in the order of the checks."""
    result = Table(title="This machine and the Linux datapath", title_justify="left")
    result.add_column("what", no_wrap=True)
    result.add_column("there", no_wrap=True)
    result.add_column("needed", no_wrap=True)
    result.add_column("purpose, or what to do", overflow="fold")
    for row in rows:
        style = STYLES[row.state] if row.needed or row.state is State.THERE else "yellow"
        result.add_row(row.name, f"[{style}]{row.state.value}[/]", "yes" if row.needed else "no", row.sentence)
    return result


def check(_: argparse.Namespace) -> int:
    """Print the table; return 0 if a run is possible, else 1."""
    console, rows = Console(), check_machine()
    console.print(table(rows))
    if not can_run(rows):
        first = next(row for row in rows if row.needed and row.state is not State.THERE)
        console.print(f"No run on linux is possible here; the first thing missing is {first.name}.", highlight=False)
        return 1
    console.print("Runs on linux are possible here.", highlight=False)
    return 0


def sweep(_: argparse.Namespace) -> int:
    """Remove the remains of dead runs and print them; return 0."""
    from ncc.envs.linux import machine, namespaces

    with machine.alone():
        swept = namespaces.sweep()
    sentence = f"Removed {len(swept)} namespaces: {', '.join(swept)}." if swept else "No run left anything behind."
    Console().print(sentence, highlight=False, soft_wrap=True)
    return 0
