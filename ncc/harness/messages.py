# SPDX-License-Identifier: BSD-3-Clause
"""Simulated faults of receivers' grants: a scenario may delay them, lose them, or let a receiver's agent die."""

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import Edges, Grants
from ncc.core.scenario import Scenario
from ncc.core.seeding import generator

PATIENCE_PERIODS = 2
"""Periods without a message of a receiver after which its senders no longer wait for it."""


def patience_s(scenario: Scenario) -> float:
    """Return the time in seconds for which a held flow waits for its first grant; longer if messages are late."""
    late_periods = scenario.sharing_delay_periods - 1 + scenario.sharing_unsynchronised
    return (PATIENCE_PERIODS + late_periods) * scenario.period_s


class Messages:
    """The grants that leave the receivers of a network.

    The agent of a host in `Scenario.sharing_silent` dies at `sharing_silent_from_s`. In every period, a living agent
    gives its own host a sign of life, which takes no message on the network. After two periods without it, the host
    itself sends each of its senders a grant to start at once, without limits. It repeats these grants every two
    periods, because they can be lost too.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        nodes, period_s = scenario.network().nodes, scenario.period_s
        self._rng = generator(seed, "messages")
        self._loss_frac = scenario.sharing_loss_frac
        self._late_s = np.full(len(nodes), (scenario.sharing_delay_periods - 1) * period_s)
        if scenario.sharing_unsynchronised:
            self._late_s += self._rng.random(len(nodes)) * period_s
        self._dies = np.isin([node.name for node in nodes], scenario.sharing_silent)
        self._any_dies = bool(self._dies.any())
        self._from_s, self._missed = scenario.sharing_silent_from_s, 0

    def sent(self, grants: Grants, now: Measurement) -> tuple[Grants, FloatArray]:
        """Return the grants [G] that leave and are not lost, and the delay [G] in seconds from decision to departure.

        Args:
            grants: grants that the receivers have decided.
            now: measurement that they decided on.
        """
        if self._any_dies and now.time_s > self._from_s - 1e-12:
            grants = grants.where(~self._dies[grants.dst])
            self._missed += 1
            if self._missed % PATIENCE_PERIODS == 0:
                grants = _joined(grants, _release_all(now.edges, now.time_s).where(self._dies[now.edges.dst]))
        if self._loss_frac:
            grants = grants.where(self._rng.random(len(grants)) >= self._loss_frac)
        return grants, self._late_s[grants.dst]


def _release_all(edges: Edges, now_s: float) -> Grants:
    n = len(edges)
    return Grants(edges.src, edges.dst, np.full(n, now_s), np.full(n, np.inf), np.zeros(n, np.int64))


def _joined(one: Grants, other: Grants) -> Grants:
    columns = ("src", "dst", "start_s", "rate_bps", "window_pkts")
    return Grants(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in columns))
