# SPDX-License-Identifier: BSD-3-Clause
"""Episodes of many scenarios in one environment: each slot plays scenarios drawn from families."""

from typing import Any

import numpy as np

from ncc.core.errors import ConfigError, DatapathError, NccError
from ncc.envs.action import check_actions
from ncc.envs.families import Families, check_families
from ncc.envs.rack import RackBatch
from ncc.envs.spec import DatapathFactory, EnvSpec
from ncc.envs.tally import Episodes, means
from ncc.harness.batch import ActionArray, ObsArray, Transition
from ncc.harness.networks import Batching


class Mixture(Episodes):
    """A `BatchedEnv` of slots in place of racks: row r is all hosts of the networks in slot r.

    A slot has `Families.hosts_per_slot` hosts. If the scenario has fewer, the slot contains several networks of it, one
    after the other in the row. Each has flows of its own, and is bit for bit as if alone in a `RackBatch`. All episodes
    have `Families.epochs` periods. At the end of a slot's episode the scenario of its next episode is drawn. The draw
    depends on (seed, slot, episode) alone, and the flows of network i of slot s on
    (seed, s * hosts_per_slot + i, episode).

    With `copies`, that many consecutive slots form a group. All slots of a group play the networks, flows and losses
    that are drawn for the first of them, and differ only in the decisions of their hosts.

    Args:
        families: families that episodes are drawn from.
        spec: observations, actions, rewards and stack; its scenario is not used.
        datapath: factory of networks; several are stepped in one call (`Batching`).
        seed: seed of scenarios and flows.
        slot: number of the first slot; the others follow it.
        n_slots: number of slots, a multiple of `copies`.
        threads: threads of the datapath, on which results do not depend.
        copies: slots of a group.

    Raises:
        ConfigError: the families cannot be episodes of one environment.
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
        copies: int = 1,
    ) -> None:
        super().__init__(n_slots)
        self.n_racks, self.n_agents = n_slots, families.hosts_per_slot
        self.obs_dim = check_families(families, spec.view.observation, spec.view.action.within)
        self.n_actions = spec.view.action.n_actions
        self._families, self._spec, self._datapath, self._seed = families, spec, datapath, seed
        self._first, self._threads, self._copies = slot, threads, copies
        self._groups: list[RackBatch] = []
        """Networks of each group of slots, copies of a network side by side; empty while no episode is running."""
        self._place = [""] * (n_slots // copies)
        """Slot, family and episode of each group, for errors."""
        self._sums = np.zeros(6)
        """Sums (`ncc.envs.tally.Tally.sums`) of networks whose episode is over."""

    def reset(self, episode: int = 0) -> ObsArray:
        """Start episode `episode` on every slot; return observations [n_slots, hosts_per_slot, obs_dim]."""
        self.close()
        begun = [self._begin(group, episode) for group in range(len(self._place))]
        self._groups = [racks for racks, _ in begun]
        return np.concatenate([obs for _, obs in begun])

    def step(self, actions: ActionArray) -> Transition:
        """Run one period with actions [n_slots, hosts_per_slot]; a slot whose episode ends begins the next.

        Args:
            actions: indices, or numbers for continuous actions (`n_actions` 0), which are clipped to [-1, 1].

        Raises:
            ConfigError: actions of a wrong shape, kind or range, naming slot and host; no period has run.
            DatapathError: no episode is running, or a network failed, naming its slot, family and episode; all slots
                must be reset then.
        """
        shape = (self.n_racks, self.n_agents)
        if actions.shape != shape:
            raise ConfigError(f"actions must have shape {shape}, got {actions.shape}")
        # Check all actions before any slot moves.
        check_actions(actions, self.n_actions, lambda at: f"slot {self._first + at[0]}: action of host {at[1]}")
        groups, copies = self._running(), self._copies
        obs: ObsArray = np.empty((self.n_racks, self.n_agents, self.obs_dim), dtype=np.float32)
        reward = np.empty((self.n_racks, self.n_agents), dtype=np.float32)
        truncated = np.zeros(self.n_racks, dtype=np.bool_)
        try:
            for group, racks in enumerate(groups):
                rows = slice(group * copies, (group + 1) * copies)
                moved = self._step(group, racks, _by_networks(actions[rows], racks))
                obs[rows], reward[rows] = self._by_slots(moved.final_obs), self._by_slots(moved.reward)
                truncated[rows] = moved.truncated[0]  # the networks of a group end together
            final = obs.copy() if truncated.any() else obs
            for group in truncated[::copies].nonzero()[0].tolist():
                rows, racks = slice(group * copies, (group + 1) * copies), groups[group]
                for row, own in zip(range(rows.start, rows.stop), self._of_slots(racks.take_returns()), strict=True):
                    self._returns[row].append(float(np.mean(own)))
                self._sums += racks.take_sums()
                racks.close()
                groups[group], obs[rows] = self._begin(group, self._episodes[rows.start] + 1)
        except BaseException:
            self.close()  # some slots may be a period ahead of others
            raise
        terminated = np.zeros(self.n_racks, dtype=np.bool_)  # never, because arrivals are random
        return Transition(obs=obs, reward=reward, terminated=terminated, truncated=truncated, final_obs=final)

    def take_metrics(self) -> dict[str, float]:
        """Return metrics of all networks of all slots; see `ncc.harness.batch.BatchedEnv`."""
        sums = sum((group.take_sums() for group in self._groups), self._sums)
        self._sums = np.zeros_like(self._sums)
        return means(sums)

    def close(self) -> None:
        """Free the networks; may be called twice."""
        groups, self._groups = self._groups, []
        for racks in groups:
            racks.close()

    def _begin(self, group: int, episode: int) -> tuple[RackBatch, ObsArray]:
        """Start the networks of a group's episode; return them and observations [copies, hosts_per_slot, obs_dim]."""
        copies, row = self._copies, group * self._copies
        slot = self._first + row
        scenario = self._families.draw(self._seed, slot, episode)
        self._place[group] = f"slot {slot}, family {scenario.name!r}, episode {episode}"
        self._episodes[row : row + copies] = [episode] * copies
        n = copies * (self.n_agents // scenario.n_agents)
        spec = self._spec.replace(scenario=scenario, drain_epochs=self._families.drain_epochs)
        threads = min(self._threads, n)
        first = slot * self.n_agents
        racks = RackBatch(spec, self._datapath, self._seed, first, n, threads=threads, copies=copies)
        try:
            obs = racks.reset(episode)
        except NccError as error:
            racks.close()
            raise error.within(self._place[group]) from error
        return racks, self._by_slots(obs)

    def _step(self, group: int, racks: RackBatch, actions: ActionArray) -> Transition:
        try:
            return racks.step(actions)
        except NccError as error:
            raise error.within(self._place[group]) from error

    def _of_slots(self, rows: Any) -> Any:
        """Reshape values of networks [networks * copies, ...] to those of slots [copies, networks, ...]."""
        each = np.asarray(rows)
        return each.reshape(-1, self._copies, *each.shape[1:]).swapaxes(0, 1)

    def _by_slots(self, rows: Any) -> Any:
        """Reshape values of hosts [networks * copies, n, ...] to [copies, hosts_per_slot, ...]."""
        each = self._of_slots(rows)
        return each.reshape(self._copies, self.n_agents, *each.shape[3:])

    def _running(self) -> list[RackBatch]:
        if not self._groups:
            raise DatapathError("no episode is running; reset the environment first")
        return self._groups


def _by_networks(actions: ActionArray, racks: RackBatch) -> ActionArray:
    """Reshape actions of slots [copies, hosts_per_slot] to those of networks [networks * copies, n]."""
    return actions.reshape(len(actions), -1, racks.n_agents).swapaxes(0, 1).reshape(-1, racks.n_agents)


def require_batching(datapath: DatapathFactory) -> None:
    """Raise `ConfigError` unless the datapath steps many networks in one call."""
    offered: object = datapath
    if not isinstance(offered, Batching):
        name = getattr(datapath, "name", None) or getattr(datapath, "__name__", "this one")
        raise ConfigError(
            f"families need a datapath that steps many networks in one call, which {name} does not: train on "
            "packetsim, or leave families out"
        )
