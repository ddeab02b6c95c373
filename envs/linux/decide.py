# SPDX-License-Identifier: BSD-3-Clause
"""A trained policy where each decision is paid for in real time: observation, network and limits in one call.

What a policy decides is said by `SharedObserver`, `MlpPolicy` and `RateTable`, in numpy: some fifty calls, which take
microseconds each on a core that has slept. decide.cc takes their tables and does the same, so that limits are equal but
where two actions are as likely to within rounding; a test holds it to that.
"""

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.envs.action import RateTable
from ncc.envs.linux.extension import Decider, extension
from ncc.envs.observation import SharedObserver
from ncc.harness.limiter import PolicyLimiter, RateLimiter


def hastened(limiter: RateLimiter) -> RateLimiter:
    """What decides as `limiter` does, and faster where it is a policy that decide.cc can be."""
    if type(limiter) is not PolicyLimiter or not limiter.greedy or not hasattr(limiter.policy, "layers"):
        return limiter
    observer, actions = limiter.observer, limiter.actions
    if not isinstance(observer, SharedObserver) or not isinstance(actions, RateTable):
        return limiter
    return HastenedPolicy(limiter, observer, actions)


class HastenedPolicy:
    """A `RateLimiter`: another one's policy, by decide.cc wherever that has an equal of its observations."""

    def __init__(self, limiter: PolicyLimiter, observer: SharedObserver, actions: RateTable) -> None:
        self._limiter, self._observer, self._actions = limiter, observer, actions
        self.decider: Decider | None = None
        """Since `reset`; None: the other decides itself."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._limiter.reset(scenario, seed)
        self.decider = None
        if (tables := self._observer.tables()) is not None:
            layers = getattr(self._limiter.policy, "layers")  # noqa: B009 - `hastened` has looked
            self.decider = extension().Decider(layers=list(layers), **tables, **self._actions.tables())
        self._n_agents = scenario.n_agents

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
