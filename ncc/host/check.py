# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host check``, ``cost`` and ``sweep``: abilities of the machine, and remains of runs on it."""

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ncc.envs.linux.check import Row, State, can_run, check_machine

STYLES = {State.THERE: "green", State.MISSING: "red", State.UNTRIED: "yellow"}


def table(rows: Sequence[Row]) -> Table:
    """A table for the terminal, in the order of the tests."""
    result = Table(title="This machine and the Linux datapath", title_justify="left")
    result.add_column("what", no_wrap=True)
    result.add_column("there", no_wrap=True)
    result.add_column("needed", no_wrap=True)
    result.add_column("found, or what to do", overflow="fold")
    for row in rows:
        style = STYLES[row.state] if row.needed or row.state is State.THERE else "yellow"
        result.add_row(row.name, f"[{style}]{row.state.value}[/]", "yes" if row.needed else "no", row.sentence)
    return result


def check(options: argparse.Namespace) -> int:
    """Print the table; 0 if a run is possible, else 1."""
    console, rows = Console(), check_machine()
    console.print(table(rows))
    if not can_run(rows):
        first = next(row for row in rows if row.needed and row.state is not State.THERE)
        console.print(f"No run on linux is possible here; the first thing missing is {first.name}.", highlight=False)
        return 1
    console.print("Runs on linux are possible here.", highlight=False)
    if options.callbacks:
        from ncc.envs.linux.callbacks import count_callbacks

        with console.status("counting callbacks"):
            counted = count_callbacks(options.callbacks)
        console.print(counted.sentence(), highlight=False, soft_wrap=True)
    return 0


def cost(options: argparse.Namespace) -> int:
    """Print the cost of an ACK; always 0."""
    from ncc.envs.linux import objects
    from ncc.envs.linux.cost import measure

    console = Console()
    with console.status("measuring"):
        costs, counting_ns = measure(tuple(options.controllers) or objects.controllers(), options.seconds)
    result = Table(title="Congestion control in the kernel, per ACK", title_justify="left")
    for heading in ("controller", "ns", "over the kernel's cubic", "ACKs"):
        result.add_column(heading, justify="left" if heading == "controller" else "right")
    for row in costs:
        over = row.ns_per_ack / costs[0].ns_per_ack if costs[0].ns_per_ack else float("nan")
        result.add_row(row.name, f"{row.ns_per_ack:.0f}", f"{over:.2f}", str(row.acks))
    console.print(result)
    console.print(
        f"By the kernel's clock for BPF programs, less the {counting_ns:.0f} ns that it counts for an empty one.",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def sweep(_: argparse.Namespace) -> int:
    """Remove the remains of dead runs, and print them; always 0."""
    from ncc.envs.linux import machine, namespaces

    with machine.alone():
        swept = namespaces.sweep()
    said = f"Removed {len(swept)} namespaces: {', '.join(swept)}." if swept else "No run left anything behind."
    Console().print(said, highlight=False, soft_wrap=True)
    return 0
