# SPDX-License-Identifier: BSD-3-Clause
"""Several racks as a Gymnasium vector environment: ``gymnasium.make_vec("ncc/Rack-v0", num_envs=8)``."""

import os
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurements
from ncc.envs.gym import PROGRESS
from ncc.envs.make import DEFAULT_DATAPATH, RackSettings, datapath_factory, env_spec
from ncc.envs.picture import METADATA, Frame
from ncc.envs.racks import Racks
from ncc.envs.scenarios import ScenarioLike
from ncc.envs.spaces import ActionSpace, Array, RackSpaces
from ncc.envs.spec import DatapathFactory
from ncc.harness.batch import ObsArray
from ncc.harness.networks import side_by_side


class RackVectorEnv(VectorEnv[ObsArray, Array, Array]):
    """Racks that are stepped together: in one call on packetsim, in a process each on other datapaths.

    Rack i is bit for bit the `ncc.envs.gym.RackEnv` that is reset with the same seed: ``reset(seed=s)`` gives it s + i.
    Episodes follow each other as by Gymnasium's default (``AutoresetMode.NEXT_STEP``): the step after the end of an
    episode begins the next one, and its action and reward are ignored. Spaces and ``info`` are those of `RackEnv` with
    a leading axis.

    With ``pairs`` (``paid: mean``) racks come in groups of copies, which have the seed of the first of them and begin
    together. Rewards and ``info["host_rewards"]`` are then differences between copies (`ncc.envs.pairs`);
    ``info["host_earned"]`` has each host's own reward.

    Args:
        num_envs: number of racks.
        scenario: as for `ncc.envs.gym.RackEnv`.
        datapath: as for `RackEnv`; picklable unless it is packetsim.
        space: as for `RackEnv`.
        threads: threads on packetsim; None: one per processor. Only the speed depends on it.
        render_mode: as for `RackEnv`; `render` returns a picture for each rack.
        max_episode_steps: periods after which an episode is truncated; None: those of the scenario only.
        **settings: as for `RackEnv`.

    Raises:
        ConfigError: a setting is not allowed; the message names it and what is allowed.
    """

    metadata: dict[str, Any] = METADATA | {"autoreset_mode": AutoresetMode.NEXT_STEP}
    closed = True
    """True until the constructor has succeeded, so that `VectorEnv` does not close an environment that is half made."""

    def __init__(
        self,
        num_envs: int = 1,
        scenario: ScenarioLike = None,
        *,
        datapath: str | DatapathFactory = DEFAULT_DATAPATH,
        space: ActionSpace | None = None,
        threads: int | None = None,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **settings: Unpack[RackSettings],
    ) -> None:
        threads = min(num_envs, len(os.sched_getaffinity(0))) if threads is None else threads
        if num_envs < 1 or threads < 1:
            raise ConfigError(f"num_envs and threads must be at least 1, got {num_envs} and {threads}")
        spec = env_spec(scenario, continuous=space == "box", **settings)
        if spec.view.n_noise:
            raise ConfigError(
                "pairs.paid must be mean for an agent that decides for the whole rack, because mirror has a number of "
                "noise for each host: set it to mean, or use ncc.envs.sb3.HostVecEnv or "
                "ncc.envs.parallel.RackParallelEnv"
            )
        self.num_envs, self.render_mode = num_envs, render_mode
        self._copies, self._pairs = spec.copies(num_envs), spec.view.pairs
        self._spaces = RackSpaces(spec, space)
        self.single_observation_space, self.single_action_space = self._spaces.observation, self._spaces.action
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        racks = side_by_side(datapath_factory(datapath))
        self._racks = Racks(spec, racks, num_envs, threads=threads, copies=self._copies, render_mode=render_mode)
        self._over: set[int] = set()
        self._steps, self._most_steps = np.zeros(num_envs, np.int64), max_episode_steps or np.inf
        self._all = np.ones(num_envs, np.bool_)
        self._all.setflags(write=False)
        self.closed = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsArray, dict[str, Any]]:
        """Begin an episode of every rack, or of those in ``options["reset_mask"]``.

        Raises:
            ConfigError: the numbers of seeds and racks differ, or the mask has some of a rack's copies only.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise ConfigError(f"seed must be one number or one for each of {self.num_envs} racks, got {len(seeds)}")
        mask = (options or {}).get("reset_mask", self._all)
        groups = np.reshape(mask, (-1, self._copies))
        if (groups != groups[:, :1]).any():
            raise ConfigError(f"reset_mask must have all {self._copies} copies of a rack or none: they begin together")
        rows = np.flatnonzero(mask).tolist()
        for row in rows:
            self._begin(row, None if seeds is None else seeds[row - row % self._copies])
        self._over.difference_update(rows)
        return self._flat(), self._info(began=True)

    def step(self, actions: Array) -> tuple[ObsArray, Array, Array, Array, dict[str, Any]]:
        """Run one period of every rack; a rack whose episode is over begins the next one instead.

        Raises:
            ConfigError: an action is not in the space, naming rack and host; no period has run.
            DatapathError: no episode is running, or a network failed; reset all racks then.
        """
        over, going = self._over, len(self._over) < self.num_envs
        earned = np.zeros((self.num_envs, self._racks.n_agents), np.float32)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        if going:
            limits_bps = self._spaces.limits_bps(actions, self._racks.obs)
            self._steps += 1
            _, earned, ended, cut, _ = self._racks.advance(limits_bps, over)
            terminated |= ended
            truncated |= cut | (self._steps >= self._most_steps)
        self._over = set(np.flatnonzero(terminated | truncated).tolist()) - over
        rewards = earned if self._pairs is None else self._pairs.reward(earned)
        moved = self._all.copy()
        for row in over:
            self._begin(row)
            rewards[row], earned[row], terminated[row], truncated[row], moved[row] = 0, 0, False, False, False
        info = self._info(began=bool(over))
        if going:
            info |= {"host_rewards": rewards, "_host_rewards": moved}
            if self._pairs is not None:
                info |= {"host_earned": earned, "_host_earned": moved}
        return self._flat(), rewards.mean(axis=1).astype(np.float64), terminated, truncated, info

    def render(self) -> tuple[Frame, ...] | None:  # type: ignore[override] # Gymnasium's type is any frame's
        """Draw each rack like `ncc.envs.gym.RackEnv.render`; None unless the mode is ``rgb_array``.

        Raises:
            DatapathError: no episode has begun.
        """
        return tuple(self._racks.frames()) or None

    def close_extras(self, **_: Any) -> None:
        """Free networks and processes."""
        self._racks.close()

    def _begin(self, row: int, seed: int | None = None) -> None:
        """Begin the next episode of a rack."""
        self._steps[row] = 0
        self._racks.begin_next(row, seed, self.np_random)

    def _flat(self) -> ObsArray:
        """Return a copy of the observations, flat: users may change it, and limits may be shares of observed values."""
        return self._racks.obs.reshape(self.num_envs, -1).copy()

    def _info(self, *, began: bool) -> dict[str, Any]:
        m = self._racks.measured
        if began or not isinstance(m, Measurements):
            m = Measurements.of(self._racks.each())
        info: dict[str, Any] = {"episode_number": self._racks.episodes.copy(), "_episode_number": self._all}
        for name in PROGRESS:
            info[name], info[f"_{name}"] = getattr(m, name), self._all
        return info
