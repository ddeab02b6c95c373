# SPDX-License-Identifier: BSD-3-Clause
"""A Linux datapath that is closed after the test."""

from collections.abc import Iterator

import pytest

from ncc.envs.linux.datapath import LinuxDatapath
from tests.linux.runs import SETTINGS


@pytest.fixture
def datapath() -> Iterator[LinuxDatapath]:
    made = LinuxDatapath(SETTINGS)
    yield made
    made.close()
