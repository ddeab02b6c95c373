# SPDX-License-Identifier: BSD-3-Clause
"""Summaries of runs that were never made, and what is printed of them."""

import io

from rich.console import Console

from ncc.metrics.catalogue import CATALOGUE
from ncc.results.comparison import Comparison
from ncc.results.judgement import Judgement
from ncc.results.table import print_judgement, print_verdict

NAN = float("nan")


def summary(**values: float) -> dict[str, float]:
    """Summary of a run that defines these metrics only."""
    return dict.fromkeys(CATALOGUE, NAN) | values


def alone(comparison: Comparison) -> Judgement:
    """Judgement of one datapath."""
    return Judgement({"ns3": comparison})


def printed(judgement: Judgement, width: int | None = None, *, full: bool = True) -> str:
    """Output for a terminal of this width, or for a pipe, with the closing verdict."""
    out = io.StringIO()
    if width:
        console = Console(file=out, force_terminal=True, width=width, color_system=None)
    else:
        console = Console(file=out, force_terminal=False)
    print_judgement(judgement, console, full=full)
    print_verdict(judgement, console)
    return out.getvalue()
