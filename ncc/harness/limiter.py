# SPDX-License-Identifier: BSD-3-Clause
"""Rate limiters, which decide the rate limits of a period. A trained policy is one of them."""

from typing import Protocol

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.harness.batch import ActionArray, ObsArray


class RateLimiter(Protocol):
    """A decision maker that sets the limits of all hosts once per period."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        """Prepare for a run; called before each."""
        ...

    def decide(self, measurement: Measurement) -> FloatArray | Decision:
        """Limits in bits/s, shape [n_agents]; inf means no limit. A `Decision` also has grants of receivers."""
        ...


class Unlimited:
    """No limit: the transport alone decides, as for every classical controller."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._limits = np.full(scenario.n_agents, np.inf)

    def decide(self, measurement: Measurement) -> FloatArray:
        return self._limits


class FixedShare:
    """A limiter to the uplink's rate divided by the number of neighbours, idle ones included.

    It is a lower bound for comparison and wastes the share of idle hosts (flow-level bounds: 5-7 times worse than fair
    sharing).
    """

    def reset(self, scenario: Scenario, seed: int) -> None:
        network = scenario.network()
        share = [network.uplink_capacity_bps(area) / len(area.hosts) for area in network.neighbourhoods]
        self._limits = np.array([share[area] for area in network.agent_area])

    def decide(self, measurement: Measurement) -> FloatArray:
        return self._limits


class Observer(Protocol):
    """A converter of measurements to each host's observation (envs/observation)."""

    def reset(self, scenario: Scenario, *, seed: int) -> None:
        """Forget earlier measurements; `seed` is for random draws, such as which shared messages are lost."""
        ...

    def observe(self, measurement: Measurement) -> ObsArray:
        """Observations [n_agents, obs_dim] of a measurement."""
        ...


class Policy(Protocol):
    """A trained policy without its training framework."""

    def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
        """Action indices [n_agents] for observations [n_agents, obs_dim]; the most likely ones if `rng` is None."""
        ...


class ActionMap(Protocol):
    """A converter of action indices to rate limits (envs/action)."""

    def reset(self, scenario: Scenario) -> None: ...

    def rates_bps(self, actions: ActionArray, obs: ObsArray) -> FloatArray:
        """Limits [n_agents] for action indices [n_agents] chosen on observations [n_agents, obs_dim]."""
        ...


class PolicyLimiter:
    """A policy with its observation and action table, as NCC runs it on hosts."""

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
