# SPDX-License-Identifier: BSD-3-Clause
"""Gymnasium's own checks, wrappers and vectors."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import vector as of_vectors

from tests.ecosystem.cases import IDS, LENGTH, SETTINGS

MODES = ("vector_entry_point", "sync", "async")
pytestmark = pytest.mark.filterwarnings("error:.*:UserWarning")


@pytest.mark.parametrize("name", IDS)
def test_its_own_checks(name: str) -> None:
    check_env(gymnasium.make(name, **SETTINGS).unwrapped)


RESERVED = {"episode", "final_obs", "final_info", "final_observation", "terminal_observation", "TimeLimit.truncated"}
"""Keys of `info` that Gymnasium, Stable-Baselines3 and their wrappers fill in themselves."""


@pytest.mark.parametrize("mode", [None, *MODES])
def test_no_key_of_info_is_reserved(mode: str | None) -> None:
    env: Any = gymnasium.make_vec(IDS[0], 2, mode, **SETTINGS) if mode else gymnasium.make(IDS[0], **SETTINGS)
    seen = set(env.reset(seed=1)[1])
    for _ in range(LENGTH + 1 if mode else LENGTH):
        seen |= set(env.step(env.action_space.sample())[4])
    assert {"episode_number", "host_rewards"} <= seen
    assert not {key.removeprefix("_") for key in seen} & RESERVED
    env.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", IDS)
def test_statistics_of_a_vector(name: str, mode: str) -> None:
    env = of_vectors.RecordEpisodeStatistics(gymnasium.make_vec(name, 2, mode, **SETTINGS))
    env.action_space.seed(1)
    env.reset(seed=1)
    sums = np.zeros(2)
    for step in range(1, 3 * (LENGTH + 1) + 1):  # an episode, and the step that begins the next
        _, reward, _, truncated, info = env.step(env.action_space.sample())
        sums += reward
        assert truncated.all() == (step % (LENGTH + 1) == LENGTH)
        if truncated.all():
            np.testing.assert_allclose(info["episode"]["r"], sums)
            np.testing.assert_array_equal(info["episode"]["l"], [LENGTH] * 2)
            sums[:] = 0
    assert env.episode_count == 6
    env.close()


def test_wrappers_of_vectors_take_the_batched_engine() -> None:
    env: VectorEnv[Any, Any, Any] = gymnasium.make_vec("ncc/RackBox-v0", 3, **SETTINGS)
    env = of_vectors.NormalizeObservation(of_vectors.NormalizeReward(of_vectors.ClipAction(env)))
    env = of_vectors.DictInfoToList(of_vectors.RecordEpisodeStatistics(env))
    env.reset(seed=1)
    obs: Any
    infos: Any = []
    for _ in range(LENGTH):
        obs, reward, _, _, infos = env.step(np.full((3, 4), 1.5, np.float32))
        assert np.isfinite(obs).all()
        assert np.isfinite(reward).all()
    assert [info["episode"]["l"] for info in infos] == [LENGTH] * 3
    env.close()
