# SPDX-License-Identifier: BSD-3-Clause
"""Stable-Baselines3 and its contributed algorithms: each learns through at least three logs."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import VecMonitor

from ncc.core.errors import ConfigError
from ncc.envs.packetsim import PacketsimDatapath
from ncc.envs.rack import RackBatch
from ncc.envs.sb3 import HostVecEnv
from tests.ecosystem.cases import IDS, LENGTH, SETTINGS, TINY
from tests.envs.cases import spec

pytestmark = pytest.mark.filterwarnings("error:.*(info|key|space|render_mode).*:UserWarning")


class Logs(KVWriter):  # type: ignore[misc] # its types are not checked here
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
        self.seen.append(dict(key_values))

    def close(self) -> None:
        pass


def learn(model: Any, steps: int, log_interval: int) -> None:
    """With at least three logs that have the returns of episodes."""
    logs = Logs()
    model.set_logger(Logger(None, [logs]))
    model.learn(steps, log_interval=log_interval)
    returns = [seen["rollout/ep_rew_mean"] for seen in logs.seen if "rollout/ep_rew_mean" in seen]
    assert len(returns) >= 3
    assert np.isfinite(returns).all()
    assert {seen["rollout/ep_len_mean"] for seen in logs.seen if "rollout/ep_len_mean" in seen} == {LENGTH}


@pytest.mark.parametrize(
    ("kind", "policy", "name", "settings"),
    [
        (A2C, "MlpPolicy", "ncc/RackBox-v0", {"n_steps": 16}),
        (RecurrentPPO, "MlpLstmPolicy", "ncc/Rack-v0", {"n_steps": 16, "batch_size": 16, "n_epochs": 1}),
    ],
)
def test_learners_from_rollouts(kind: Any, policy: str, name: str, settings: dict[str, Any]) -> None:
    env = make_vec_env(name, n_envs=2, seed=1, env_kwargs=SETTINGS)
    learn(kind(policy, env, device="cpu", seed=1, **settings), 128, 1)
    env.close()


@pytest.mark.parametrize(("kind", "name"), [(SAC, "ncc/RackBox-v0"), (TD3, "ncc/RackBox-v0"), (DQN, "ncc/RackOne-v0")])
def test_learners_from_memory(kind: Any, name: str) -> None:
    env = make_vec_env(name, seed=1, env_kwargs=SETTINGS)
    model = kind("MlpPolicy", env, device="cpu", seed=1, buffer_size=200, learning_starts=20, batch_size=16)
    learn(model, 60, 1)
    env.close()


def test_ppo_on_ns3_in_the_default_vector_of_environments() -> None:
    env = make_vec_env("ncc/Rack-v0", n_envs=2, seed=1, env_kwargs=SETTINGS | {"datapath": "ns3"})
    learn(PPO("MlpPolicy", env, device="cpu", n_steps=16, batch_size=16, n_epochs=1), 128, 1)
    env.close()


@pytest.mark.parametrize("action", ["levels", "linear"])
def test_hosts_share_a_policy(action: str) -> None:
    env = HostVecEnv(TINY, num_racks=2, action=action)
    assert env.num_envs == 8
    learn(PPO("MlpPolicy", VecMonitor(env), device="cpu", n_steps=16, batch_size=64, n_epochs=1, seed=3), 512, 1)
    env.close()


def test_hosts_share_a_policy_in_pairs() -> None:
    env = HostVecEnv(TINY, num_racks=4, action="linear", pairs="mean")
    settings = {"use_sde": True, "sde_sample_freq": 4, "n_steps": 16, "batch_size": 64, "n_epochs": 1, "vf_coef": 0.0}
    learn(PPO("MlpPolicy", VecMonitor(env), device="cpu", seed=3, **settings), 1024, 1)
    env.close()


def test_hosts_see_and_are_paid_what_the_racks_give() -> None:
    env, racks = HostVecEnv(TINY, num_racks=2, seed=4), RackBatch(spec(TINY), PacketsimDatapath, 4, n_racks=2)
    np.testing.assert_array_equal(env.reset(), racks.reset().reshape(8, -1))
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(25):
        actions = rng.integers(0, 11, 8)
        obs, reward, done, infos = env.step(actions)
        moved = racks.step(actions.reshape(2, 4))
        np.testing.assert_array_equal(obs, moved.obs.reshape(8, -1))
        np.testing.assert_array_equal(reward, moved.reward.ravel())
        np.testing.assert_array_equal(done, np.repeat(moved.truncated, 4))
        for row in done.nonzero()[0]:
            ends += 1
            np.testing.assert_array_equal(infos[row]["terminal_observation"], moved.final_obs.reshape(8, -1)[row])
            assert infos[row]["TimeLimit.truncated"]
    assert ends == 16
    env.seed(9)
    first = env.reset()
    np.testing.assert_array_equal(first, RackBatch(spec(TINY), PacketsimDatapath, 9, n_racks=2).reset().reshape(8, -1))
    assert env.env_is_wrapped(VecMonitor) == [False] * 8
    with pytest.raises(ConfigError, match="hosts share one environment"):
        env.set_attr("x", 1)
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_its_own_checks(name: str) -> None:
    check_env(gymnasium.make(name, **SETTINGS).unwrapped, skip_render_check=True)
