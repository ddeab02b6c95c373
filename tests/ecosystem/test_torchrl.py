# SPDX-License-Identifier: BSD-3-Clause
"""TorchRL's own checks."""

from typing import Any

import pytest
from torchrl.envs import GymEnv, PettingZooWrapper, check_env_specs

from ncc.envs.parallel import RackParallelEnv
from tests.ecosystem.cases import IDS, LENGTH, SETTINGS, TINY


@pytest.mark.parametrize("name", IDS)
def test_specs_of_the_rack(name: str) -> None:
    env = GymEnv(name, **SETTINGS)
    check_env_specs(env)
    assert env.rollout(2 * LENGTH).batch_size == (LENGTH,)
    env.close()


@pytest.mark.parametrize("settings", [{}, {"pairs": "mean"}, {"action": "linear", "pairs": "mirror"}])
def test_specs_of_an_agent_for_each_host(settings: dict[str, Any]) -> None:
    env = PettingZooWrapper(RackParallelEnv(TINY, **settings))
    check_env_specs(env)
    assert env.rollout(2 * LENGTH).batch_size == (LENGTH,)
    env.close()
