# SPDX-License-Identifier: BSD-3-Clause
"""Rate limiters, which decide hosts' rate limits once a period. A trained policy is one too (`ncc.policies.limits`)."""

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
        """Return limits in bits/s, shape [n_agents]; inf means no limit. A `Decision` also has receivers' grants."""
        ...


class Unlimited:
    """No limit: the transport alone decides, as for every classical controller."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._limits = np.full(scenario.n_agents, np.inf)

    def decide(self, measurement: Measurement) -> FloatArray:
        return self._limits


class FixedShare:
    """A limiter that divides the uplink's rate equally among all hosts that share it, idle ones included.

    It wastes the shares of idle hosts and serves as the lower end of comparisons: by flow-level bounds, it is 5 to 7
    times worse than fair sharing.
    """

    def reset(self, scenario: Scenario, seed: int) -> None:
        network = scenario.network()
        share = [network.uplink_capacity_bps(area) / len(area.hosts) for area in network.neighbourhoods]
        self._limits = np.array([share[area] for area in network.agent_area])

    def decide(self, measurement: Measurement) -> FloatArray:
        return self._limits
