# SPDX-License-Identifier: BSD-3-Clause
"""The simulation of ours that speaks ns3-gym's protocol without any library, built once."""

import os
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "peer.cc"


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of the program; see `peer.cc` for its arguments."""
    program = tmp_path_factory.mktemp("peer") / "peer"
    compiler = os.environ.get("CXX", "g++")
    flags = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, *flags, "-o", str(program), str(SOURCE)], check=True)
    return str(program)
