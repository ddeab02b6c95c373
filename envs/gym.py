# SPDX-License-Identifier: BSD-3-Clause
"""The whole rack as one Gymnasium agent: ``import gymnasium, ncc; env = gymnasium.make("ncc/Rack-v0")``.

| id | action |
|---|---|
| ``ncc/Rack-v0`` | a rate's index for each host: MultiDiscrete |
| ``ncc/RackBox-v0`` | a number in [-1, 1] for each host: Box |
| ``ncc/RackOne-v0`` | one rate's index for all hosts: Discrete |

All take the arguments of `RackEnv`. ``gymnasium.make_vec`` gives `ncc.envs.vector.RackVectorEnv`, which steps all racks
in one call. Policies here are small: with PyTorch, ``torch.set_num_threads(1)`` makes learners many times faster.
"""

from typing import Any, Unpack

import gymnasium

from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurement
from ncc.envs.make import DEFAULT_DATAPATH, RackSettings, datapath_factory, env_spec
from ncc.envs.picture import METADATA, Frame
from ncc.envs.racks import Racks
from ncc.envs.scenarios import ScenarioLike
from ncc.envs.spaces import ActionSpace, Array, RackSpaces
from ncc.envs.spec import DatapathFactory
from ncc.harness.batch import ObsArray

PROGRESS = ("time_s", "flows_started", "flows_finished")
"""Columns of a measurement in ``info``."""


class RackEnv(gymnasium.Env[ObsArray, Any]):
    """All hosts of a scenario as one agent.

    Observation: Box of shape (n_agents * obs_dim,), the hosts' rows joined (`ncc.envs.observation`).
    Action: see `space`. Reward: the mean over hosts; ``info["host_rewards"]`` has each. ``info`` also has
    ``episode_number``, ``time_s``, ``flows_started`` and ``flows_finished``.

    ``reset(seed=s)`` determines the flows of this and all later episodes; ``reset()`` goes on to the next episode.

    Args:
        scenario: a name (``incast``), a YAML file, a mapping of what differs from the default scenario, or a value
            (`ncc.envs.scenarios.make_scenario`).
        datapath: a name (``packetsim``, ``ns3``) or a factory.
        space: ``multi_discrete``, ``box`` or ``discrete``, see `ncc.envs.spaces.RackSpaces`; each id has its own.
        render_mode: None; ``rgb_array`` for pictures [height, width, 3] of hosts and queues by `render`; or ``human``
            to have them on the terminal, after every step.
        **settings: `ncc.envs.make.RackSettings`: ``hosts``, ``duration_s``, ``load_frac``, ``reward`` and more.

    Raises:
        ConfigError: a setting is not allowed; the message names it and what is allowed.
    """

    metadata: dict[str, Any] = METADATA

    def __init__(
        self,
        scenario: ScenarioLike = None,
        *,
        datapath: str | DatapathFactory = DEFAULT_DATAPATH,
        space: ActionSpace | None = None,
        render_mode: str | None = None,
        **settings: Unpack[RackSettings],
    ) -> None:
        spec = env_spec(scenario, continuous=space == "box", **settings)
        if spec.view.pairs is not None:
            raise ConfigError(
                "pairs are racks with the same flows, and this environment is one rack: use gymnasium.make_vec without "
                "vectorization_mode, ncc.envs.sb3.HostVecEnv or ncc.envs.parallel.RackParallelEnv, or leave pairs out"
            )
        self.render_mode = render_mode
        self._spaces = RackSpaces(spec, space)
        self.observation_space, self.action_space = self._spaces.observation, self._spaces.action
        self._racks = Racks(spec, datapath_factory(datapath), render_mode=render_mode)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsArray, dict[str, Any]]:
        super().reset(seed=seed)
        return self._racks.begin_next(0, seed, self.np_random).flatten(), self._info()

    def step(self, action: Array) -> tuple[ObsArray, float, bool, bool, dict[str, Any]]:
        obs, rewards, terminated, truncated, _ = self._racks.advance(
            self._spaces.limits_bps(action, self._racks.obs[0])[None]
        )
        info = {**self._info(), "host_rewards": rewards[0]}
        return obs.flatten(), float(rewards[0].mean()), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> Frame | None:  # type: ignore[override] # Gymnasium's type is any frame's
        """Draw hosts and shared queue [height, width, 3] as of the last period; None unless the mode is ``rgb_array``.

        Raises:
            DatapathError: no episode has begun.
        """
        return next(iter(self._racks.frames()), None)

    def close(self) -> None:
        self._racks.close()

    def _info(self) -> dict[str, Any]:
        m = self._racks.measured
        assert isinstance(m, Measurement)
        return {"episode_number": int(self._racks.episodes[0])} | {name: getattr(m, name) for name in PROGRESS}
