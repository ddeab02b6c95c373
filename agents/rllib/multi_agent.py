# SPDX-License-Identifier: BSD-3-Clause
"""RLlib's standard form, for comparison: a rack is a `MultiAgentEnv`, hosts are agents with their own episodes."""

import logging
import math
from typing import Any

import numpy as np
from gymnasium.spaces import Dict
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from ncc.agents.rllib.env_runner import failed, host_spaces, log_rollout, quiet
from ncc.agents.rllib.rollout import EnvSettings, FailedRollout
from ncc.core.errors import ConfigError, InvalidRunError, NccError
from ncc.harness.batch import Measuring, ObsArray

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
        self.rack = self._settings.make_env(self.worker)
        if self.rack.n_racks != 1:
            raise ConfigError(f"the form multi_agent steps one rack per env runner, got {self.rack.n_racks}")
        self.agents = self.possible_agents = [f"host_{i}" for i in range(self.rack.n_agents)]
        observes, acts = host_spaces(self.rack)
        self.observation_spaces, self.action_spaces = (
            dict.fromkeys(self.agents, observes),
            dict.fromkeys(self.agents, acts),
        )
        self.observation_space, self.action_space = Dict(self.observation_spaces), Dict(self.action_spaces)
        self.returns: list[float] = []
        """Mean reward per host and epoch of each episode that ended; the code that reports them empties the list."""
        self.begin(self._settings.episodes[self.worker])

    def begin(self, episode: int) -> None:
        """Make the next `reset` start that episode."""
        self.next_episode = episode
        self._obs: ObsArray | None = None
        self._rewards: list[float] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Hosts, Hosts]:
        """Return the next episode's first observations; its flows depend on the run's seed, not on RLlib's."""
        if self._obs is None or self._rewards:
            self._obs, self._rewards = self.rack.reset(self.next_episode), []
        return self._by_host(self._obs[0]), {}

    def step(self, action_dict: dict[str, int]) -> tuple[Hosts, Hosts, Hosts, Hosts, Hosts]:
        """Step one epoch. `BatchedEnv` starts the next episode where one ends, and `reset` then only returns it.

        Raises:
            InvalidRunError: a reward is not finite.
        """
        if not self._rewards:
            self.next_episode += 1
        moved = self.rack.step(np.array([[action_dict[host] for host in self.agents]], np.int64))
        for host, reward in enumerate(moved.reward[0].tolist()):
            if not math.isfinite(reward):
                raise InvalidRunError(f"reward of host {host} in rack 0 is {reward}; rewards must be finite")
        self._rewards.append(float(moved.reward[0].mean()))
        terminated, truncated = bool(moved.terminated[0]), bool(moved.truncated[0])
        ended = terminated or truncated
        if ended:
            self.returns.append(sum(self._rewards) / len(self._rewards))
            self._rewards = []
        self._obs = np.array(moved.obs, np.float32)
        rewards = moved.reward[0] * np.float32(self._settings.reward_scale)
        return (
            self._by_host(moved.final_obs[0] if ended else moved.obs[0]),
            dict(zip(self.agents, rewards.tolist(), strict=True)),
            {"__all__": terminated},
            {"__all__": truncated and not terminated},
            {},
        )

    def close(self) -> None:
        self.rack.close()

    def _by_host(self, obs: ObsArray) -> Hosts:
        return dict(zip(self.agents, np.array(obs, np.float32), strict=True))


class HostsEnvRunner(MultiAgentEnvRunner):
    """RLlib's env runner, with the metrics of `BatchedEnvRunner` and the ability to continue at another episode."""

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        quiet()
        # RLlib would log the error of an environment with its traceback; `sample` passes it on.
        logging.getLogger("ray.rllib").setLevel(logging.CRITICAL)
        super().__init__(config=config, **kwargs)
        self._reset = False

    def begin(self, episode: int) -> None:
        """Continue at that episode number; see `BatchedEnvRunner.begin`."""
        self._rack().begin(episode)
        self._reset = True

    def sample(self, **kwargs: Any) -> list[MultiAgentEpisode | FailedRollout]:
        """Collect RLlib's episodes, or return the reason why there are none."""
        rack, reset = self._rack(), self._reset
        try:
            episodes: list[MultiAgentEpisode | FailedRollout] = super().sample(force_reset=reset, **kwargs)
        except (NccError, RuntimeError) as error:
            reason = error.__cause__ or error  # RLlib wraps errors of `step` in one without a message
            if not isinstance(reason, NccError):
                raise
            self._reset = True  # the epoch was not finished
            return [failed(self, rack.worker, reason)]
        self._reset = False
        metrics = rack.rack.take_metrics() if isinstance(rack.rack, Measuring) else {}
        log_rollout(self, rack.worker, rack.next_episode, rack.returns, metrics)
        rack.returns.clear()
        return episodes

    def _rack(self) -> RackMultiAgentEnv:
        rack: RackMultiAgentEnv = self.env.envs[0].unwrapped
        return rack
