# SPDX-License-Identifier: BSD-3-Clause
"""Figures of docs/linux, measured on this machine: ``python -m tests.linux.report [--quick] [part ...]``.

It takes root, a quiet machine and 20 minutes, and prints a table per part.
"""

import argparse
import os
import sys

from ncc.envs.linux import machine
from tests.linux.report import host, rack

IN_A_RACK = (rack.deadlines, rack.rates, rack.parity, rack.told)
PARTS = {part.__name__: part for part in (host.cost, host.packets, host.agent, host.kills, *IN_A_RACK)}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.linux.report", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="part", help=f"{', '.join(PARTS)} (all)")
    parser.add_argument("--quick", action="store_true", help="less of everything, for a look")
    options = parser.parse_args()
    machine.require()
    for name in options.parts or PARTS:
        busy = f"{100 * machine.busy_frac(1.0):.0f} % of the cores busy before, load average {os.getloadavg()[0]:.1f}"
        rows = list(PARTS[name](quick=options.quick))
        lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
        sys.stdout.write(f"{name}: {busy}\n\n")
        sys.stdout.write("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n")


if __name__ == "__main__":
    main()
