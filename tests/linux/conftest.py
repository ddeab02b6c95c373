# SPDX-License-Identifier: BSD-3-Clause
"""A Linux datapath, a bottleneck, and a host with a line, that are closed after the test or its file."""

import gc
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ncc.envs.linux import run
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.rack import Rack
from tests.linux.lab import bottleneck
from tests.linux.lines import PAIR, Line, line_of
from tests.linux.runs import SETTINGS


@pytest.fixture(autouse=True, scope="session")
def _no_collection() -> Iterator[None]:
    """Skip the garbage collection at the start of runs, which are short here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "gc", SimpleNamespace(collect=int, freeze=gc.freeze, unfreeze=gc.unfreeze))
        yield


@pytest.fixture
def datapath() -> Iterator[LinuxDatapath]:
    made = LinuxDatapath(SETTINGS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def rack() -> Iterator[Rack]:
    """The bottleneck of `lab`."""
    with Rack(bottleneck()) as made:
        yield made


@pytest.fixture(scope="module")
def _line() -> Iterator[Line]:
    with Rack(PAIR.build()) as made:
        yield line_of(made)


@pytest.fixture
def host(_line: Line) -> Iterator[Line]:
    """A host with a line; the test must leave its queue as it was."""
    before = _line.shown("qdisc")
    yield _line
    assert _line.shown("qdisc") == before
