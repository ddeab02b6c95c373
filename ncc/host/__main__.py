# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.host``: this machine as a host of real traffic.

``check`` prints what the machine can do of the Linux datapath and what is missing; its exit status is 0 if a run is
possible and 1 if not. With ``--callbacks`` it also sends traffic through network namespaces of its own, for some
seconds, and counts how often the kernel takes something else for what a program returns.

``cost`` measures what our controllers take per ACK in the kernel, beside the kernel's own CUBIC.

``sweep`` removes what runs left behind whose process was killed, with the flows that were to outlive it.

``report`` measures all that the Linux datapath has to show and writes docs/linux; it takes twenty minutes, a quiet
machine and a checkout. With ``--quick`` it takes some minutes and writes runs/host/quick.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ncc.core.errors import NccError
from ncc.envs.linux.check import Row, State, can_run, check_machine

STYLES = {State.THERE: "green", State.MISSING: "red", State.UNTRIED: "yellow"}


def table(rows: Sequence[Row]) -> Table:
    """For the terminal, in the order of the tests."""
    result = Table(title="This machine and the Linux datapath", title_justify="left")
    result.add_column("what", no_wrap=True)
    result.add_column("there", no_wrap=True)
    result.add_column("needed", no_wrap=True)
    result.add_column("found, or what to do", overflow="fold")
    for row in rows:
        style = STYLES[row.state] if row.needed or row.state is State.THERE else "yellow"
        result.add_row(row.name, f"[{style}]{row.state.value}[/]", "yes" if row.needed else "no", row.sentence)
    return result


def check(console: Console, callbacks_s: float) -> int:
    """Print the table; 0 if a run is possible, else 1."""
    rows = check_machine()
    console.print(table(rows))
    if not can_run(rows):
        first = next(row for row in rows if row.needed and row.state is not State.THERE)
        console.print(f"No run on linux is possible here; the first thing missing is {first.name}.", highlight=False)
        return 1
    console.print("Runs on linux are possible here.", highlight=False)
    if callbacks_s:
        from ncc.envs.linux.callbacks import count_callbacks

        with console.status("counting callbacks"):
            counted = count_callbacks(callbacks_s)
        console.print(counted.sentence(), highlight=False, soft_wrap=True)
    return 0


def cost(console: Console, seconds: float, controllers: Sequence[str]) -> int:
    """Print what an ACK costs; always 0."""
    from ncc.envs.linux import objects
    from ncc.envs.linux.cost import measure

    with console.status("measuring"):
        costs, counting_ns = measure(tuple(controllers) or objects.controllers(), seconds)
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


def sweep(console: Console) -> int:
    """Remove what dead runs left, and print it; always 0."""
    from ncc.envs.linux import machine, namespaces

    with machine.alone():
        swept = namespaces.sweep()
    said = f"Removed {len(swept)} namespaces: {', '.join(swept)}." if swept else "No run left anything behind."
    console.print(said, highlight=False, soft_wrap=True)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it succeeded, 1 if not, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m ncc.host", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="what this machine can do of the Linux datapath")
    checking.add_argument(
        "--callbacks",
        nargs="?",
        type=float,
        const=10.0,
        default=0.0,
        metavar="SECONDS",
        help="also count callbacks that the kernel skips, for so long (10)",
    )
    costing = commands.add_parser("cost", help="what an ACK costs in the kernel, ours beside the kernel's own CUBIC")
    costing.add_argument("controllers", nargs="*", metavar="controller", help="of ours; all if none is named")
    costing.add_argument("--seconds", type=float, default=3.0, help="of traffic for each (3)")
    commands.add_parser("sweep", help="remove what runs left behind whose process was killed")
    reporting = commands.add_parser("report", help="measure everything, and write docs/linux")
    reporting.add_argument("--quick", action="store_true", help="less of everything, for a look")
    reporting.add_argument("--out", type=Path, help="where it goes: docs/linux, or runs/host/quick")
    reporting.add_argument("--parts", nargs="*", metavar="part", help="of it; all if this is not given, none: the page")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        if options.command == "cost":
            return cost(console, options.seconds, options.controllers)
        if options.command == "sweep":
            return sweep(console)
        if options.command == "report":
            from ncc.host.report import report

            return report(console, options.out, options.parts, quick=options.quick)
        return check(console, options.callbacks)
    except NccError as error:
        console.print(f"error: {error}", style="red", highlight=False, soft_wrap=True)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
