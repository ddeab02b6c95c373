# SPDX-License-Identifier: BSD-3-Clause
"""One rack in this process: episodes of a scenario on a datapath, observed and rewarded."""

from typing import NamedTuple

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.seeding import derive_seed
from ncc.envs.action import RateTable
from ncc.envs.observation import SharedObserver
from ncc.envs.reward import RewardArray
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.harness.batch import ActionArray, ObsArray, Transition
from ncc.harness.datapath import Datapath


class Epoch(NamedTuple):
    """What one epoch gave."""

    obs: ObsArray
    reward: RewardArray
    terminated: bool
    truncated: bool


class Rack:
    """Episodes of one rack, driven by rate limits. Knows no learning framework; every environment is built on it.

    Args:
        spec: what runs and how it is seen.
        datapath: makes the network; called once, at the first episode.
        seed: with `rack` and the number of the episode it decides the flows.
        rack: which of several racks of one seed this is.
    """

    def __init__(self, spec: EnvSpec, datapath: DatapathFactory, seed: int, rack: int = 0) -> None:
        self.spec, self.seed, self.index = spec, seed, rack
        self.n_agents = spec.scenario.n_agents
        self.measurement: Measurement | None = None
        """Of the last epoch, or of the start."""
        self._make = datapath
        self._datapath: Datapath | None = None
        self._observer = SharedObserver(spec.view.observation)
        self._observer.reset(spec.scenario)
        self._reward = spec.view.reward.build()
        self._reward.reset(spec.scenario)
        self._last_epoch_s = spec.scenario.duration_s - spec.scenario.period_s / 2
        self._running = False

    @property
    def obs_dim(self) -> int:
        """Numbers in one host's observation."""
        return self._observer.obs_dim

    def begin(self, episode: int) -> ObsArray:
        """Start an episode and return its first observation [n_agents, obs_dim]."""
        seed = self.spec.episode_seed(self.seed, self.index, episode)
        flows = self.spec.scenario.flows(seed)
        if self._datapath is None:
            self._datapath = self._make()
        self.measurement = self._datapath.start(
            self.spec.scenario, flows, self.spec.stack, derive_seed(seed, "datapath")
        )
        self._n_flows = len(flows) if self.spec.finite else -1
        self._observer.reset(self.spec.scenario)
        self._running = True
        return self._observer.observe(self.measurement)

    def advance(self, limits_bps: FloatArray) -> Epoch:
        """Run one epoch under rate limits [n_agents] in bits/s.

        Raises:
            ConfigError: limits that cannot be used; the epoch has not run.
            DatapathError: the episode is over or none has begun, or the datapath failed.
        """
        if not self._running or self._datapath is None:
            raise DatapathError("no episode is running; reset the environment first")
        m = self.measurement = self._datapath.step(limits_bps)
        terminated = m.flows_finished == self._n_flows
        truncated = not terminated and m.time_s >= self._last_epoch_s
        self._running = not (terminated or truncated)
        return Epoch(self._observer.observe(m), self._reward.reward(m), terminated, truncated)

    def close(self) -> None:
        """Free the datapath; may be called twice."""
        self._running = False
        if self._datapath is not None:
            self._datapath.close()
            self._datapath = None


class RackBatch:
    """A `BatchedEnv` of one rack, stepped in this process.

    Arguments as for `Rack`.

    Raises:
        ConfigError: a scenario that cannot be an environment, or continuous actions.
    """

    n_racks = 1

    def __init__(self, spec: EnvSpec, datapath: DatapathFactory, seed: int, rack: int = 0) -> None:
        self._actions = RateTable(spec.view.action)
        self._actions.reset(spec.scenario)
        self._rack = Rack(spec, datapath, seed, rack)
        self.n_agents, self.obs_dim = self._rack.n_agents, self._rack.obs_dim
        self.n_actions = spec.view.action.n_actions
        self._episode = 0
        self._rewards: list[RewardArray] = []
        self._returns: list[float] = []

    def reset(self, episode: int = 0) -> ObsArray:
        """Start that episode; returns [1, n_agents, obs_dim]."""
        self._episode = episode
        self._rewards = []
        return self._rack.begin(episode)[None]

    def step(self, actions: ActionArray) -> Transition:
        """One epoch with action indices [1, n_agents]; the next episode has begun where one ended.

        Raises:
            ConfigError: actions of a wrong shape, kind or range, naming the host; the epoch has not run.
        """
        obs, reward, terminated, truncated = self._rack.advance(self._actions.rates_bps(one_rack(actions)))
        self._rewards.append(reward)
        final = first = obs[None]
        if terminated or truncated:
            self._returns.append(float(np.mean(self._rewards, dtype=np.float64)))
            first = self.reset(self._episode + 1)
        return Transition(
            obs=first,
            reward=reward[None],
            terminated=_FLAG[terminated],
            truncated=_FLAG[truncated],
            final_obs=final,
        )

    @property
    def episode(self) -> int:
        """The episode now running."""
        return self._episode

    def take_returns(self) -> tuple[float, ...]:
        """Mean reward per host and epoch of each episode that ended since the last call."""
        returns, self._returns = tuple(self._returns), []
        return returns

    def close(self) -> None:
        """Free the datapath; may be called twice."""
        self._rack.close()


def one_rack(actions: ActionArray) -> ActionArray:
    """The row of a batch of one; anything else goes on as it is, to be refused by shape."""
    return actions[0] if np.shape(actions)[:1] == (1,) else actions


_FLAG = (np.array([False]), np.array([True]))
for _flag in _FLAG:
    _flag.setflags(write=False)
