# SPDX-License-Identifier: BSD-3-Clause
"""Stable-Baselines3's A2C on our environment: an independent learner to hold our own against."""

import time
from typing import Any

import numpy as np
from gymnasium import spaces

from ncc.core.errors import ConfigError

try:
    from stable_baselines3 import A2C
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise ConfigError('this group needs Stable-Baselines3, which is not installed: pip install "ncc[dev]"') from error

from ncc.agents.a3c.config import A3cConfig
from ncc.envs.observation import HIGH, LOW
from ncc.harness.batch import BatchedEnv


class HostVecEnv(VecEnv):  # type: ignore[misc] # untyped here
    """Every host of every rack as one of SB3's environments, which share a policy as ours do."""

    def __init__(self, env: BatchedEnv) -> None:
        self._env = env
        self._shape = env.n_racks, env.n_agents
        space = spaces.Box(LOW, HIGH, (env.obs_dim,), np.float32)
        super().__init__(env.n_racks * env.n_agents, space, spaces.Discrete(env.n_actions))
        self._actions = np.zeros(self._shape, np.int64)

    def reset(self) -> Any:
        return self._env.reset().reshape(self.num_envs, -1)

    def step_async(self, actions: Any) -> None:
        self._actions = np.asarray(actions, np.int64).reshape(self._shape)

    def step_wait(self) -> Any:
        moved = self._env.step(self._actions)
        done = np.repeat(moved.terminated | moved.truncated, self._shape[1])
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        cut = np.repeat(moved.truncated & ~moved.terminated, self._shape[1])
        last = moved.final_obs.reshape(self.num_envs, -1)
        for row in np.flatnonzero(done).tolist():
            infos[row] = {"terminal_observation": last[row], "TimeLimit.truncated": bool(cut[row])}
        return moved.obs.reshape(self.num_envs, -1), moved.reward.ravel(), done, infos

    def close(self) -> None:
        self._env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * len(self._rows(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise ConfigError("hosts share one environment: nothing can be set for some of them; build another")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        raise ConfigError(
            "hosts share one environment: no method can be called for some of them; call the environment's own"
        )

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * len(self._rows(indices))

    def _rows(self, indices: Any) -> list[int]:
        return list(self._get_indices(indices))


def agent_steps_per_s(env: BatchedEnv, config: A3cConfig, seed: int) -> float:
    """Decisions of hosts per second of wall time, learning included, with the settings of `config`."""
    import torch

    hosts = HostVecEnv(env)
    learner = A2C(
        "MlpPolicy",
        hosts,
        learning_rate=config.learning_rate,
        n_steps=config.steps,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        ent_coef=config.entropy_coef,
        vf_coef=config.value_coef,
        max_grad_norm=config.max_grad_norm,
        use_rms_prop=False,
        normalize_advantage=config.normalize_advantage,
        policy_kwargs={"net_arch": {"pi": list(config.hidden), "vf": list(config.hidden)}},
        seed=seed,
        device="cpu",
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        learner.learn(config.steps * hosts.num_envs)  # what is made at the first update
        began_s, steps = time.perf_counter(), config.epochs * env.n_agents
        learner.learn(steps, reset_num_timesteps=False)
        return steps / (time.perf_counter() - began_s)
    finally:
        torch.set_num_threads(threads)
        hosts.close()
