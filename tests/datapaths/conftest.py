# SPDX-License-Identifier: BSD-3-Clause
"""Every simulator on disk, in turn."""

from collections.abc import Iterator

import pytest

from ncc.envs.native.base import NativeDatapath
from tests.datapaths.runs import SIMULATORS


@pytest.fixture(params=SIMULATORS, ids=lambda simulator: simulator.name)
def simulator(request: pytest.FixtureRequest) -> type[NativeDatapath]:
    chosen: type[NativeDatapath] = request.param
    return chosen


@pytest.fixture
def datapath(simulator: type[NativeDatapath]) -> Iterator[NativeDatapath]:
    made = simulator()
    yield made
    made.close()
