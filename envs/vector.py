# SPDX-License-Identifier: BSD-3-Clause
"""Several racks as a Gymnasium vector environment: ``gymnasium.make_vec("ncc/Rack-v0", num_envs=8)``."""

import os
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.measurement import Measurements
from ncc.core.seeding import SEED_LIMIT
from ncc.envs.make import DEFAULT_DATAPATH, RackSettings, datapath_factory, env_spec
from ncc.envs.picture import METADATA, Frame, pictures
from ncc.envs.racks import Racks
from ncc.envs.scenarios import ScenarioLike
from ncc.envs.spaces import ActionSpace, Array, RackSpaces
from ncc.envs.spec import DatapathFactory
from ncc.harness.batch import ObsArray
from ncc.harness.networks import networks, side_by_side

PROGRESS = ("time_s", "flows_started", "flows_finished")


class RackVectorEnv(VectorEnv[ObsArray, Array, Array]):
    """Racks that are stepped together: in one call on packetsim, in a process each on other datapaths.

    Rack i is bit for bit the `ncc.envs.gym.RackEnv` that is reset with the same seed: ``reset(seed=s)`` gives it s + i.
    Episodes follow each other as by Gymnasium's default (``AutoresetMode.NEXT_STEP``): the step after the end of an
    episode begins the next one, and its action and reward are ignored. Spaces and ``info`` are those of `RackEnv` with
    a leading axis.

    With ``pairs`` (``paid: mean``) racks come in groups of copies, which have the seed of the first of them and begin
    together. Rewards and ``info["host_rewards"]`` are over the copies then (`ncc.envs.pairs`);
    ``info["host_earned"]`` has what each host earned by itself.

    Args:
        num_envs: number of racks.
        scenario: as for `ncc.envs.gym.RackEnv`.
        datapath: as for `RackEnv`; picklable unless it is packetsim.
        space: as for `RackEnv`.
        threads: threads on packetsim; None: one per processor. Only the speed depends on it.
        render_mode: as for `RackEnv`; `render` returns a picture for each rack.
        max_episode_steps: epochs after which an episode is truncated; None: those of the scenario only.
        **settings: as for `RackEnv`.

    Raises:
        ConfigError: a setting is not allowed; the message names it and what is allowed.
    """

    metadata: dict[str, Any] = METADATA | {"autoreset_mode": AutoresetMode.NEXT_STEP}
    _racks: Racks | None = None

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
        self._spec = spec = env_spec(scenario, continuous=space == "box", **settings)
        if spec.view.n_noise:
            raise ConfigError(
                "pairs.paid must be mean for an agent that decides for the whole rack, because mirror has a number of "
                "noise for each host: set it to mean, or use ncc.envs.sb3.HostVecEnv or "
                "ncc.envs.parallel.RackParallelEnv"
            )
        self.num_envs, self.render_mode = num_envs, render_mode
        self._copies, self._pairs = spec.copies(num_envs), spec.view.pairs
        self._pictures = pictures(render_mode, spec.scenario, num_envs)
        self._spaces = RackSpaces(spec, space)
        self.single_observation_space, self.single_action_space = self._spaces.observation, self._spaces.action
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        racks = networks(side_by_side(datapath_factory(datapath)), num_envs, threads=threads)
        self._racks = Racks(spec, racks, range(num_envs))
        self._obs: ObsArray | None = None
        self._over: set[int] = set()
        self._seeds: list[int | None] = [None] * num_envs
        self._steps, self._most_steps = np.zeros(num_envs, np.int64), max_episode_steps or np.inf
        self._episodes = np.full(num_envs, -1)
        self._all = np.ones(num_envs, np.bool_)
        self._all.setflags(write=False)

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
        if self._obs is None:
            assert self._racks is not None
            if len(rows) < self.num_envs:
                raise DatapathError("no episode is running; reset all racks first")
            shape = self.num_envs, self._racks.n_agents, -1
            self._obs = np.zeros(self.observation_space.shape or (), np.float32).reshape(shape)
        for row in rows:
            if seeds is not None and (own := seeds[self._first(row)]) is not None:
                self._seeds[row], self._episodes[row] = own, -1
            self._obs[row] = self._begin(row)
        self._over.difference_update(rows)
        return self._flat(self._obs), self._info(began=True)

    def step(self, actions: Array) -> tuple[ObsArray, Array, Array, Array, dict[str, Any]]:
        """Run one epoch of every rack; a rack whose episode is over begins the next one instead.

        Raises:
            ConfigError: an action is not in the space, naming rack and host; no epoch has run.
            DatapathError: no episode is running, or a network failed; reset all racks then.
        """
        if self._obs is None or self._racks is None:
            raise DatapathError("no episode is running; reset the environment first")
        over, self._over = self._over, set()
        rewards = np.zeros((self.num_envs, self._racks.n_agents), np.float32)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        moved, earned = self._all, rewards
        if len(over) < self.num_envs:
            try:
                limits_bps = self._spaces.racks_limits_bps(actions, self._obs)
            except ConfigError:
                self._over = over
                raise
            self._obs, rewards, ended, cut, rows = self._racks.advance(limits_bps, over)
            earned = rewards
            if self._pairs is not None:
                rewards = self._pairs.reward(earned)
            terminated |= ended
            truncated |= cut
            self._steps += 1
            late = self._steps >= self._most_steps
            truncated |= late
            self._over = {*rows, *np.flatnonzero(late).tolist()} - over
        if over:
            moved = self._all.copy()
            for row in over:
                self._obs[row] = self._begin(row)
                rewards[row], earned[row], terminated[row], truncated[row], moved[row] = 0, 0, False, False, False
        info = self._info(began=bool(over))
        if len(over) < self.num_envs:
            info |= {"host_rewards": rewards, "_host_rewards": moved}
            if self._pairs is not None:
                info |= {"host_earned": earned, "_host_earned": moved}
        return self._flat(self._obs), rewards.mean(axis=1).astype(np.float64), terminated, truncated, info

    def render(self) -> tuple[Frame, ...] | None:  # type: ignore[override] # Gymnasium's type is any frame's
        """Draw each rack like `ncc.envs.gym.RackEnv.render`.

        Raises:
            DatapathError: no episode has begun.
        """
        return tuple(picture.frame() for picture in self._pictures) if self._pictures else None

    def close_extras(self, **_: Any) -> None:
        """Free networks and processes."""
        if self._racks is not None:
            self._racks.close()

    def _begin(self, row: int) -> ObsArray:
        """Begin the next episode of a rack; return its first observation."""
        assert self._racks is not None
        first = self._first(row)
        seed = self._seeds[first]
        if seed is None:
            seed = self._seeds[first] = int(self.np_random.integers(SEED_LIMIT))
        self._episodes[row] += 1
        self._steps[row] = 0
        return self._racks.begin(row, self._spec.episode_seed(seed, 0, int(self._episodes[row])))

    def _first(self, row: int) -> int:
        """Return the first of the racks that have the flows of this one."""
        return row - row % self._copies

    def _flat(self, obs: ObsArray) -> ObsArray:
        """Return a flat copy, because the next action may be a share of the observation, which users may overwrite."""
        return obs.reshape(self.num_envs, -1).copy()

    def _info(self, *, began: bool) -> dict[str, Any]:
        assert self._racks is not None
        m = self._racks.measured
        if self._pictures:
            for picture, measured in zip(self._pictures, self._racks.each(), strict=True):
                picture.see(measured)
        if began or not isinstance(m, Measurements):
            m = Measurements.of(self._racks.each())
        info: dict[str, Any] = {"episode_number": self._episodes.copy(), "_episode_number": self._all}
        for name in PROGRESS:
            info[name], info[f"_{name}"] = getattr(m, name), self._all
        return info
