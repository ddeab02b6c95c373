# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host unit``: a unit by which systemd runs the agent, with no more rights than an agent uses."""

import argparse
import sys
from pathlib import Path
from string import Template

TEMPLATE = Path(__file__).with_name("ncc-host.service.in")


def command(_: argparse.Namespace) -> int:
    """Print the unit, of an agent that this interpreter runs; always 0."""
    print(Template(TEMPLATE.read_text()).substitute(python=sys.executable), end="")
    return 0
