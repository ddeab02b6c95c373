# SPDX-License-Identifier: BSD-3-Clause
"""Racks as a `BatchedEnv` for learners."""

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.envs.action import rate_map
from ncc.envs.racks import Racks
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.envs.tally import Episodes, means
from ncc.harness.batch import ActionArray, ObsArray, Transition


class RackBatch(Episodes):
    """A `BatchedEnv` of one or several racks: simulated networks of one scenario, each with its own flows.

    The results of a rack depend neither on `n_racks` nor on `threads`, not even in the last bit.

    Args:
        spec: scenario, stack and RL view.
        datapath: factory of networks; if it offers `ncc.harness.networks.Batching`, all racks are stepped in one call
            (`ncc.harness.networks.InProcesses` offers it for any datapath, with a process for each rack).
        seed: seed from which flows are drawn, together with the numbers of rack and episode.
        rack: number of the first rack; the others follow it.
        n_racks: number of racks.
        threads: threads of a datapath that steps all racks in one call.
        copies: number of consecutive racks that have the same flows, drawn for the first of them.

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
        self._racks = Racks(spec, datapath, n_racks, first=rack, threads=threads)
        super().__init__(n_racks)
        self.n_racks, self.n_agents, self.obs_dim = n_racks, self._racks.n_agents, self._racks.obs_dim
        self.n_actions = spec.view.action.n_actions
        self._spec = spec
        self.seed = seed
        """Seed, which may be set before a reset."""
        self._first, self._copies = rack, copies
        self._now, self._began, self._sums = 0, [0] * n_racks, np.zeros((n_racks, self.n_agents))

    def reset(self, episode: int = 0) -> ObsArray:
        """Start episode `episode` on every rack; return observations [n_racks, n_agents, obs_dim]."""
        self._racks.obs = self._racks.obs.copy()  # the caller may still use the last ones
        return np.stack([self._begin(row, episode) for row in range(self.n_racks)])

    def step(self, actions: ActionArray) -> Transition:
        """Run one period; a rack whose episode ends begins the next.

        Args:
            actions: indices [n_racks, n_agents], or numbers in [-1, 1] for continuous actions (`n_actions` 0).

        Raises:
            ConfigError: actions of a wrong shape, kind or range, naming rack and host; no period has run.
            DatapathError: no episode is running, or a network failed.
        """
        limits_bps = self._actions.rates_bps(actions, self._racks.obs, self._first)
        obs, reward, terminated, truncated, ended = self._racks.advance(limits_bps)
        self._sums += reward
        self._now += 1
        final = obs.copy() if ended else obs
        for row in ended:
            played = self._now - self._began[row]
            self._returns[row].append(float(self._sums[row].mean()) / played)
            obs[row] = self._begin(row, self._episodes[row] + 1)
        return Transition(obs=obs, reward=reward, terminated=terminated, truncated=truncated, final_obs=final)

    def take_metrics(self) -> dict[str, float]:
        """Return the metrics of `ncc.envs.tally.means`; see `ncc.harness.batch.BatchedEnv`."""
        return means(self.take_sums())

    def take_sums(self) -> FloatArray:
        """Return the sums (`ncc.envs.tally.Tally.sums`) since the last call."""
        sums, self._racks.tally.sums = self._racks.tally.sums, np.zeros_like(self._racks.tally.sums)
        return sums

    def close(self) -> None:
        """Free the networks; may be called twice."""
        self._racks.close()

    def _begin(self, row: int, episode: int) -> ObsArray:
        self._episodes[row], self._began[row], self._sums[row] = episode, self._now, 0
        same = self._first + row - row % self._copies
        return self._racks.begin(row, self._spec.episode_seed(self.seed, same, episode))
