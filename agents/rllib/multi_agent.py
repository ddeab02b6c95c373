# SPDX-License-Identifier: BSD-3-Clause
"""RLlib's standard form, for comparison: a rack is a `MultiAgentEnv`, hosts are agents with their own episodes."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Space
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from ncc.agents.rllib.env_runner import (
    EPISODES_PER_ROLLOUT,
    NEXT_EPISODE,
    RETURNS,
    TOLD,
    TOLD_WINDOW,
    failed,
    host_spaces,
    quiet,
)
from ncc.agents.rllib.rollout import FailedRollout
from ncc.agents.rllib.settings import EnvSettings
from ncc.core.errors import ConfigError, InvalidRunError, NccError
from ncc.harness.batch import ObsArray, Telling

Hosts = dict[str, Any]


class RackMultiAgentEnv(MultiAgentEnv):
    """One rack of a `BatchedEnv`. `config` is RLlib's `EnvContext` with an `EnvSettings`.

    Raises:
        ConfigError: the environment has several racks.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self._settings: EnvSettings = config["settings"]
        self.worker = self._settings.worker(config.worker_index)
        self._env = self._settings.make_env(self.worker)
        if self._env.n_racks != 1:
            raise ConfigError(f"the form multi_agent steps one rack per env runner, got {self._env.n_racks}")
        self.possible_agents = [f"host_{i}" for i in range(self._env.n_agents)]
        self.agents = list(self.possible_agents)
        observes, acts = host_spaces(self._env)
        self.observation_spaces: dict[str, Space[Any]] = dict.fromkeys(self.agents, observes)
        self.action_spaces: dict[str, Space[Any]] = dict.fromkeys(self.agents, acts)
        self.observation_space, self.action_space = Dict(self.observation_spaces), Dict(self.action_spaces)
        self.returns: list[float] = []
        """Mean reward per host and epoch of each episode that ended; the code that reports them empties the list."""
        self.begin(self._settings.episodes[self.worker])

    def begin(self, episode: int) -> None:
        """Make the next `reset` start that episode."""
        self.next_episode = episode
        self._obs: ObsArray | None = None
        self._sum, self._length = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Hosts, Hosts]:
        """Return the next episode's first observations; its flows depend on the run's seed, not on RLlib's."""
        if self._obs is None or self._length:
            self._obs = self._env.reset(self.next_episode)
            self._sum, self._length = 0.0, 0
        return self._by_host(self._obs[0]), {}

    def step(self, action_dict: dict[str, int]) -> tuple[Hosts, Hosts, Hosts, Hosts, Hosts]:
        """Step one epoch. `BatchedEnv` starts the next episode where one ends, and `reset` then only returns it.

        Raises:
            InvalidRunError: a reward is not finite.
        """
        if not self._length:
            self.next_episode += 1
        actions = np.array([[action_dict[host] for host in self.agents]], np.int64)
        moved = self._env.step(actions)
        for host, reward in enumerate(moved.reward[0].tolist()):
            if not math.isfinite(reward):
                raise InvalidRunError(f"reward of host {host} in rack 0 is {reward}; rewards must be finite")
        ended = bool(moved.terminated[0] or moved.truncated[0])
        self._sum, self._length = self._sum + float(moved.reward[0].mean()), self._length + 1
        if ended:
            self.returns.append(self._sum / self._length)
            self._sum, self._length = 0.0, 0
        self._obs = np.array(moved.obs, np.float32)
        rewards = moved.reward[0] * np.float32(self._settings.reward_scale)
        return (
            self._by_host(moved.final_obs[0] if ended else moved.obs[0]),
            dict(zip(self.agents, rewards.tolist(), strict=True)),
            {"__all__": bool(moved.terminated[0])},
            {"__all__": bool(moved.truncated[0] and not moved.terminated[0])},
            {},
        )

    def told(self) -> Mapping[str, float]:
        """Numbers that the environment reports of its network since the last call."""
        return self._env.told() if isinstance(self._env, Telling) else {}

    def close(self) -> None:
        self._env.close()

    def _by_host(self, obs: ObsArray) -> Hosts:
        return dict(zip(self.agents, np.array(obs, np.float32), strict=True))


class HostsEnvRunner(MultiAgentEnvRunner):
    """RLlib's env runner, with the metrics of `BatchedEnvRunner` and the ability to continue at another episode."""

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        quiet()
        super().__init__(config=config, **kwargs)

    def begin(self, episode: int) -> None:
        """Continue at that episode number; see `BatchedEnvRunner.begin`."""
        self._rack().begin(episode)
        self._needs_initial_reset = True

    def sample(self, **kwargs: Any) -> list[MultiAgentEpisode | FailedRollout]:
        """Collect RLlib's episodes, or return the reason why there are none."""
        rack = self._rack()
        before = rack.next_episode
        try:
            episodes: list[MultiAgentEpisode | FailedRollout] = super().sample(**kwargs)
        except NccError as error:
            self._needs_initial_reset = True  # the epoch was not finished
            return [failed(self, rack.worker, error)]
        self.metrics.log_value(EPISODES_PER_ROLLOUT, rack.next_episode - before, reduce="max", window=1)
        self.metrics.log_value((NEXT_EPISODE, str(rack.worker)), rack.next_episode, reduce="max", window=1)
        for value in rack.returns:
            self.metrics.log_value(RETURNS, value, reduce="item_series")
        for name, value in rack.told().items():
            self.metrics.log_value((TOLD, name), value, reduce="mean", window=TOLD_WINDOW)
        rack.returns.clear()
        return episodes

    def _try_env_step(self, actions: Any) -> Any:
        """Step without RLlib's error handling, which would replace the environment's message by an empty one."""
        return self.env.step(actions)

    def _rack(self) -> RackMultiAgentEnv:
        rack: RackMultiAgentEnv = self.env.envs[0].unwrapped
        return rack
