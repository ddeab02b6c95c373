# SPDX-License-Identifier: BSD-3-Clause
"""Measure how fast everything is, as ratios within one run.

Ratios of CPU time, taken turn by turn, hold on a busy machine too; rows that say epochs/s, and the groups
learners and protocol, are wall time and need two free cores.
"""

import os
import time
from collections.abc import Collection, Sequence

from ncc.core.errors import UnknownNameError
from ncc.core.options import Parser, exit_status
from ncc.study.bench import GROUPS


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are, 2 for unknown groups, 1 if there is nothing to measure with."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="ncc bench", description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="group", help=f"of {', '.join(GROUPS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repeats: for a look, not for a claim")
    options = parser.parse_args(arguments)
    if unknown := set(options.groups) - set(GROUPS):
        raise UnknownNameError("group", min(unknown), GROUPS)
    _measure(options.groups or GROUPS, "quick" if options.quick else "full")
    return 0


def _measure(groups: Collection[str], preset: str) -> None:
    # Imported here: --help answers without what only a measurement needs.
    from rich.console import Console

    from ncc.study.bench.rows import measured, table

    console = Console(soft_wrap=True)
    load, began_s = os.getloadavg()[0], time.perf_counter()
    for name in (name for name in GROUPS if name in groups):
        with console.status(f"measuring: {name}"):
            rows = measured(name, preset)
        console.print(table(f"{name}: {GROUPS[name]['title']}", rows))
    cores = len(os.sched_getaffinity(0))
    console.print(
        f"{cores} cores; load average {load:.1f} before, {os.getloadavg()[0]:.1f} after; "
        f"{time.perf_counter() - began_s:.0f} s. Rows about epochs/s, learners and protocol are wall time: they need "
        "two free cores, the others do not."
    )


if __name__ == "__main__":
    raise SystemExit(main())
