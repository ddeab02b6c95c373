# SPDX-License-Identifier: BSD-3-Clause
"""The order of the tests' files, and which of them go to one process where several run side by side (``-n auto``)."""

import os

import pytest

TOGETHER = {
    "the kernel": ("tests/linux/", "tests/host/"),
    "a training": ("tests/mains/test_train.py", "tests/mains/test_datapaths.py", "tests/report/"),
    "Ray": ("tests/agents/rllib/", "tests/study/test_bench.py", "tests/examples/"),
}
"""Paths that run in one process, one file after the other. A machine has one TCP of the kernel, whose tests mostly
wait; one Ray and one training serve all tests that need them."""
LONG = ("tests/notebooks/", "tests/study/", "tests/packetsim/", "tests/baselines/", "tests/agents/")
COUNTING = (
    "tests/ns3gym/", "tests/harness/", "tests/envs/test_on_packetsim.py", "tests/datapaths/test_conformance.py",
)  # fmt: skip
"""Tests that count what this process has open."""
ORDER: tuple[str | tuple[str, ...], ...] = (COUNTING, "the kernel", "Ray", "a training", LONG)
"""Order of the files; all others follow. Ray leaves files and threads open, so what counts them runs before. Long ones
are not left to the end, when other processes have nothing to do."""


def place(path: str) -> int:
    """The place of a test's file in `ORDER`."""
    group = group_of(path)
    for i, these in enumerate(ORDER):
        if group == these or (group == path and path.startswith(these)):
            return i
    return len(ORDER)


def group_of(path: str) -> str:
    """The key in `TOGETHER` of a test's file, or the file itself."""
    return next((name for name, paths in TOGETHER.items() if path.startswith(paths)), path)


def workers() -> int:
    """Processes that run tests: one per core up to eight, as each has 1.5 GB, and one for the kernel's, which waits."""
    return min(len(os.sched_getaffinity(0)), 8) + 1


def scheduler(config: pytest.Config, log: object) -> object:
    """A scheduler of pytest-xdist that hands out files in the order given, groups in one piece."""
    from xdist.scheduler.loadfile import LoadFileScheduling  # type: ignore[import-untyped]

    class Groups(LoadFileScheduling):  # type: ignore[misc] # it has no types
        def _split_scope(self, nodeid: str) -> str:
            return group_of(super()._split_scope(nodeid))

    config.option.loadscopereorder = False
    return Groups(config, log)
