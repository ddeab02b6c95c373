# SPDX-License-Identifier: BSD-3-Clause
"""A simulation of ours as a program."""

import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of a program that runs `peer.py`; see there for its arguments."""
    program = tmp_path_factory.mktemp("peer") / "peer"
    script = Path(__file__).parent / "peer.py"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {script} "$@"\n')
    program.chmod(0o755)
    return str(program)
