# SPDX-License-Identifier: BSD-3-Clause
"""PettingZoo's own checks and SuperSuit, on an agent for each host."""

from typing import Any

import numpy as np
import pytest
import supersuit
from pettingzoo.test import parallel_api_test, parallel_seed_test  # type: ignore[import-untyped]

from ncc.envs.parallel import RackParallelEnv
from tests.ecosystem.cases import LENGTH, TINY


@pytest.mark.parametrize("action", ["levels", "linear"])
def test_its_own_checks(action: str) -> None:
    parallel_api_test(RackParallelEnv(TINY, action=action), num_cycles=50)
    parallel_seed_test(lambda: RackParallelEnv(TINY, action=action), num_cycles=20)


def test_hosts_of_several_racks_as_one_vector() -> None:
    one: Any = supersuit.pettingzoo_env_to_vec_env_v1(RackParallelEnv(TINY))
    env, plain = supersuit.concat_vec_envs_v1(one, 2, num_cpus=0, base_class="gymnasium"), RackParallelEnv(TINY)
    assert env.num_envs == 8
    first, _ = env.reset(seed=1)
    own, _ = plain.reset(seed=1)
    np.testing.assert_array_equal(first[:4], list(own.values()))
    for step in range(1, 2 * LENGTH + 1):
        obs, reward, _, truncated, _ = env.step(np.full(8, 5))
        if plain.agents:
            seen, paid, *_ = plain.step(dict.fromkeys(plain.agents, 5))
            np.testing.assert_allclose(reward[:4], list(paid.values()))
            if plain.agents:
                np.testing.assert_array_equal(obs[:4], list(seen.values()))
        assert truncated.all() == (step % LENGTH == 0)
    env.close()
    plain.close()
