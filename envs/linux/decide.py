# SPDX-License-Identifier: BSD-3-Clause
"""A trained policy where each decision is paid for in real time: observation, network and limits in one call.

What a policy decides is said by `SharedObserver`, `MlpPolicy` and `RateTable`, in numpy: some fifty calls, which take
microseconds each on a core that has slept. decide.cc takes their tables and does the same, so that limits are equal but
where two actions are as likely to within rounding; a test holds it to that.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.envs.action import RateTable
from ncc.envs.linux.extension import Decider, extension
from ncc.envs.observation import SharedObserver
from ncc.harness.limiter import PolicyLimiter, RateLimiter


@runtime_checkable
class TanhLayers(Protocol):
    """A policy that vouches for what it is: `ncc.agents.MlpPolicy`, which this folder must not import."""

    obs_dim: int
    n_actions: int

    def tanh_layers(self) -> Sequence[tuple[Any, Any]] | None:
        """Weights [outputs, inputs] and bias [outputs] of each layer, if they with tanh between are all of it."""
        ...


@runtime_checkable
class Around(Protocol):
    """A limiter that makes something of another's limits: `ncc.deployed.HeldLimiter`, which is above this folder."""

    def around(self, other: Callable[[RateLimiter], RateLimiter]) -> RateLimiter:
        """The same around what `other` makes of the limiter within."""
        ...


def hastened(limiter: RateLimiter) -> RateLimiter:
    """What decides as `limiter` does, and faster where it is a policy that decide.cc can be.

    Types must be exact: a subclass may mean something else.
    """
    if isinstance(limiter, Around):
        return limiter.around(hastened)
    if type(limiter) is not PolicyLimiter or not limiter.greedy:
        return limiter
    policy, observer, actions = limiter.policy, limiter.observer, limiter.actions
    if not isinstance(policy, TanhLayers) or policy.tanh_layers() is None:
        return limiter
    if type(observer) is not SharedObserver or type(actions) is not RateTable:
        return limiter
    return HastenedPolicy(limiter, policy, observer, actions)


class HastenedPolicy:
    """A `RateLimiter`: another one's policy, by decide.cc wherever that has an equal of its observations."""

    def __init__(
        self, limiter: PolicyLimiter, policy: TanhLayers, observer: SharedObserver, actions: RateTable
    ) -> None:
        self._limiter, self._policy, self._observer, self._actions = limiter, policy, observer, actions
        self.decider: Decider | None = None
        """Since `reset`; None: the other decides itself."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What has decided since `reset`; see `ncc.harness.run.ReportsFacts`."""
        return {"decides": "numpy" if self.decider is None else "compiled"}

    def reset(self, scenario: Scenario, seed: int) -> None:
        """Called before each run.

        Raises:
            ConfigError: the policy does not fit what is observed, or the table of actions.
        """
        self._limiter.reset(scenario, seed)
        self.decider, self._n_agents = None, scenario.n_agents
        policy, n_actions = self._policy, self._actions.spec.n_actions
        if policy.obs_dim != self._observer.obs_dim:
            raise ConfigError(
                f"this policy reads observations of shape [..., {policy.obs_dim}], got "
                f"{[scenario.n_agents, self._observer.obs_dim]}; observe as in the run that trained it"
            )
        if policy.n_actions != n_actions:
            raise ConfigError(
                f"this policy chooses among {policy.n_actions} actions and the table has {n_actions}; take the actions "
                "of the run that trained it"
            )
        layers, tables = policy.tanh_layers(), self._observer.tables()
        if layers is not None and tables is not None:
            self.decider = extension().Decider(layers=list(layers), **tables, **self._actions.tables())

    def among(self, begin: int, end: int) -> None:
        """From now on decide for hosts `begin` to `end` - 1 only, whatever is said of others; for none: take in.

        Nothing happens where the other limiter decides, which does for all.
        """
        if self.decider is not None:
            self.decider.among(begin, end)

    def decide(self, measurement: Measurement) -> FloatArray:
        """Limits in bits/s, shape [n_agents]; inf means no limit.

        Raises:
            DatapathError: a measured number is not finite.
        """
        if self.decider is None:
            return self._limiter.decide(measurement)
        m, limits = measurement, np.empty(self._n_agents)
        if self.decider.decide(
            m.rate_limit_bps,
            m.goodput_bps,
            m.throughput_bps,
            m.rtt_s,
            m.wait_s,
            m.queued_bytes,
            m.next_bytes,
            m.queued_flows,
            m.upper_throughput_bps,
            m.upper_queue_bytes,
            limits,
        ):
            return limits
        self._limiter.decide(measurement)  # which says what is wrong with it
        raise ConfigError("the policy's weights make numbers that are not finite; the training that made it diverged")
