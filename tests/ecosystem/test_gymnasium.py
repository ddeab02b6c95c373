# SPDX-License-Identifier: BSD-3-Clause
"""Gymnasium's own checks, wrappers and vectors."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import vector as of_vectors

from tests.ecosystem.cases import IDS, LENGTH, SETTINGS

MODES = ("vector_entry_point", "sync", "async")
pytestmark = pytest.mark.filterwarnings("error:.*:UserWarning")


@pytest.mark.parametrize("name", IDS)
def test_its_own_checks(name: str) -> None:
    check_env(gymnasium.make(name, **SETTINGS).unwrapped)


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
