# SPDX-License-Identifier: BSD-3-Clause
"""Both forms see the same: equal seeds and actions give equal observations and rewards. Nothing here starts Ray."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="rllib: ray is not installed (the extra rllib)")

from ray.rllib.env.env_context import EnvContext

from ncc.agents.rllib.multi_agent import RackMultiAgentEnv
from ncc.agents.rllib.rollout import EnvSettings
from ncc.core.errors import ConfigError
from tests.agents.toy_envs import Identity

pytestmark = pytest.mark.rllib
SCALE = 0.1


def rack(make_env: Any, episode: int = 0) -> RackMultiAgentEnv:
    settings = EnvSettings(make_env, 1, rollout=10, reward_scale=SCALE, episodes=(0, episode))
    return RackMultiAgentEnv(EnvContext({"settings": settings}, worker_index=2))


@pytest.mark.parametrize("terminates", [False, True])
def test_hosts_see_and_earn_what_the_batched_env_says(terminates: bool) -> None:
    make_env = Identity((7,), terminates=terminates)
    batched, hosts = make_env(1), rack(make_env, episode=3)
    assert (hosts.agents, hosts.possible_agents) == (["host_0", "host_1"], ["host_0", "host_1"])
    expected = batched.reset(3)
    seen, _ = hosts.reset(seed=99)
    rng = np.random.default_rng(0)
    for t in range(1, 22):
        np.testing.assert_array_equal(np.stack(list(seen.values())), expected[0])
        actions = rng.integers(4, size=(1, 2))
        moved = batched.step(actions)
        seen, rewards, terminateds, truncateds, _ = hosts.step(
            dict(zip(hosts.agents, actions[0].tolist(), strict=True))
        )
        np.testing.assert_array_equal(np.stack(list(seen.values())), moved.final_obs[0])
        np.testing.assert_allclose(list(rewards.values()), SCALE * moved.reward[0], rtol=1e-6)
        assert terminateds == {"__all__": terminates and t % 7 == 0}
        assert truncateds == {"__all__": not terminates and t % 7 == 0}
        if t % 7 == 0:
            seen, _ = hosts.reset()
        expected = moved.obs
    assert len(hosts.returns) == 3
    assert hosts.next_episode == 6
    assert all(hosts.observation_spaces[host].contains(obs) for host, obs in seen.items())


def test_a_reset_in_the_middle_of_an_episode_starts_the_next() -> None:
    hosts = rack(Identity((7,)))
    hosts.reset()
    hosts.step(dict.fromkeys(hosts.agents, 0))
    seen, _ = hosts.reset()
    np.testing.assert_array_equal(np.stack(list(seen.values())), Identity((7,))(1).reset(1)[0])
    hosts.begin(5)
    seen, _ = hosts.reset()
    np.testing.assert_array_equal(np.stack(list(seen.values())), Identity((7,))(1).reset(5)[0])


def test_several_racks_are_refused() -> None:
    with pytest.raises(ConfigError, match="one rack per env runner, got 2"):
        rack(Identity((7, 7)))
