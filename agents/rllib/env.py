# SPDX-License-Identifier: BSD-3-Clause
"""All racks of an env runner as one environment of RLlib, whose episodes are rollouts."""

import logging
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import ray
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from ray.rllib.callbacks.callbacks import RLlibCallback

from ncc.agents.progress import Returns
from ncc.core.errors import NccError
from ncc.harness.batch import EnvFactory, ObsArray

PERIOD = "period"
"""Key of an info whose value is a `Period`, or the error message of an environment that cannot continue."""
RETURNS = "ncc_returns"
"""Name of a metric: the mean reward per host and period of each episode that ended in a rack."""
NETWORK_METRICS = "ncc_network"
"""Metrics of the environment's networks by name (`ncc.harness.batch.BatchedEnv.take_metrics`)."""
NETWORK_METRICS_WINDOW = 16
"""Rollouts of an env runner over which these metrics are averaged."""
METADATA = {"autoreset_mode": AutoresetMode.NEXT_STEP}
"""Data that Gymnasium asks of every vector of environments."""


@dataclass(frozen=True)
class EnvSettings:
    """Settings of the environment, sent to every env runner in RLlib's `env_config`."""

    make_env: EnvFactory
    rollout: int
    """Periods of each rack in a rollout."""
    episode: int
    """First episode number of every rack."""


class Period(NamedTuple):
    """Results of a period that RLlib's episodes have no place for."""

    rewards: Any
    """[n_racks, n_agents]"""
    terminated: Any
    """[n_racks]"""
    truncated: Any
    """[n_racks]"""
    final_obs: ObsArray | None
    """[n_racks, n_agents, ...] last observations of episodes; None if no rack ended one."""


class RolloutEnv(VectorEnv[ObsArray, Any, Any]):
    """Several racks that RLlib sees as one environment, so that one forward pass decides for all hosts.

    An episode of RLlib is a rollout here; the racks' own episodes begin and end at any time within it. Arrays are
    [1, n_racks, n_agents, ...]. The spaces are those of a single host, without noise, because the module is a host's.
    RLlib's reward is always 0; the rewards of the hosts are in the info (`PERIOD`).
    """

    num_envs = 1
    metadata: dict[str, Any] = METADATA

    def __init__(self, given: dict[str, Any]) -> None:
        self._settings: EnvSettings = given["settings"]

    def make(self, worker_index: int) -> None:
        """Make the racks of the env runner of this number. RLlib counts from 1; 0 is the training process itself."""
        torch.set_num_threads(1)
        logging.getLogger("ray").setLevel(logging.ERROR)  # RLlib warns about its own code
        self._worker, self._is_actor = max(0, worker_index - 1), worker_index > 0
        self._env = self._settings.make_env(self._worker)
        env = self._env
        self.single_observation_space = Box(-np.inf, np.inf, (env.obs_dim - env.n_noise,), np.float32)
        self.single_action_space = Discrete(env.n_actions) if env.n_actions else Box(-np.inf, np.inf, (1,), np.float32)
        self.observation_space = batch_space(self.single_observation_space)
        self.action_space = batch_space(self.single_action_space)
        self.n_racks, self._failed = env.n_racks, ""
        self._obs: ObsArray | None = None
        self._returns, self._ended = Returns(env.n_racks), list[float]()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsArray, dict[str, Any]]:
        """Begin a rollout. The first call begins the racks' first episodes; later calls continue their episodes."""
        self._left = self._settings.rollout
        if self._obs is None:
            episode = self._settings.episode
            if self._is_actor and ray.get_runtime_context().was_current_actor_reconstructed:
                episode = time.time_ns() // 1000  # an env runner that replaces a lost one meets other episodes
            self._obs = np.zeros((self._env.n_racks, self._env.n_agents, self._env.obs_dim), np.float32)
            try:
                self._obs = self._env.reset(episode)
            except NccError as error:
                self._failed = f"env runner {self._worker}: {error}"
        return self._obs[None].copy(), {}

    def step(self, actions: Any) -> tuple[ObsArray, Any, Any, Any, dict[str, Any]]:
        """Run one period of all racks. After an error nothing runs any more, and the info holds the error's message."""
        outcome: Period | str = self._failed
        if not self._failed:
            try:
                discrete = self._env.n_actions > 0
                moved = self._env.step(actions[0].astype(np.int64) if discrete else np.clip(actions[0], -1, 1))
                self._obs, ended = moved.obs, self._returns.add(moved)
                final = moved.final_obs.copy() if ended else None  # environments may use their arrays again
                outcome = Period(moved.reward.copy(), moved.terminated.copy(), moved.truncated.copy(), final)
                self._ended += ended
            except NccError as error:
                outcome = self._failed = f"env runner {self._worker}: {error}"
        assert self._obs is not None
        self._left -= 1
        info = {PERIOD: np.empty(1, object), f"_{PERIOD}": np.ones(1, np.bool_)}
        info[PERIOD][0] = outcome
        return self._obs[None].copy(), np.zeros(1), np.zeros(1, np.bool_), np.array([not self._left]), info

    def take_metrics(self) -> tuple[list[float], dict[str, float]]:
        """Return the returns of episodes that ended since the last call, and the networks' metrics since then."""
        ended, self._ended = self._ended, []
        return ended, dict(self._env.take_metrics())

    def close_extras(self, **_: Any) -> None:
        """Free the networks."""
        self._env.close()


class EnvCallbacks(RLlibCallback):
    """Callbacks of an env runner: they make the racks of its number, and log their metrics after each rollout."""

    def on_environment_created(self, *, env: Any, env_context: Any, **_: Any) -> None:
        """Make the racks."""
        env.make(env_context.worker_index)

    def on_sample_end(self, *, env_runner: Any, metrics_logger: Any, **_: Any) -> None:
        """Log returns and metrics of the networks."""
        returns, metrics = env_runner.env.unwrapped.take_metrics()
        for value in returns:
            metrics_logger.log_value(RETURNS, value, reduce="item_series")
        for name, value in metrics.items():
            metrics_logger.log_value((NETWORK_METRICS, name), value, reduce="mean", window=NETWORK_METRICS_WINDOW)
