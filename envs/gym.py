# SPDX-License-Identifier: BSD-3-Clause
"""The whole rack as one Gymnasium agent. Importing this module registers ``ncc/Rack-v0``.

``gymnasium.make("ncc.envs.gym:ncc/Rack-v0")`` imports it by itself (Gymnasium 1.x has no plugin entry points).
"""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ncc.core.errors import DatapathError
from ncc.core.seeding import SEED_LIMIT
from ncc.envs.action import rate_map
from ncc.envs.make import DEFAULT_DATAPATH, datapath_factory, env_spec
from ncc.envs.observation import HIGH, LOW
from ncc.envs.rack import Rack
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.harness.batch import ObsArray

Array = npt.NDArray[Any]


class RackEnv(gymnasium.Env[ObsArray, Array]):
    """All hosts of a scenario as one agent.

    Observation: Box of shape (n_agents * obs_dim,), the hosts' rows one after the other (`ncc.envs.observation`).
    Action: MultiDiscrete([d + 1] * n_agents), or Box(0, 1, (n_agents,)) if `action` is continuous. Reward: the mean
    over hosts; ``info["host_rewards"]`` has each.

    ``reset(seed=s)`` decides the flows of this episode and all that follow; ``reset()`` goes on to the next episode.

    Args:
        settings: scenario, stack, observation, action, reward, purpose: see `ncc.envs.make.env_spec`.
        datapath: a name (``packetsim``, ``ns3``) or a factory.
        render_mode: None is all there is.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(
        self, datapath: str | DatapathFactory = DEFAULT_DATAPATH, render_mode: str | None = None, **settings: Any
    ) -> None:
        spec: EnvSpec = env_spec(**settings)
        self.render_mode = render_mode
        self._rates = rate_map(spec.view.action, spec.view.observation)
        self._rates.reset(spec.scenario)
        self._rack = Rack(spec, datapath_factory(datapath), seed=0)
        self._episode = -1
        n, n_actions = self._rack.n_agents, spec.view.action.n_actions
        self.observation_space = spaces.Box(LOW, HIGH, (n * self._rack.obs_dim,), np.float32)
        self.action_space: spaces.Space[Array] = (
            spaces.MultiDiscrete(np.full(n, n_actions)) if n_actions else spaces.Box(0.0, 1.0, (n,), np.float32)
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsArray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None and self._episode < 0:
            seed = int(self.np_random.integers(SEED_LIMIT))
        if seed is not None:
            self._rack.seed, self._episode = seed, -1
        self._episode += 1
        return self._rack.begin(self._episode).ravel(), self._info()

    def step(self, action: Array) -> tuple[ObsArray, float, bool, bool, dict[str, Any]]:
        epoch = self._rack.advance(self._rates.rates_bps(np.asarray(action), self._rack.obs))
        info = {**self._info(), "host_rewards": epoch.reward}
        return epoch.obs.ravel(), float(epoch.reward.mean()), epoch.terminated, epoch.truncated, info

    def close(self) -> None:
        self._rack.close()

    def _info(self) -> dict[str, Any]:
        m = self._rack.measurement
        if m is None:
            raise DatapathError("no episode is running; reset the environment first")
        return {
            "episode_number": self._episode,
            "time_s": m.time_s,
            "flows_started": m.flows_started,
            "flows_finished": m.flows_finished,
        }


gymnasium.register(id="ncc/Rack-v0", entry_point="ncc.envs.gym:RackEnv")
