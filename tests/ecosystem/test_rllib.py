# SPDX-License-Identifier: BSD-3-Clause
"""RLlib as its users write it, without our learners: an environment by its id. An example has one by a creator."""

from typing import Any

import pytest

from tests.ecosystem.cases import LENGTH, SETTINGS

pytestmark = pytest.mark.rllib


def test_plain_ppo() -> None:
    pytest.importorskip("ray", reason="rllib: ray is not installed (ncc[rllib])")
    from ray.rllib.algorithms.ppo import PPOConfig

    from ncc.agents.rllib.cluster import connected

    with connected(None, None, cpus=2):
        config = (
            PPOConfig()
            .environment("ncc/RackBox-v0", env_config=SETTINGS)
            .env_runners(num_env_runners=0)
            .training(train_batch_size_per_learner=4 * LENGTH, minibatch_size=2 * LENGTH, num_epochs=1)
        )
        algorithm = config.build_algo()
        algorithm.train()
        seen: Any = algorithm.train()["env_runners"]
        assert seen["episode_len_mean"] == LENGTH
        assert seen["episode_return_mean"] < 0
        algorithm.stop()
