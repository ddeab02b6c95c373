# SPDX-License-Identifier: BSD-3-Clause
"""The batched env runner: one forward pass per period for all hosts of all racks, and arrays instead of episodes."""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import ray
import torch
from gymnasium.spaces import Box, Discrete, Space
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics import (
    NUM_AGENT_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_MODULE_STEPS_SAMPLED,
    WEIGHTS_SEQ_NO,
)

from ncc.agents.a3c.rollout import Bool, Collector, Float
from ncc.agents.rllib.module import HostModule
from ncc.core.errors import NccError
from ncc.core.seeding import generator
from ncc.harness.batch import ActionArray, BatchedEnv, EnvFactory, ObsArray

RETURNS = "ncc_returns"
"""Metric: mean reward per host and period of each episode that ended."""
NEXT_EPISODE = "ncc_next_episode"
"""Metric, by env runner: the first episode number in which none of its racks has taken a step."""
NETWORK_METRICS = "ncc_network"
"""Metrics of the environment's networks by name (`ncc.harness.batch.Measuring`)."""
NETWORK_METRICS_WINDOW = 16
"""Rollouts of an env runner over which these metrics are averaged."""
ENOUGH = 2**31
"""Number of periods that a failed env runner reports; with so many, RLlib calls the learner at once."""


@dataclass(frozen=True)
class EnvSettings:
    """Settings of the environment, sent to every env runner in RLlib's `env_config`."""

    make_env: EnvFactory
    seed: int
    rollout: int
    """Periods of each rack in one answer."""
    reward_scale: float
    """Factor 1 - gamma on rewards, so that values are in units of the mean reward per period."""
    episodes: tuple[int, ...]
    """First episode number of each env runner."""

    @staticmethod
    def worker(index: int | None) -> int:
        """Index of the environment: RLlib counts remote env runners from 1, and calls the local one 0."""
        return max(0, (index or 0) - 1)


@dataclass(frozen=True, eq=False)
class RackRollout:
    """T consecutive periods of R racks of N hosts. RLlib treats it as an "episode" and only asks for lengths."""

    obs: ObsArray
    """[T, R, N, obs_dim] observations acted on."""
    actions: ActionArray
    """[T, R, N]"""
    logits: Float
    """[T, R, N, n_actions] of the policy that acted; of real-valued actions: mean and logarithm of the deviation."""
    rewards: Float
    """[T, R, N] scaled by 1 - gamma."""
    terminated: Bool
    """[T, R]"""
    truncated: Bool
    """[T, R]"""
    last_obs: ObsArray
    """[R, N, obs_dim] observations after the last period."""
    cut: tuple[tuple[int, int], ...]
    """(t, rack) of episodes that were truncated."""
    cut_obs: ObsArray
    """[len(cut), N, obs_dim] last observation of each of them."""

    def __len__(self) -> int:
        return int(self.terminated.size)

    def env_steps(self) -> int:
        """Periods, summed over racks."""
        return len(self)

    def agent_steps(self) -> int:
        """Number of samples, which are periods of a host."""
        return int(self.actions.size)


@dataclass(frozen=True)
class FailedRollout:
    """Message of an env runner that cannot continue; the learner raises it, where RLlib would restart forever."""

    message: str

    def __len__(self) -> int:
        return 1


def host_spaces(env: BatchedEnv) -> tuple[Space[Any], Space[Any]]:
    """The observation space, without noise, and the action space of one host."""
    chosen = Discrete(env.n_actions) if env.n_actions else Box(-np.inf, np.inf, (1,), np.float32)
    return Box(-np.inf, np.inf, (env.obs_dim - env.n_noise,), np.float32), chosen


class BatchedEnvRunner(EnvRunner, Checkpointable):
    """An env runner that collects `RackRollout`s from ``make_env(worker)``; `env_config` holds an `EnvSettings`."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        logging.getLogger("ray").setLevel(logging.ERROR)  # RLlib warns about its own code
        super().__init__(config=config, **kwargs)
        torch.set_num_threads(1)
        self._settings: EnvSettings = self.config.env_config["settings"]
        self._worker = self._settings.worker(self.worker_index)
        self._seen_weights = 0
        self.make_env()
        self.make_module()

    def make_env(self) -> None:
        self.env: BatchedEnv = self._settings.make_env(self._worker)
        self.begin(self._settings.episodes[self._worker])

    def make_module(self) -> None:
        spec = self.config.get_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        self.module: HostModule = spec.build()

    def begin(self, episode: int) -> None:
        """Continue at that episode number and discard what was collected so far."""
        self._episode = episode
        self._collector: Collector | None = None

    def sample(self, **_: Any) -> list[RackRollout | FailedRollout]:
        """Collect one rollout of all racks, or return the reason why there is none."""
        try:
            return [self._collect()]
        except NccError as error:
            # With so many steps RLlib calls the learner at once, which raises the error.
            self.metrics.log_value(NUM_ENV_STEPS_SAMPLED, ENOUGH, reduce="sum")
            self.metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, ENOUGH, reduce="lifetime_sum")
            return [FailedRollout(f"env runner {self._worker}: {error}")]

    def _collect(self) -> RackRollout:
        if self._collector is None:
            # The episode in the seed keeps a resumed or restarted runner from drawing the same actions again.
            rng = generator(self._settings.seed, "rllib", "actions", self._worker, self._episode)
            self._collector = Collector(self.env, rng, self._settings.rollout, self._episode)
        actor = _Recorder(self.module)
        taken = self._collector.collect(actor, self._settings.rollout)
        hosts = taken.actions.shape
        rollout = RackRollout(
            obs=np.stack(actor.obs).reshape(*hosts, -1),
            actions=taken.actions.copy(),
            logits=np.stack(actor.logits).reshape(*hosts, -1),
            rewards=taken.rewards * np.float32(self._settings.reward_scale),
            terminated=taken.terminated.copy(),
            truncated=taken.truncated.copy(),
            last_obs=taken.last_obs,
            cut=taken.cut,
            cut_obs=np.stack(taken.cut_obs) if taken.cut else np.empty((0, *taken.last_obs.shape[1:]), np.float32),
        )
        log, samples = self.metrics.log_value, rollout.agent_steps()
        log(NUM_ENV_STEPS_SAMPLED, len(rollout), reduce="sum")
        log(NUM_ENV_STEPS_SAMPLED_LIFETIME, len(rollout), reduce="lifetime_sum")
        log((NUM_AGENT_STEPS_SAMPLED, DEFAULT_AGENT_ID), samples, reduce="sum")
        log((NUM_MODULE_STEPS_SAMPLED, DEFAULT_MODULE_ID), samples, reduce="sum")
        log((NEXT_EPISODE, str(self._worker)), self._collector.next_episode, reduce="max", window=1)
        for value in taken.returns:
            log(RETURNS, value, reduce="item_series")
        for name, value in taken.metrics.items():
            log((NETWORK_METRICS, name), value, reduce="mean", window=NETWORK_METRICS_WINDOW)
        return rollout

    def get_metrics(self) -> Any:
        return self.metrics.reduce()

    def get_spaces(self) -> dict[str, tuple[Space[Any], Space[Any]]]:
        spaces = host_spaces(self.env)
        return {INPUT_ENV_SPACES: spaces, INPUT_ENV_SINGLE_SPACES: spaces, DEFAULT_MODULE_ID: spaces}

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        if COMPONENT_RL_MODULE in (not_components or ()) or COMPONENT_RL_MODULE not in (
            components or COMPONENT_RL_MODULE
        ):
            return {}  # RLlib asks for the states of connectors, and there are none
        weights = {DEFAULT_MODULE_ID: self.module.get_state(**kwargs)}
        return {COMPONENT_RL_MODULE: weights, WEIGHTS_SEQ_NO: self._seen_weights}

    def set_state(self, state: dict[str, Any]) -> None:
        number = state.get(WEIGHTS_SEQ_NO, 0)
        if COMPONENT_RL_MODULE in state and (number == 0 or number > self._seen_weights):
            weights = state[COMPONENT_RL_MODULE]
            weights = ray.get(weights) if isinstance(weights, ray.ObjectRef) else weights
            self.module.set_state(weights.get(DEFAULT_MODULE_ID, weights))
        self._seen_weights = max(number, self._seen_weights)

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"config": self.config}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        return [(COMPONENT_RL_MODULE, self.module)]

    def assert_healthy(self) -> None:
        pass

    def stop(self) -> None:
        self.env.close()


class _Recorder:
    """An actor that uses a module and records observations and logits."""

    def __init__(self, module: HostModule) -> None:
        self._module = module
        self.obs: list[ObsArray] = []
        self.logits: list[Float] = []

    def act(self, obs: ObsArray, drawn: npt.NDArray[np.float64], actions: ActionArray, values: Float) -> bool:
        """Act as `ncc.agents.a3c.network.ActorCritic.act`, but leave the values to the learner."""
        seen = torch.tensor(obs)
        with torch.no_grad():
            logits = self._module.logits(seen)  # RLlib's forward_exploration searches all layers before each call
            upto = torch.softmax(logits, -1).cumsum_(-1).numpy()
        self.obs.append(seen.numpy())
        self.logits.append(logits.numpy())
        if not np.isfinite(upto).all():
            return False
        if self._module.n_actions:
            actions[:] = (upto[:, :-1] <= drawn[:, None]).sum(-1)
        else:
            mean, log_noise = self.logits[-1].T
            actions[:] = mean + np.exp(log_noise) * drawn
        return True
