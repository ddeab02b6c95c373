# SPDX-License-Identifier: BSD-3-Clause
"""A Linux datapath that is closed after the test; and another try for tests of real traffic."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ncc.envs.linux.datapath import LinuxDatapath
from tests.linux.runs import SETTINGS
from tests.support.linux import sends_traffic

HERE = Path(__file__).parent
TRIES = 4
"""Kernel timers and real TCP go by the clock on the wall: a machine that is busy elsewhere for a tenth of a second can
fail a sound datapath, four times in a row hardly. What is broken fails them all; reruns are listed and counted. Tests
that send nothing have one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and sends_traffic(item):
            item.add_marker(pytest.mark.flaky(reruns=TRIES - 1, reruns_delay=2))


@pytest.fixture
def datapath() -> Iterator[LinuxDatapath]:
    made = LinuxDatapath(SETTINGS)
    yield made
    made.close()
