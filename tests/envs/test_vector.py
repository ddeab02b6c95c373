# SPDX-License-Identifier: BSD-3-Clause
"""The vector environment against as many single ones."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

import ncc  # noqa: F401 - registers
from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.gym import RackEnv
from ncc.envs.parallel import RackParallelEnv
from ncc.envs.sb3 import HostVecEnv
from ncc.envs.vector import RackVectorEnv
from ncc.harness.networks import Networks, WorkerNetworks
from tests.envs.cases import FLOWS, listed, poisson, rack
from tests.support.fluid import FluidDatapath

IDS = ("ncc/Rack-v0", "ncc/RackBox-v0", "ncc/RackOne-v0")
FINITE = rack(listed((0.0, "h0", 200_000), (0.5e-3, "h1", 400_000)), periods=30)
"""Over sooner or later, by what hosts are allowed."""
OPEN = rack(poisson(), periods=7)


def make(name: str = IDS[0], n: int = 3, **settings: Any) -> "VectorEnv[Any, Any, Any]":
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return gymnasium.make_vec(name, num_envs=n, **settings)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("scenario", [FINITE, OPEN])
@pytest.mark.parametrize(("n", "limit"), [(1, {}), (3, {}), (3, {"max_episode_steps": 5})])
def test_it_gives_bit_for_bit_what_gymnasiums_own_gives_of_single_ones(
    name: str, scenario: Any, n: int, limit: dict[str, int]
) -> None:
    env = make(name, n, scenario=scenario, **limit)
    plain = make(name, n, scenario=scenario, vectorization_mode="sync", **limit)
    assert isinstance(env.unwrapped, RackVectorEnv)
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP == plain.metadata["autoreset_mode"]
    assert (env.action_space, env.observation_space) == (plain.action_space, plain.observation_space)
    env.action_space.seed(3)
    both: list[Any] = [env.reset(seed=5), plain.reset(seed=5)]
    ended = np.zeros(n)
    for k in range(60):
        for mine, theirs in zip(*both, strict=True):
            if isinstance(mine, dict):
                assert mine.keys() == theirs.keys()
                for key in mine:
                    np.testing.assert_array_equal(mine[key], theirs[key], key)
            else:
                np.testing.assert_array_equal(mine, theirs)
                assert np.asarray(mine).dtype == np.asarray(theirs).dtype
        if k == 40:
            both = [env.reset(seed=[9, None, 7][:n]), plain.reset(seed=[9, None, 7][:n])]  # type: ignore[arg-type]
            continue
        action = env.action_space.sample()
        both = [env.step(action), plain.step(action)]
        ended += both[0][2] | both[0][3]
    assert ended.min() >= 1
    env.close()
    plain.close()


def test_without_a_seed_racks_differ() -> None:
    env = make(scenario=rack(poisson(), periods=20))
    env.reset()
    seen = np.array([env.step(np.full((3, 4), 10))[0] for _ in range(19)])
    assert not np.array_equal(seen[:, 0], seen[:, 1])
    env.close()


def test_with_a_mask_some_begin_anew() -> None:
    env = make(scenario=OPEN)
    env.reset(seed=1)
    top = np.full((3, 4), 10)
    first = env.step(top)[0]
    obs, info = env.reset(options={"reset_mask": np.array([False, True, False])})
    assert info["episode_number"].tolist() == [0, 1, 0]
    assert info["time_s"].tolist() == [1e-3, 0.0, 1e-3]
    np.testing.assert_array_equal(obs[[0, 2]], first[[0, 2]])
    ends = [env.step(top)[3].tolist() for _ in range(7)]
    assert ends[5] == [True, False, True]
    assert ends[6] == [False, True, False]
    env.close()


def test_an_observation_that_its_owner_changes_does_not_change_what_is_decided() -> None:
    settings: dict[str, Any] = {"scenario": OPEN, "observation": "pooled", "action": "shares"}
    for one, two, action in (
        (make(**settings), make(**settings), np.full((3, 4), 1)),
        (RackEnv(**settings), RackEnv(**settings), np.full(4, 1)),
    ):
        for env in (one, two):
            env.reset(seed=1)
        for _ in range(4):
            changed, kept = one.step(action)[0], two.step(action)[0]
            np.testing.assert_array_equal(changed, kept)
            changed *= 0
        one.close()
        two.close()


def test_every_kind_takes_the_same_settings_and_names_a_misspelt_one() -> None:
    for kind in (RackEnv, RackVectorEnv, RackParallelEnv, HostVecEnv):
        made = kind(hosts=3, duration_s=0.05, load_frac=0.5, reward="backlog", consent=True)
        made.close()
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'host': .*Did you mean 'hosts'\?"):
            kind(host=3)  # type: ignore[call-arg]


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="num_envs and threads must be at least 1, got 0 and 0"):
        make(n=0)
    env = make(scenario=OPEN)
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(np.zeros((3, 4), np.int64))
    with pytest.raises(ConfigError, match="one for each of 3 racks, got 2"):
        env.reset(seed=[1, 2])  # type: ignore[arg-type]
    env.close()


def test_other_datapaths_have_a_process_for_each_rack() -> None:
    env = make(n=2, scenario=OPEN, datapath=FLOWS)
    plain = make(n=2, scenario=OPEN, datapath=FLOWS, vectorization_mode="sync")
    np.testing.assert_array_equal(env.reset(seed=1)[0], plain.reset(seed=1)[0])
    networks: Networks = env.unwrapped._racks._networks
    assert isinstance(networks, WorkerNetworks)
    for level in (2, 10):
        np.testing.assert_array_equal(env.step(np.full((2, 4), level))[0], plain.step(np.full((2, 4), level))[0])
    env.close()
    failing = make(n=2, scenario=OPEN, datapath=FluidDatapath, stack="broken")
    failing.reset(seed=1)
    for _ in range(3):
        failing.step(np.full((2, 4), 10))
    with pytest.raises(DatapathError, match=r"^rack 0: the broken transport broke"):
        failing.step(np.full((2, 4), 10))
    with pytest.raises(DatapathError, match="reset the environment first"):
        failing.step(np.full((2, 4), 10))
    failing.close()
