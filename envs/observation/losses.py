# SPDX-License-Identifier: BSD-3-Clause
"""Messages among hosts that get lost, and neighbours that are silent or lie."""

import numpy as np

from ncc.core.flows import BoolArray
from ncc.core.scenario import Scenario
from ncc.envs.scales import scales_of


def reliable(scenario: Scenario) -> bool:
    """Return True if every message arrives and is true."""
    return not (scenario.sharing_loss_frac or scenario.sharing_silent or scenario.sharing_lying)


class Losses:
    """Random draws that decide which messages arrive.

    In every period each neighbour, and the uplink, sends its state to each host in a separate message. A message is
    lost with probability `Scenario.sharing_loss_frac`; the receiver then keeps using the one before. Hosts of
    `sharing_silent` send nothing, so others see them as they were at the start: idle. Hosts of `sharing_lying` always
    report that they are idle.
    """

    def __init__(self, scenario: Scenario, lead: tuple[int, ...], seed: int) -> None:
        scales = scales_of(scenario)
        silent = np.isin(np.array(scales.names), list(scenario.sharing_silent))
        uplink = np.ones((scales.n_agents, 1), dtype=np.bool_)
        self._sends = np.concatenate([~silent[scales.neighbours], uplink], axis=1)
        self._loss_frac = scenario.sharing_loss_frac
        self._rngs = [np.random.default_rng(seed) for _ in range(lead[0] if lead else 1)]

    def begin(self, row: int, seed: int) -> None:
        """Restart the random draws of rack `row` with a new seed."""
        self._rngs[row] = np.random.default_rng(seed)

    def arrivals(self) -> BoolArray:
        """Return True for messages that arrive in a period, [racks, n_agents, neighbours + 1]; the uplink is last."""
        if not self._loss_frac:
            return np.ascontiguousarray(np.broadcast_to(self._sends, (len(self._rngs), *self._sends.shape)))
        drawn = np.stack([rng.random(self._sends.shape) for rng in self._rngs])
        return np.ascontiguousarray(self._sends & (drawn >= self._loss_frac))
