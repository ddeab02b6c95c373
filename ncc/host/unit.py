# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host unit``: a systemd unit for the agent, with no more rights than the agent uses."""

import argparse
import sys
from pathlib import Path
from string import Template

TEMPLATE = Path(__file__).with_name("ncc-host.service.in")


def command(_: argparse.Namespace) -> int:
    """Print a unit that runs the agent with this interpreter; return 0."""
    print(Template(TEMPLATE.read_text()).substitute(python=sys.executable), end="")
    return 0
