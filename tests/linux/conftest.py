# SPDX-License-Identifier: BSD-3-Clause
"""A Linux datapath, a bottleneck, and a host with a line, that are closed after the test or its file."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ncc.envs.linux.datapath import LinuxDatapath
from tests.linux.runs import SETTINGS

if TYPE_CHECKING:
    from ncc.envs.linux.rack import Rack
    from tests.linux.host import Host


@pytest.fixture
def datapath() -> Iterator[LinuxDatapath]:
    made = LinuxDatapath(SETTINGS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def rack() -> "Iterator[Rack]":
    """The bottleneck of `lab`."""
    from ncc.envs.linux.rack import Rack  # takes pyroute2
    from tests.linux.lab import bottleneck

    with Rack(bottleneck()) as made:
        yield made


@pytest.fixture(scope="module")
def _line() -> "Iterator[Host]":
    from ncc.envs.linux.rack import Rack
    from tests.linux.host import PAIR, Host

    with Rack(PAIR.build()) as made:
        yield Host(made)


@pytest.fixture
def host(_line: "Host") -> "Iterator[Host]":
    """A host with a line, whose queue is after the test as it was before."""
    before = _line.root()
    yield _line
    assert _line.root() == before
