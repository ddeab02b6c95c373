# SPDX-License-Identifier: BSD-3-Clause
"""PettingZoo's own checks and SuperSuit, on an agent for each host."""

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test  # type: ignore[import-untyped]

from ncc.envs.parallel import RackParallelEnv
from tests.ecosystem.cases import TINY


@pytest.mark.parametrize("action", ["levels", "linear"])
def test_its_own_checks(action: str) -> None:
    parallel_api_test(RackParallelEnv(TINY, action=action), num_cycles=50)
    parallel_seed_test(lambda: RackParallelEnv(TINY, action=action), num_cycles=20)
