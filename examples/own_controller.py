# SPDX-License-Identifier: BSD-3-Clause
"""A controller of one's own: hosts that have something to send share the uplink equally.

ncc evaluate controller=dctcp,own_controller:EqualShare scenario=rack   (in the folder of this file)
"""

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario


class EqualShare:
    """An equal part of the uplink for each host that has data waiting; no limit for the others."""

    stack = "dctcp"  # the transport below the limits

    def __init__(self, share_frac: float = 0.97) -> None:
        self.share_frac = share_frac

    def reset(self, scenario: Scenario, seed: int) -> None:
        """Prepare for a run; ncc calls this before each."""
        network = scenario.network()
        self.areas = np.array(network.agent_area)  # the neighbourhood of each host
        self.uplink_bps = np.array([network.uplink_capacity_bps(rack) for rack in network.neighbourhoods])

    def decide(self, measurement: Measurement) -> FloatArray:
        """Return a limit in bits/s for each host; ncc calls this once per period."""
        busy = measurement.queued_bytes > 0
        n_busy = np.bincount(self.areas, weights=busy, minlength=len(self.uplink_bps))
        share_bps = self.share_frac * self.uplink_bps / np.maximum(n_busy, 1)
        return np.where(busy, share_bps[self.areas], np.inf)
