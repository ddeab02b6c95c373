# SPDX-License-Identifier: BSD-3-Clause
"""The commands ``ncc host check``, ``sweep`` and ``unit``.

They print the requirements of the Linux datapath, remove the remains of killed runs, and print a systemd unit.
"""

import argparse
import sys
from pathlib import Path
from string import Template

from ncc.envs.linux import machine, namespaces
from ncc.envs.linux.check import can_run, check_machine
from ncc.host import plan
from ncc.host.check_start import check_start

TEMPLATE = Path(__file__).with_name("ncc-host.service.in")
THERE = {True: "yes", False: "no", None: "not tried"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run``; none of them is needed."""
    plan.add_options(parser, needed=False)


def check(options: argparse.Namespace) -> int:
    """Print a line for each requirement, or what a start with options of ``run`` would refuse; return 0, else 1.

    Raises:
        ConfigError: options without a policy file or an interface.
    """
    if options.given:
        return check_start(options)
    rows = check_machine()
    cells = [("what", "there", "needed", "purpose, or what to do")]
    cells += [(row.name, THERE[row.there], "yes" if row.needed else "no", row.sentence) for row in rows]
    for name, there, needed, sentence in cells:
        print(f"{name:<16}{there:<11}{needed:<8}{sentence}")
    if can_run(rows):
        print("Runs on linux are possible here.")
        return 0
    first = next(row for row in rows if row.needed and not row.there)
    print(f"No run on linux is possible here; the first thing missing is {first.name}.")
    return 1


def sweep(_: argparse.Namespace) -> int:
    """Remove the network namespaces that dead runs left behind, and print their names; return 0."""
    with machine.taken():
        swept = namespaces.sweep()
    print(f"Removed {len(swept)} namespaces: {', '.join(swept)}." if swept else "No run left anything behind.")
    return 0


def unit(_: argparse.Namespace) -> int:
    """Print a systemd unit that runs the agent with this interpreter and no more rights than it needs; return 0."""
    print(Template(TEMPLATE.read_text()).substitute(python=sys.executable), end="")
    return 0
