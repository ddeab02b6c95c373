# SPDX-License-Identifier: BSD-3-Clause
"""Runs the mains as a user does: in a process of their own, in a folder of their own."""

import os
import subprocess
import sys
from pathlib import Path

from ncc.core.extras import MissingExtraError
from tests.support.extras import lacking

TINY = (
    "scenario.topology.hosts=4",
    "scenario.topology.uplink_rate_bps=1e9",
    "scenario.workload.websearch.distribution=hadoop",
    "scenario.workload.websearch.load_frac=0.5",
    "scenario.duration_s=0.02",
    "evaluation.duration_s=0.02",
    "evaluation.seeds=2",
    "evaluation.workers=1",
)
"""Overrides that make a whole training run a matter of seconds."""


def ncc(main: str, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m ncc.<main> <arguments>`; `MissingExtraError` for an extra that it asks for and is not here."""
    done = subprocess.run(
        command(main, *arguments),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if lacking(done.stderr):
        raise MissingExtraError(done.stderr)
    return done


def command(main: str, *arguments: str) -> list[str]:
    """The command line itself."""
    return [sys.executable, "-m", f"ncc.{main}", *arguments]
