# SPDX-License-Identifier: BSD-3-Clause
"""Racks stepped together in this process: episodes of a scenario, with observations and rewards as arrays."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ncc.core.errors import DatapathError, NccError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.seeding import SEED_LIMIT, derive_seed
from ncc.envs.observation import SharedObserver
from ncc.envs.picture import Frame, pictures
from ncc.envs.reward import Reward, RewardArray
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.envs.tally import Tally
from ncc.harness.batch import ObsArray
from ncc.harness.networks import networks

Flags = npt.NDArray[np.bool_]


class Epochs(NamedTuple):
    """Result of one period of each rack."""

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
    """Episodes of racks, driven by rate limits. A rack has the same results, bit for bit, as if it ran alone.

    Every environment is built on this class, which knows no learning framework.

    Args:
        spec: scenario, stack and RL view.
        datapath: factory of networks (`ncc.harness.networks.networks`).
        n: number of racks.
        first: number of the first rack in errors; the others follow it.
        threads: threads of a datapath that steps all racks in one call.
        copies: number of consecutive racks that `begin_next` gives the same flows.
        render_mode: mode of `frames`, see `ncc.envs.picture.pictures`.
    """

    def __init__(
        self,
        spec: EnvSpec,
        datapath: DatapathFactory,
        n: int = 1,
        *,
        first: int = 0,
        threads: int = 1,
        copies: int = 1,
        render_mode: str | None = None,
    ) -> None:
        self.spec = spec
        self._numbers, self._copies = range(first, first + n), copies
        self.measured: Measurement | Measurements | None = None
        """Measurement of the last period, or of the start of a single rack."""
        self._networks = networks(datapath, n, threads=threads, first=first)
        self._observer = SharedObserver(spec.view.observation)
        # A single rack is measured and observed without the leading axis, which makes every numpy call cheaper.
        self._single = n == 1
        self._observer.reset(spec.scenario, None if self._single else self._numbers)
        self.n_agents, self.obs_dim = spec.scenario.n_agents, self._observer.obs_dim
        self.obs: ObsArray = np.zeros((n, self.n_agents, self.obs_dim), np.float32)
        """Last observations [n_racks, n_agents, obs_dim]."""
        self._reward = Reward(spec.view.reward)
        self._reward.reset(spec.scenario)
        self._last_epoch_s = spec.scenario.duration_s + (spec.drain_epochs - 0.5) * spec.scenario.period_s
        self._over = set(range(n))  # rows whose episode has ended or not begun
        self._n_flows = np.full(n, -1)
        self.tally = Tally(spec.scenario, n)
        self._begun: dict[int, Measurement] = {}  # several racks: their first measurements until the next period
        self._pictures = pictures(render_mode, spec.scenario, n)
        self.seeds = [-1] * n
        """Seed of each rack by `begin_next`; -1: none yet."""
        self.episodes = np.full(n, -1)
        """Number of each rack's episode by `begin_next` [n_racks]."""

    def begin(self, row: int, seed: int) -> ObsArray:
        """Start an episode of one rack; return its first observation [n_agents, obs_dim].

        Args:
            row: row of the rack.
            seed: seed of the flows (`EnvSpec.episode_seed`).
        """
        scenario = self.spec.scenario
        flows = scenario.flows(seed)
        self._over.add(row)
        try:
            first = self._networks.start(row, scenario, flows, self.spec.stack, derive_seed(seed, "datapath"))
        except NccError as error:
            raise error.within("" if self._single else f"rack {self._numbers[row]}") from error
        if self.spec.finite:
            self._n_flows[row] = len(flows)
        self._over.discard(row)
        self.tally.begin(row)
        sharing = derive_seed(seed, "sharing")
        if self._single:
            self.measured = first
            self._observer.reset(scenario, seed=sharing)
            self.obs = self._observer.observe(first)[None]
        else:
            self._begun[row] = first
            self.obs[row] = self._observer.restart(row, first, seed=sharing)
        if row < len(self._pictures):
            self._pictures[row].see(first)
        obs: ObsArray = self.obs[row]
        return obs

    def begin_next(self, row: int, seed: int | None, rng: np.random.Generator) -> ObsArray:
        """Start the next episode of a rack, or the first episode of a new seed; return its first observation.

        All copies use the seed of the first copy. If no seed was ever given, `rng` draws one.
        """
        first = row - row % self._copies
        if seed is not None:
            self.seeds[row], self.episodes[row] = seed, -1
        if self.seeds[first] < 0:
            self.seeds[first] = int(rng.integers(SEED_LIMIT))
        self.episodes[row] += 1
        return self.begin(row, self.spec.episode_seed(self.seeds[first], 0, int(self.episodes[row])))

    def retag(self, row: int, tag_params: Sequence[int]) -> None:
        """Give the tags of a rack's hosts new parameters in the next period; see `ncc.harness.datapath.retag`."""
        self._networks.retag(row, tag_params)

    def advance(self, limits_bps: FloatArray, past: Collection[int] = ()) -> Epochs:
        """Run one period of each rack under rate limits [n_racks, n_agents] in bits/s.

        Args:
            limits_bps: inf means no limit.
            past: rows whose episode is over. Their networks may run on with the others until they begin anew; their
                results mean nothing.

        Raises:
            ConfigError: the limits are not allowed.
            DatapathError: a rack's episode is over or none has begun, or a network failed.
        """
        if self._over.difference(past):
            raise DatapathError("no episode is running; reset the environment first")
        try:
            m = self.measured = self._networks.step(limits_bps)
        except BaseException:
            # A single rack can go on if its datapath can; of several racks, some may be a period ahead of others.
            if not self._single:
                self._over.update(self._rows)
            raise
        self._begun.clear()
        self.tally.add(m, limits_bps)
        obs, reward = self._observer.observe(m), self._reward.reward(m)
        for row, picture in enumerate(self._pictures):
            picture.see(m[row] if isinstance(m, Measurements) else m)
        if self._single:
            obs, reward = obs[None], reward[None]
        self.obs = obs
        terminated: Flags = np.equal(m.flows_finished, self._n_flows)
        truncated: Flags = np.greater(m.time_s >= self._last_epoch_s, terminated)  # time is up, and not terminated
        ended: list[int] = (terminated | truncated).nonzero()[0].tolist()
        self._over.update(ended)
        return Epochs(obs, reward, terminated, truncated, ended)

    def each(self) -> list[Measurement]:
        """Return the last measurement of every rack: of its last period, or of its start.

        Raises:
            DatapathError: a rack has not begun.
        """
        m = self.measured
        if isinstance(m, Measurement):
            return [m]
        if len(self._begun) < len(self._rows) and m is None:
            raise DatapathError("no episode is running; reset the environment first")
        return [self._begun[row] if row in self._begun or m is None else m[row] for row in self._rows]

    def frames(self) -> list[Frame]:
        """Draw each rack [height, width, 3] at the end of its last period; empty unless the mode is `rgb_array`.

        Raises:
            DatapathError: no episode has begun.
        """
        return [picture.frame() for picture in self._pictures]

    def close(self) -> None:
        """Free the networks; may be called twice."""
        self._over.update(self._rows)
        self._networks.close()

    @property
    def _rows(self) -> range:
        return range(len(self._numbers))
