# SPDX-License-Identifier: BSD-3-Clause
"""TorchRL's own checks. It is imported by the tests, as that takes longer than they do."""

from typing import Any

import pytest

from ncc.envs.parallel import RackParallelEnv
from tests.ecosystem.cases import IDS, LENGTH, SETTINGS, TINY


@pytest.mark.parametrize("name", IDS)
def test_specs_of_the_rack(name: str) -> None:
    from torchrl.envs import GymEnv, check_env_specs

    env = GymEnv(name, **SETTINGS)
    check_env_specs(env)
    assert env.rollout(2 * LENGTH).batch_size == (LENGTH,)
    env.close()


@pytest.mark.parametrize("settings", [{}, {"pairs": "mean"}, {"action": "linear", "pairs": "mirror"}])
def test_specs_of_an_agent_for_each_host(settings: dict[str, Any]) -> None:
    from torchrl.envs import PettingZooWrapper, check_env_specs

    env = PettingZooWrapper(RackParallelEnv(TINY, **settings))
    check_env_specs(env)
    assert env.rollout(2 * LENGTH).batch_size == (LENGTH,)
    env.close()
