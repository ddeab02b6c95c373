# SPDX-License-Identifier: BSD-3-Clause
"""Rate limiters, which decide the rate limits of a period. A trained policy is one of them (`ncc.policies.limits`)."""

from typing import Protocol

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision
from ncc.core.scenario import Scenario


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
