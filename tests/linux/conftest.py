# SPDX-License-Identifier: BSD-3-Clause
"""A Linux datapath, and a host with a line, that are closed after the test."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ncc.envs.linux.datapath import LinuxDatapath
from tests.linux.runs import SETTINGS

if TYPE_CHECKING:
    from tests.linux.host import Host


@pytest.fixture
def datapath() -> Iterator[LinuxDatapath]:
    made = LinuxDatapath(SETTINGS)
    yield made
    made.close()


@pytest.fixture
def host() -> "Iterator[Host]":
    from ncc.envs.linux.rack import Rack  # takes pyroute2
    from tests.linux.host import PAIR, Host

    with Rack(PAIR.build()) as rack:
        yield Host(rack)
