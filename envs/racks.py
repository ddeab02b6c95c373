# SPDX-License-Identifier: BSD-3-Clause
"""Racks stepped together in this process: episodes of a scenario, with observations and rewards as arrays."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ncc.core.errors import DatapathError, NccError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.seeding import derive_seed
from ncc.envs.observation import SharedObserver
from ncc.envs.reward import RewardArray
from ncc.envs.spec import EnvSpec
from ncc.envs.tally import Tally
from ncc.harness.batch import ObsArray
from ncc.harness.networks import Networks

Flags = npt.NDArray[np.bool_]


class Epochs(NamedTuple):
    """Result of one epoch of each rack."""

    obs: ObsArray
    """Observations [n_racks, n_agents, obs_dim]."""
    reward: RewardArray
    """Rewards [n_racks, n_agents]."""
    terminated: Flags
    """True for racks [n_racks] whose finite list of flows has been delivered."""
    truncated: Flags
    """True for racks [n_racks] whose time is up."""
    ended: list[int]
    """Rows of the racks whose episode is over."""


class Racks:
    """Episodes of racks, driven by rate limits. Each rack is bit for bit as if alone.

    Every environment is built on this class, which knows no learning framework.

    Args:
        spec: scenario, stack and RL view.
        networks: the networks, one per rack.
        racks: numbers of the racks, for errors.
    """

    def __init__(self, spec: EnvSpec, networks: Networks, racks: range) -> None:
        self.spec, self.racks = spec, racks
        self.measured: Measurement | Measurements | None = None
        """Measurement of the last epoch, or of the start of a single rack."""
        self._networks = networks
        self._observer = SharedObserver(spec.view.observation)
        # A single rack is measured and observed without the leading axis, which makes every numpy call cheaper.
        self._lone = len(racks) == 1
        self._observer.reset(spec.scenario, None if self._lone else racks)
        self.n_agents = spec.scenario.n_agents
        """Number of hosts of a rack whose rate is decided."""
        self._reward = spec.view.reward.build()
        self._reward.reset(spec.scenario)
        self._last_epoch_s = spec.scenario.duration_s + (spec.drain_epochs - 0.5) * spec.scenario.period_s
        self._over = set(range(len(racks)))  # rows whose episode has ended or not begun
        self._n_flows = np.full(len(racks), -1)
        self.tally = Tally(spec.scenario, len(racks))
        self._begun: dict[int, Measurement] = {}  # several racks: those at their start

    @property
    def obs_dim(self) -> int:
        """Number of numbers in a host's observation."""
        return self._observer.obs_dim

    def begin(self, row: int, seed: int) -> ObsArray:
        """Start an episode of one rack; return its first observation [n_agents, obs_dim].

        Args:
            row: row of the rack.
            seed: seed of the flows (`EnvSpec.episode_seed`).
        """
        number, scenario = self.racks[row], self.spec.scenario
        flows = scenario.flows(seed)
        self._over.add(row)
        try:
            first = self._networks.start(row, scenario, flows, self.spec.stack, derive_seed(seed, "datapath"))
        except NccError as error:
            if self._lone:
                raise
            raise error.within(f"rack {number}") from error
        if self.spec.finite:
            self._n_flows[row] = len(flows)
        self._over.discard(row)
        self.tally.begin(row)
        if not self._lone:
            self._begun[row] = first
            return self._observer.restart(row, first, seed=derive_seed(seed, "sharing"))
        self.measured = first
        self._observer.reset(scenario, seed=derive_seed(seed, "sharing"))
        return self._observer.observe(first)

    def advance(self, limits_bps: FloatArray, past: Collection[int] = ()) -> Epochs:
        """Run one epoch of each rack under rate limits [n_racks, n_agents] in bits/s.

        Args:
            limits_bps: inf means no limit.
            past: rows whose episode is over; their networks may run on with the others, but begin anew next, and
                their results of this epoch mean nothing.

        Raises:
            ConfigError: the limits are not allowed.
            DatapathError: a rack's episode is over or none has begun, or a network failed.
        """
        if self._over.difference(past):
            raise DatapathError("no episode is running; reset the environment first")
        try:
            m = self.measured = self._networks.step(limits_bps)
        except BaseException:
            # A single rack can go on if its datapath can; of several racks, some may be an epoch ahead of others.
            if not self._lone:
                self._over.update(range(len(self.racks)))
            raise
        self._begun.clear()
        self.tally.add(m, limits_bps)
        obs, reward = self._observer.observe(m), self._reward.reward(m)
        # a > b means "a and not b" for flags.
        if isinstance(m, Measurements):
            terminated = m.flows_finished == self._n_flows
            truncated = (m.time_s >= self._last_epoch_s) > terminated
            ended = (terminated | truncated).nonzero()[0].tolist()
            self._over.update(ended)
            return Epochs(obs, reward, terminated, truncated, ended)
        done = m.flows_finished == int(self._n_flows[0])
        cut = (m.time_s >= self._last_epoch_s) > done
        ended = [0] if done or cut else []
        self._over.update(ended)
        return Epochs(obs[None], reward[None], _FLAG[done], _FLAG[cut], ended)

    def each(self) -> list[Measurement]:
        """Return the last measurement of every rack: of its last epoch, or of its start.

        Raises:
            DatapathError: a rack has not begun.
        """
        m = self.measured
        if isinstance(m, Measurement):
            return [m]
        rows = range(len(self.racks))
        if len(self._begun) < len(rows) and m is None:
            raise DatapathError("no episode is running; reset the environment first")
        return [self._begun[row] if row in self._begun or m is None else m[row] for row in rows]

    def close(self) -> None:
        """Free the networks; may be called twice."""
        self._over.update(range(len(self.racks)))
        self._networks.close()


_FLAG = (np.array([False]), np.array([True]))
for _flag in _FLAG:
    _flag.setflags(write=False)
