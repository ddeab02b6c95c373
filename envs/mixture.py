# SPDX-License-Identifier: BSD-3-Clause
"""Episodes of many scenarios in one environment: each slot plays scenarios drawn from families."""

import numpy as np

from ncc.core.errors import ConfigError, DatapathError, NccError
from ncc.core.seeding import generator
from ncc.envs.families import Families, check_families
from ncc.envs.rack import RackBatch
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.envs.tally import Episodes, means
from ncc.harness.batch import ActionArray, Advice, ObsArray, Transition
from ncc.harness.networks import Batching


class Mixture(Episodes):
    """A `BatchedEnv` of slots in place of racks: row r is all hosts of the networks in slot r.

    A slot has `Families.hosts_per_slot` hosts. If the scenario has fewer, the slot contains several networks of it, one
    after the other in the row, each with flows of its own and bit for bit as if alone in a `RackBatch`. All episodes
    have `Families.epochs` epochs; at the end of a slot's episode the scenario of its next one is drawn. The draw
    depends on (seed, slot, episode) alone, and the flows of network i of slot s on
    (seed, s * hosts_per_slot + i, episode).

    Args:
        families: families that episodes are drawn from.
        spec: observations, actions, rewards, stack and expert; its scenario is not used.
        datapath: factory of networks; several are stepped in one call (`Batching`).
        seed: seed of scenarios and flows.
        slot: number of the first slot; the others follow it.
        n_slots: number of slots.
        threads: threads of the datapath, on which results do not depend.

    Raises:
        ConfigError: the families cannot be episodes of one environment, actions are continuous, the datapath does not
            offer `Batching`, or there are no slots.
    """

    def __init__(
        self,
        families: Families,
        spec: EnvSpec,
        datapath: DatapathFactory,
        seed: int,
        *,
        slot: int = 0,
        n_slots: int = 1,
        threads: int = 1,
    ) -> None:
        if n_slots < 1 or threads < 1:
            raise ConfigError(f"n_slots and threads must be at least 1, got {n_slots} and {threads}")
        require_batching(datapath)
        if not spec.view.action.n_actions:
            raise ConfigError(f"ActionSpec.kind is {spec.view.action.kind!r}; a mixture takes action indices: 'levels'")
        super().__init__(n_slots)
        self.n_racks, self.n_agents = n_slots, families.hosts_per_slot
        self.obs_dim = check_families(families, spec.view.observation)
        self.n_actions = spec.view.action.n_actions
        self._families, self._spec, self._datapath, self._seed = families, spec, datapath, seed
        self._first, self._threads = slot, threads
        self._slots: list[RackBatch] = []
        """Networks of each slot; empty while no episode is running."""
        self._said = [""] * n_slots
        """Beginning of an error's message for each slot."""
        self._sums = np.zeros(6)
        """Sums (`ncc.envs.tally.Tally.sums`) of networks whose episode is over."""
        self._stuck = [_Stuck(families, self.n_agents, self.n_actions) for _ in range(n_slots)]

    def reset(self, episode: int = 0) -> ObsArray:
        """Start every slot at that episode; return observations [n_slots, hosts_per_slot, obs_dim]."""
        self.close()
        begun = [self._begin(row, episode) for row in range(self.n_racks)]
        self._slots = [racks for racks, _ in begun]
        return np.stack([obs for _, obs in begun])

    def step(self, actions: ActionArray) -> Transition:
        """Run one epoch with action indices [n_slots, hosts_per_slot]; a slot whose episode ends begins the next.

        Raises:
            ConfigError: actions of a wrong shape, kind or range, naming slot and host; no epoch has run.
            DatapathError: no episode is running, or a network failed, naming its slot, family and episode; all slots
                must be reset then.
        """
        self._check(actions)
        slots = self._running()
        obs: ObsArray = np.empty((self.n_racks, self.n_agents, self.obs_dim), dtype=np.float32)
        reward = np.empty((self.n_racks, self.n_agents), dtype=np.float32)
        truncated = np.zeros(self.n_racks, dtype=np.bool_)
        try:
            for row, racks in enumerate(slots):
                done = self._stuck[row].instead_of(actions[row])
                moved = self._step(row, racks, done.reshape(racks.n_racks, racks.n_agents))
                obs[row] = moved.final_obs.reshape(obs.shape[1:])
                reward[row] = moved.reward.reshape(-1)
                truncated[row] = moved.truncated[0]  # the networks of a slot end together
            final = obs.copy() if truncated.any() else obs
            for row in truncated.nonzero()[0].tolist():
                self._returns[row].append(float(np.mean(slots[row].take_returns())))
                self._sums += slots[row].take_sums()
                slots[row].close()
                slots[row], obs[row] = self._begin(row, self._episodes[row] + 1)
        except BaseException:
            self.close()  # some slots may be an epoch ahead of others
            raise
        terminated = np.zeros(self.n_racks, dtype=np.bool_)  # never, because arrivals are random
        return Transition(obs=obs, reward=reward, terminated=terminated, truncated=truncated, final_obs=final)

    def advice(self) -> Advice:
        """Return the advice of `EnvSpec.expert` [n_slots, hosts_per_slot]; see `ncc.harness.batch.Advising`."""
        asked = [racks.advice() for racks in self._running()]
        return Advice(
            label=np.stack([each.label.reshape(-1) for each in asked]),
            drive=np.stack([each.drive.reshape(-1) for each in asked]),
        )

    def take_metrics(self) -> dict[str, float]:
        """Return metrics of all networks of all slots; see `ncc.harness.batch.Measuring`."""
        found, self._sums = sum((slot.take_sums() for slot in self._slots), self._sums), np.zeros_like(self._sums)
        return means(found)

    def close(self) -> None:
        """Free the networks; may be called twice."""
        slots, self._slots = self._slots, []
        for racks in slots:
            racks.close()

    def _begin(self, row: int, episode: int) -> tuple[RackBatch, ObsArray]:
        """Start the networks of a slot's episode; return them and their first observation [hosts_per_slot, obs_dim]."""
        slot = self._first + row
        scenario = self._families.draw(self._seed, slot, episode)
        self._stuck[row].begin(generator(self._seed, "families", "stuck", slot, episode))
        self._said[row], self._episodes[row] = f"slot {slot}, family {scenario.name!r}, episode {episode}", episode
        n, spec = self.n_agents // scenario.n_agents, self._spec.replace(scenario=scenario)
        racks = RackBatch(spec, self._datapath, self._seed, slot * self.n_agents, n, threads=min(self._threads, n))
        try:
            obs = racks.reset(episode)
        except NccError as error:
            racks.close()
            raise error.within(self._said[row]) from error
        return racks, obs.reshape(self.n_agents, self.obs_dim)

    def _step(self, row: int, racks: RackBatch, actions: ActionArray) -> Transition:
        try:
            return racks.step(actions)
        except NccError as error:
            raise error.within(self._said[row]) from error

    def _running(self) -> list[RackBatch]:
        if not self._slots:
            raise DatapathError("no episode is running; reset the environment first")
        return self._slots

    def _check(self, actions: ActionArray) -> None:
        """Check all actions, before any slot moves."""
        shape = (self.n_racks, self.n_agents)
        if actions.shape != shape:
            raise ConfigError(f"actions must have shape {shape}, got {actions.shape}")
        allowed = f"allowed: whole numbers 0 to {self.n_actions - 1}"
        if actions.dtype.kind not in "iu":
            raise ConfigError(f"actions must be integers, got {actions.dtype}; {allowed}")
        if actions.min() < 0 or actions.max() >= self.n_actions:
            row, host = np.argwhere((actions < 0) | (actions >= self.n_actions))[0].tolist()
            value = actions[row, host]
            raise ConfigError(f"slot {self._first + row}: action of host {host} is {value}; {allowed}")


class _Stuck:
    """Random limits in place of a slot's decisions for some time: `Families.stuck_frac`."""

    def __init__(self, families: Families, n_agents: int, n_actions: int) -> None:
        self._n_agents, self._n_actions, self._epochs = n_agents, n_actions, families.stuck_epochs
        free_epochs = families.stuck_epochs * (1 / families.stuck_frac - 1) if families.stuck_frac else np.inf
        self._odds = 1 / (free_epochs + 1)
        """Probability of such a time beginning in an epoch."""

    def begin(self, rng: np.random.Generator) -> None:
        self._rng, self._left = rng, 0

    def instead_of(self, actions: ActionArray) -> ActionArray:
        """Return the actions [n_agents] that take effect."""
        if not self._odds:
            return actions
        if not self._left and self._rng.random() < self._odds:
            # Drawn below a random bound, so that all hosts hold back often.
            self._left = self._epochs
            self._held = self._rng.integers(0, self._rng.integers(1, self._n_actions + 1), self._n_agents)
        if not self._left:
            return actions
        self._left -= 1
        return self._held


def require_batching(datapath: DatapathFactory) -> None:
    """Raise `ConfigError` unless the datapath steps many networks in one call."""
    offered: object = datapath
    if not isinstance(offered, Batching):
        name = getattr(datapath, "name", None) or getattr(datapath, "__name__", "this one")
        raise ConfigError(
            f"families need a datapath that steps many networks in one call, which {name} does not: train on "
            "packetsim, or leave families out"
        )
