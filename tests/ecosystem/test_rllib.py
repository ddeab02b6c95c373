# SPDX-License-Identifier: BSD-3-Clause
"""RLlib as its users write it, without our learners: an environment by a registered creator, and by its id."""

from typing import Any

import gymnasium
import pytest

from tests.ecosystem.cases import LENGTH, SETTINGS

pytestmark = pytest.mark.rllib


def test_plain_ppo() -> None:
    pytest.importorskip("ray", reason="rllib: ray is not installed (ncc[rllib])")
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.tune.registry import register_env

    from ncc.agents.rllib.cluster import connected

    def train(env: str) -> None:
        config = (
            PPOConfig()
            .environment(env, env_config=SETTINGS)
            .env_runners(num_env_runners=0)
            .training(train_batch_size_per_learner=4 * LENGTH, minibatch_size=2 * LENGTH, num_epochs=1)
        )
        algorithm = config.build_algo()
        algorithm.train()
        algorithm.train()
        seen: Any = algorithm.train()["env_runners"]
        assert seen["episode_len_mean"] == LENGTH
        assert seen["episode_return_mean"] < 0
        algorithm.stop()

    with connected(None, None, cpus=2):
        register_env("rack", lambda settings: gymnasium.make("ncc/Rack-v0", **settings))
        train("rack")
        train("ncc/RackBox-v0")
