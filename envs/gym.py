# SPDX-License-Identifier: BSD-3-Clause
"""The whole rack as one Gymnasium agent: ``import gymnasium, ncc; env = gymnasium.make("ncc/Rack-v0")``.

| id | action |
|---|---|
| ``ncc/Rack-v0`` | a rate's index for each host: MultiDiscrete |
| ``ncc/RackBox-v0`` | a number in [-1, 1] for each host: Box |
| ``ncc/RackOne-v0`` | one rate's index for all hosts: Discrete |
| ``ncc/Thresholds-v0`` | thresholds of PIAS' classes (`ThresholdsEnv`): Box |

The first three take the arguments of `RackEnv`. ``gymnasium.make_vec`` gives `ncc.envs.vector.RackVectorEnv`, which
steps all racks in one call. Policies here are small: with PyTorch, ``torch.set_num_threads(1)`` makes learners many
times faster.
"""

import math
from typing import Any, Literal, Unpack, get_args

import gymnasium
import numpy as np

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Delivered, Measurement
from ncc.envs.make import DEFAULT_DATAPATH, RackSettings, datapath_factory, env_spec
from ncc.envs.picture import METADATA, Frame
from ncc.envs.racks import Racks
from ncc.envs.scenarios import ScenarioLike
from ncc.envs.spaces import ActionSpace, Array, RackSpaces
from ncc.envs.spec import DatapathFactory
from ncc.envs.thresholds import N_THRESHOLDS, OBS_DIM, TAGS, DeliveredView, thresholds
from ncc.harness.batch import ObsArray

Goal = Literal["slowdown", "throughput"]
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
        render_mode: None; ``rgb_array`` for pictures [height, width, 3] of hosts and queues by `render`.
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
        return self._advance(self._spaces.limits_bps(action, self._racks.obs[0]))

    def _advance(self, limits_bps: FloatArray) -> tuple[ObsArray, float, bool, bool, dict[str, Any]]:
        """Run one period under rate limits [n_agents]; return what `step` returns."""
        obs, rewards, terminated, truncated, _ = self._racks.advance(limits_bps[None])
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

    @property
    def _measured(self) -> Measurement:
        """Measurement of the last period, or of the start."""
        m = self._racks.measured
        assert isinstance(m, Measurement)
        return m

    def _info(self) -> dict[str, Any]:
        m = self._measured
        return {"episode_number": int(self._racks.episodes[0])} | {name: getattr(m, name) for name in PROGRESS}


class ThresholdsEnv(RackEnv):
    """A central system as one agent, which sets the thresholds of PIAS' classes for all hosts once per period.

    Observation: Box of shape (13,), the flows that were delivered (`ncc.envs.thresholds.DeliveredView`). Action: Box of
    shape (7,) in [-1, 1] (`ncc.envs.thresholds.thresholds`). ``info`` is that of `RackEnv`. Hosts have no rate limits.

    Args:
        scenario: as for `RackEnv`; its switches have classes. With fewer than 8, the last class has all larger flows.
        goal: reward. ``slowdown``: minus the mean of log(slowdown) over the flows that the period delivered;
            ``throughput``: their mean throughput over that of the period before (AuTO, section 4.2). Without such
            flows it is 0.
        datapath: as for `RackEnv`.
        render_mode: as for `RackEnv`.
        **settings: as for `RackEnv`, without ``observation``, ``action``, ``reward`` and ``pairs``; `stack` has DCTCP
            with the tags ``pias`` unless it is given.

    Raises:
        ConfigError: a setting is not allowed; the message names it and what is allowed.
    """

    def __init__(
        self,
        scenario: ScenarioLike = "priorities",
        *,
        goal: Goal = "slowdown",
        datapath: str | DatapathFactory = DEFAULT_DATAPATH,
        render_mode: str | None = None,
        **settings: Unpack[RackSettings],
    ) -> None:
        if own := sorted({"observation", "action", "reward", "pairs"} & set(settings)):
            raise ConfigError(f"ncc/Thresholds-v0 is about classes, not rates of hosts: leave {own[0]} out")
        if goal not in (known := get_args(Goal)):
            raise UnknownNameError("goal of ncc/Thresholds-v0", goal, known)
        settings.setdefault("stack", {"transport": "dctcp", "tags": TAGS})
        super().__init__(scenario, datapath=datapath, render_mode=render_mode, **settings)
        spec = self._racks.spec
        if spec.stack.tags != TAGS:
            raise ConfigError(f"ncc/Thresholds-v0 sets the thresholds of {TAGS}: set stack.tags to it")
        self._view, self._goal = DeliveredView(spec.scenario), goal
        self._unlimited = np.full(spec.scenario.n_agents, np.inf)
        self.observation_space = gymnasium.spaces.Box(-1.0, 3.0, (OBS_DIM,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (N_THRESHOLDS,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsArray, dict[str, Any]]:
        _, info = super().reset(seed=seed, options=options)
        self._before = math.nan
        return self._view.restart(), info

    def step(self, action: Array) -> tuple[ObsArray, float, bool, bool, dict[str, Any]]:
        self._racks.retag(0, thresholds(action))
        _, _, terminated, truncated, info = self._advance(self._unlimited)
        return self._view.observe(self._measured), self._earned(self._measured.delivered), terminated, truncated, info

    def _earned(self, flows: Delivered) -> float:
        if not len(flows):
            return 0.0
        if self._goal == "slowdown":
            return -float(self._view.log_slowdown(flows).mean())
        before, self._before = self._before, float((flows.size_bytes / flows.took_s).mean())
        return self._before / before if before > 0 else 0.0
