# SPDX-License-Identifier: BSD-3-Clause
"""Messages among hosts that get lost, or that silent neighbours do not send."""

import numpy as np

from ncc.core.flows import BoolArray
from ncc.core.scenario import Scenario
from ncc.envs.scales import scales_of


def reliable(scenario: Scenario) -> bool:
    """Return True if everything that is sent arrives and is true."""
    return not (scenario.sharing_loss_frac or scenario.sharing_silent or scenario.sharing_lying)


class Losses:
    """Draws of the messages that arrive.

    Every period each neighbour, and the uplink, sends its state to each host by a message of its own. It is lost with
    probability `Scenario.sharing_loss_frac`; what was heard last then stays. Nothing comes from the hosts of
    `sharing_silent`, so that they stay as they were at the start: idle. Those of `sharing_lying` say they are idle.
    """

    def __init__(self, scenario: Scenario, lead: tuple[int, ...], seed: int) -> None:
        scales = scales_of(scenario)
        silent = np.isin(np.array(scales.names), list(scenario.sharing_silent))
        uplink = np.ones((scales.n_agents, 1), dtype=np.bool_)
        self._speaks = np.concatenate([~silent[scales.neighbours], uplink], axis=1)
        self._loss_frac = scenario.sharing_loss_frac
        self._rngs = [np.random.default_rng(seed) for _ in range(lead[0] if lead else 1)]

    def begin(self, row: int, seed: int) -> None:
        """Begin one of several racks anew."""
        self._rngs[row] = np.random.default_rng(seed)

    def came(self) -> BoolArray:
        """Return who is heard in a period, [racks, n_agents, neighbours + 1]; the last is the uplink."""
        if not self._loss_frac:
            return np.ascontiguousarray(np.broadcast_to(self._speaks, (len(self._rngs), *self._speaks.shape)))
        drawn = np.stack([rng.random(self._speaks.shape) for rng in self._rngs])
        return np.ascontiguousarray(self._speaks & (drawn >= self._loss_frac))
