# SPDX-License-Identifier: BSD-3-Clause
"""PettingZoo's own checks and SuperSuit, on an agent for each host."""

from typing import Any

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test  # type: ignore[import-untyped]

from ncc.envs.parallel import RackParallelEnv
from tests.ecosystem.cases import TINY


@pytest.mark.parametrize(
    "settings",
    [{"action": "levels"}, {"action": "linear"}, {"pairs": "mean"}, {"action": "linear", "pairs": {"copies": 4}}],
)
def test_its_own_checks(settings: dict[str, Any]) -> None:
    parallel_api_test(RackParallelEnv(TINY, **settings), num_cycles=50)
    parallel_seed_test(lambda: RackParallelEnv(TINY, **settings), num_cycles=20)
