# SPDX-License-Identifier: BSD-3-Clause
"""Gymnasium's own checks, wrappers and vectors, and a learner of one file in CleanRL's manner."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import NormalizeReward, RecordEpisodeStatistics
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


@pytest.mark.parametrize("name", IDS)
def test_statistics_of_whole_episodes(name: str) -> None:
    env = RecordEpisodeStatistics(gymnasium.make(name, **SETTINGS))
    env.action_space.seed(1)
    for seed in (1, None, None):
        env.reset(seed=seed)
        rewards: list[float] = []
        ended = False
        info: dict[str, Any] = {}
        while not ended:
            _, reward, terminated, truncated, info = env.step(env.action_space.sample())
            rewards.append(float(reward))
            ended = terminated or truncated
        assert info["episode"]["r"] == pytest.approx(sum(rewards))
        assert info["episode"]["l"] == len(rewards) == LENGTH
    assert list(env.length_queue) == [LENGTH] * 3
    env.close()  # type: ignore[no-untyped-call]


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


class Agent(torch.nn.Module):
    """CleanRL's agent for MultiDiscrete, made smaller."""

    def __init__(self, envs: "VectorEnv[Any, Any, Any]") -> None:
        super().__init__()
        assert isinstance(envs.single_action_space, spaces.MultiDiscrete)
        self.nvec = envs.single_action_space.nvec.tolist()
        size = int(np.prod(envs.single_observation_space.shape or ()))
        self.actor = torch.nn.Linear(size, sum(self.nvec))
        self.critic = torch.nn.Linear(size, 1)

    def forward(self, x: torch.Tensor, action: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        parts = torch.split(self.actor(x), self.nvec, dim=1)
        chosen = [torch.distributions.Categorical(logits=logits) for logits in parts]
        if action is None:
            action = torch.stack([one.sample() for one in chosen], dim=1)  # type: ignore[no-untyped-call]
        logs = torch.stack([one.log_prob(a) for one, a in zip(chosen, action.T, strict=True)])  # type: ignore[no-untyped-call]
        return action, logs.sum(0), self.critic(x).flatten()


@pytest.mark.parametrize("vector", ["sync of wrapped ones", "entry point"])
def test_a_learner_in_cleanrls_manner(vector: str) -> None:
    envs: VectorEnv[Any, Any, Any]
    if vector == "entry point":
        envs = of_vectors.RecordEpisodeStatistics(gymnasium.make_vec("ncc/Rack-v0", 2, **SETTINGS))
    else:
        thunk = lambda: NormalizeReward(RecordEpisodeStatistics(gymnasium.make("ncc/Rack-v0", **SETTINGS)))  # noqa: E731
        envs = gymnasium.vector.SyncVectorEnv([thunk, thunk])
    torch.manual_seed(1)
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4)
    before = agent.actor.weight.detach().clone()
    returns: list[float] = []
    obs = torch.Tensor(envs.reset(seed=1)[0])
    for _ in range(3):
        logs, values, rewards = [], [], []
        for _ in range(16):
            action, log, value = agent(obs)
            new_obs, reward, terminated, truncated, infos = envs.step(action.numpy())
            if "_episode" in infos:
                returns += infos["episode"]["r"][infos["_episode"]].tolist()
            obs = torch.Tensor(new_obs)
            logs.append(log)
            values.append(value)
            rewards.append(torch.Tensor(reward * ~(terminated | truncated)))
        advantage = torch.stack(rewards) - torch.stack(values)
        loss = -(torch.stack(logs) * advantage.detach()).mean() + advantage.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert len(returns) == 2 * (48 // (LENGTH + 1))
    assert np.isfinite(returns).all()
    assert not torch.equal(before, agent.actor.weight)
    envs.close()
