# SPDX-License-Identifier: BSD-3-Clause
"""Specification of an environment: scenario, stack, observations, actions and rewards."""

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.core.value import Name, Natural, Value
from ncc.core.workload import Fixed, Permutation
from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec, fair_share_at
from ncc.envs.pairs import Pairs
from ncc.envs.residual import formula_columns
from ncc.envs.reward import AnyReward, Utility
from ncc.harness.datapath import HostStack
from ncc.harness.networks import DatapathFactory

__all__ = ["DatapathFactory", "EnvSpec", "EnvView"]


class EnvView(Value, frozen=True):
    """The reinforcement-learning view of any scenario: observations, actions and rewards."""

    observation: ObservationSpec = ObservationSpec()
    action: ActionSpec = ActionSpec()
    reward: AnyReward = Utility()
    pairs: Pairs | None = None
    """Copies of each rack with the same flows, with rewards that are differences between them; null: no copies."""

    def check(self) -> None:
        if self.pairs is not None and self.pairs.n_noise and self.action.n_actions:
            raise ConfigError(
                f"pairs add noise to numbers, got action.kind {self.action.kind!r}: set it to residual, linear or log, "
                "or set pairs.paid to mean, for learners that draw actions themselves"
            )
        if self.action.kind in ("shares", "residual"):
            if self.action.kind == "shares":
                fair_share_at(self.observation)  # raises if observations have no share
            else:
                formula_columns(self.observation)  # raises if observations lack an input of the formula
            if self.observation.ceiling < 1:
                raise ConfigError(
                    f"observation.ceiling must be at least 1 with action.kind {self.action.kind!r}, which is of shares "
                    f"as they are observed, got {self.observation.ceiling}"
                )

    @property
    def n_noise(self) -> int:
        """Number of noise entries at the end of an observation: 0 or 1 (`ncc.envs.pairs`)."""
        return 0 if self.pairs is None else self.pairs.n_noise


class EnvSpec(Value, frozen=True):
    """A scenario, the transport below the limits, and the reinforcement-learning view.

    An episode takes the scenario's `duration_s` on newly drawn flows, and `drain_epochs` more for those that remain.
    It is *truncated* when that time is up, and *terminated* when a finite list of flows has been delivered earlier.
    Random arrivals never terminate an episode, even if no flow is left by chance: the process has no end.
    """

    scenario: Scenario
    stack: HostStack = HostStack()
    view: EnvView = EnvView()
    purpose: Name = "train"
    """Name of the stream of seeds, so that flows of training and evaluation never coincide."""
    drain_epochs: Natural = 0
    """Periods of an episode after the scenario's `duration_s`, in which no flows arrive."""

    def check(self) -> None:
        if self.scenario.neighbourhoods == "receivers":
            raise ConfigError(
                "Scenario.neighbourhoods is receivers, and hosts that learn limits need neighbours at an uplink: set "
                "it to uplink or both, or use another scenario"
            )

    def copies(self, n_racks: int) -> int:
        """Return the number of consecutive racks, of `n_racks`, that have the same flows; 1 without `pairs`.

        Raises:
            ConfigError: racks are not a multiple of the copies, or copies may end at different times.
        """
        pairs = self.view.pairs
        if pairs is None:
            return 1
        if n_racks % pairs.copies:
            raise ConfigError(
                f"pairs are groups of {pairs.copies} racks with the same flows, got {n_racks} racks: ask for a "
                f"multiple of {pairs.copies}, or set pairs.copies"
            )
        if self.finite:
            raise ConfigError(
                f"pairs need episodes of equal length, and scenario {self.scenario.name!r} ends with its last flow: "
                "choose one with random arrivals"
            )
        return pairs.copies

    def episode_seed(self, seed: int, rack: int, episode: int) -> int:
        """Return the seed of an episode's flows."""
        return derive_seed(seed, self.purpose, rack, episode)

    @property
    def finite(self) -> bool:
        """True if the workload is a finite list of flows, not a random process."""
        return all(isinstance(traffic, Fixed | Permutation) for _, traffic in self.scenario.workload)
