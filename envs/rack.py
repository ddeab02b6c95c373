# SPDX-License-Identifier: BSD-3-Clause
"""Racks in this process: one that takes rate limits, or several as a `BatchedEnv` for learners."""

from typing import NamedTuple

import numpy as np

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement, Measurements
from ncc.envs.action import rate_map
from ncc.envs.racks import Racks
from ncc.envs.reward import RewardArray
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.envs.tally import Episodes, means
from ncc.harness.batch import ActionArray, ObsArray, Transition
from ncc.harness.networks import networks


class Epoch(NamedTuple):
    """Result of one epoch."""

    obs: ObsArray
    reward: RewardArray
    terminated: bool
    truncated: bool


class Rack:
    """Episodes of one rack, driven by rate limits.

    Args:
        spec: scenario, stack and RL view.
        datapath: factory of the network, called once, at the first episode.
        seed: seed of the flows, with `rack` and the number of the episode.
        rack: number of this rack among several with one seed.
    """

    def __init__(self, spec: EnvSpec, datapath: DatapathFactory, seed: int, rack: int = 0) -> None:
        self._racks = Racks(spec, networks(datapath, 1), range(rack, rack + 1))
        self._spec, self._rack = spec, rack
        self.n_agents, self.obs_dim = self._racks.n_agents, self._racks.obs_dim
        self.seed = seed
        """Seed, which may be set between episodes."""
        self._obs: ObsArray | None = None

    @property
    def measurement(self) -> Measurement | None:
        """Measurement of the last epoch, or of the start."""
        m = self._racks.measured
        return m[0] if isinstance(m, Measurements) else m

    @property
    def obs(self) -> ObsArray:
        """Last observation [n_agents, obs_dim].

        Raises:
            DatapathError: no episode has begun.
        """
        if self._obs is None:
            raise DatapathError("no episode is running; reset the environment first")
        return self._obs

    def begin(self, episode: int) -> ObsArray:
        """Start an episode and return its first observation [n_agents, obs_dim]."""
        self._obs = self._racks.begin(0, self._spec.episode_seed(self.seed, self._rack, episode))
        return self._obs

    def advance(self, limits_bps: FloatArray) -> Epoch:
        """Run one epoch under rate limits [n_agents] in bits/s.

        Raises:
            ConfigError: the limits are not allowed; the epoch has not run.
            DatapathError: the episode is over or none has begun, or the datapath failed.
        """
        obs, reward, terminated, truncated, _ = self._racks.advance(limits_bps[None])
        self._obs = obs[0]
        return Epoch(obs[0], reward[0], bool(terminated[0]), bool(truncated[0]))

    def close(self) -> None:
        """Free the datapath; may be called twice."""
        self._racks.close()


class RackBatch(Episodes):
    """A `BatchedEnv` of one or several racks.

    Each rack is bit for bit as if alone, whatever `n_racks` and `threads`.

    Args:
        spec: scenario, stack and RL view.
        datapath: factory of networks; if it offers `ncc.harness.networks.Batching`, all racks are stepped in one call
            (`ncc.harness.networks.InProcesses` offers it for any datapath, with a process for each rack).
        seed: seed of the flows, with rack and episode.
        rack: number of the first rack; the others follow it.
        n_racks: number of racks.
        threads: threads of a datapath that steps all racks in one call.
        copies: number of consecutive racks that have the flows of the first of them.

    Raises:
        ConfigError: the scenario cannot be an environment, or there are no racks.
    """

    def __init__(
        self,
        spec: EnvSpec,
        datapath: DatapathFactory,
        seed: int,
        rack: int = 0,
        n_racks: int = 1,
        *,
        threads: int = 1,
        copies: int = 1,
    ) -> None:
        if n_racks < 1 or threads < 1 or copies < 1:
            raise ConfigError(f"n_racks, threads and copies must be at least 1, got {n_racks}, {threads} and {copies}")
        self._actions = rate_map(spec.view.action, spec.view.observation)
        self._actions.reset(spec.scenario)
        made = networks(datapath, n_racks, threads=threads, first=rack)
        self._racks = Racks(spec, made, range(rack, rack + n_racks))
        super().__init__(n_racks)
        self.n_racks, self.n_agents, self.obs_dim = n_racks, self._racks.n_agents, self._racks.obs_dim
        self.n_actions = spec.view.action.n_actions
        self._spec = spec
        self.seed = seed
        """Seed, which may be set before a reset."""
        self._obs: ObsArray | None = None
        self._first, self._copies, self._shape = rack, copies, (n_racks, self.n_agents)
        self._now, self._began, self._sums = 0, [0] * n_racks, np.zeros(self._shape)

    def reset(self, episode: int = 0) -> ObsArray:
        """Start every rack at that episode; return observations [n_racks, n_agents, obs_dim]."""
        self._obs = np.stack([self._begin(row, episode) for row in range(self.n_racks)])
        return self._obs.copy()

    def step(self, actions: ActionArray) -> Transition:
        """Run one epoch; a rack whose episode ends begins the next.

        Args:
            actions: indices [n_racks, n_agents], or numbers in [-1, 1] for continuous actions (`n_actions` 0).

        Raises:
            ConfigError: actions of a wrong shape, kind or range, naming rack and host; no epoch has run.
        """
        if actions.shape != self._shape:
            raise ConfigError(f"actions must have shape {self._shape}, got {actions.shape}")
        limits_bps = self._actions.rack_rates_bps(actions, self._last_obs(), self._first)
        obs, reward, terminated, truncated, ended = self._racks.advance(limits_bps)
        self._sums += reward
        self._now += 1
        final = obs.copy() if ended else obs
        for row in ended:
            played = self._now - self._began[row]
            self._returns[row].append(float(self._sums[row].mean()) / played)
            obs[row] = self._begin(row, self._episodes[row] + 1)
        self._obs = obs
        return Transition(obs=obs, reward=reward, terminated=terminated, truncated=truncated, final_obs=final)

    def _last_obs(self) -> ObsArray:
        if self._obs is None:
            raise DatapathError("no episode is running; reset the environment first")
        return self._obs

    def take_metrics(self) -> dict[str, float]:
        """Return the metrics of `ncc.envs.tally.means`; see `ncc.harness.batch.Measuring`."""
        return means(self.take_sums())

    def take_sums(self) -> FloatArray:
        """Return the sums (`ncc.envs.tally.Tally.sums`) since the last call."""
        found, self._racks.tally.sums = self._racks.tally.sums, np.zeros_like(self._racks.tally.sums)
        return found

    def close(self) -> None:
        """Free the networks; may be called twice."""
        self._racks.close()

    def _begin(self, row: int, episode: int) -> ObsArray:
        self._episodes[row], self._began[row], self._sums[row] = episode, self._now, 0
        same = self._first + row - row % self._copies
        return self._racks.begin(row, self._spec.episode_seed(self.seed, same, episode))
