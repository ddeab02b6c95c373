# SPDX-License-Identifier: BSD-3-Clause
"""Who decides the rate limits of an epoch. To the harness a trained policy is one more `RateLimiter`."""

from typing import Protocol

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.harness.batch import ActionArray, ObsArray


class RateLimiter(Protocol):
    """One decision for all hosts per epoch."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        """Called before each run."""
        ...

    def decide(self, measurement: Measurement) -> FloatArray:
        """Limits in bits/s, shape [n_agents]; inf means no limit."""
        ...


class Unlimited:
    """No limit: the transport alone decides. What every classical controller uses."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._limits = np.full(scenario.n_agents, np.inf)

    def decide(self, measurement: Measurement) -> FloatArray:
        return self._limits


class FixedShare:
    """The upper port's rate divided by the number of neighbours, whoever has something to send.

    A floor, not a proposal: it wastes the share of idle hosts (flow-level bounds put it 5-7x behind fair sharing).
    """

    def reset(self, scenario: Scenario, seed: int) -> None:
        network = scenario.network()
        share = [network.upper_capacity_bps(area) / len(area.hosts) for area in network.neighbourhoods]
        self._limits = np.array([share[area] for area in network.agent_area])

    def decide(self, measurement: Measurement) -> FloatArray:
        return self._limits


class Observer(Protocol):
    """Turns measurements into what each host may know (envs/observation)."""

    def reset(self, scenario: Scenario, *, seed: int) -> None:
        """Forget the past; `seed` decides what is drawn: which shared messages get lost."""
        ...

    def observe(self, measurement: Measurement) -> ObsArray:
        """[n_agents, obs_dim]."""
        ...


class Policy(Protocol):
    """A trained policy without its training framework."""

    def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
        """Action indices [n_agents] for observations [n_agents, obs_dim]; greedy when `rng` is None."""
        ...


class ActionMap(Protocol):
    """Turns action indices into rate limits (envs/action)."""

    def reset(self, scenario: Scenario) -> None: ...

    def rates_bps(self, actions: ActionArray, obs: ObsArray) -> FloatArray:
        """[n_agents] limits for [n_agents] indices, chosen on observations [n_agents, obs_dim]."""
        ...


class PolicyLimiter:
    """A policy, its observation and its action table: what NCC runs on hosts."""

    def __init__(self, policy: Policy, observer: Observer, actions: ActionMap, *, greedy: bool = True) -> None:
        self.policy, self.observer, self.actions, self.greedy = policy, observer, actions, greedy
        self._rng: np.random.Generator | None = None

    def reset(self, scenario: Scenario, seed: int) -> None:
        self.observer.reset(scenario, seed=derive_seed(seed, "sharing"))
        self.actions.reset(scenario)
        self._rng = None if self.greedy else np.random.default_rng(seed)

    def decide(self, measurement: Measurement) -> FloatArray:
        obs = self.observer.observe(measurement)
        return self.actions.rates_bps(self.policy.act(obs, self._rng), obs)
