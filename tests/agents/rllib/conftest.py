# SPDX-License-Identifier: BSD-3-Clause
"""One Ray for all tests that train in this process; starting it takes longer than most of them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="package")
def ray_here() -> Iterator[None]:
    """Ray with room for three env runners; gone with the last of these tests, for others count what is open."""
    pytest.importorskip("ray", reason="rllib: ray is not installed (ncc[rllib])")
    from ncc.agents.rllib.cluster import connected

    with connected(None, None, cpus=4):
        yield


def ray_processes(parent: int) -> list[int]:
    """Every process of Ray's that descends from that process."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                names[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])

    def descends(process: int) -> bool:
        while process > 1:
            process = parents.get(process, 0)
            if process == parent:
                return True
        return False

    return [process for process in parents if process != os.getpid() and descends(process) and "ray" in names[process]]
