# SPDX-License-Identifier: BSD-3-Clause
"""One period of a host's agent: from measurements to limits, and to the state sent to its neighbours."""

import numpy as np

from ncc.core.errors import NccError
from ncc.core.flows import FloatArray
from ncc.core.units import to_ns
from ncc.host.guard import Guard
from ncc.host.neighbourhood import TOLD, Columns, Neighbourhood
from ncc.host.state import STATE, Exchange, StateArray, idle

STALE_PERIODS = 20
"""Periods for which a peer's state counts; then the peer is taken to be idle."""


class Agent:
    """The agent of the local hosts of one neighbourhood: fig. 5.2 of wang2021; `envs/linux/live.py` puts it into force.

    Args:
        neighbourhood: of the hosts.
        guard: of what is decided.
        exchange: with the peers.
        stale_periods: periods for which a peer's state counts; then the peer is taken to be idle.
        in_force: false if the guard's limits are not put into force; hosts are then seen and sent as without limit.

    Attributes:
        guard: whose limits are in force.
        exchange: with the peers.
        counters: of messages too old to be used: `stale_peers`, a peer and period each; `stale_upper`.
    """

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        guard: Guard,
        exchange: Exchange,
        *,
        stale_periods: float = STALE_PERIODS,
        in_force: bool = True,
    ) -> None:
        self.neighbourhood, self.guard, self.exchange = neighbourhood, guard, exchange
        self.counters = {"stale_peers": 0, "stale_upper": 0}
        self.stale: np.ndarray = np.ones(exchange.n_peers, np.bool_)
        """[r] True for peers that count as idle because they were not heard for too long."""
        self._in_force = in_force
        self._none: FloatArray = np.full(len(neighbourhood.link_bps), np.inf)
        self._idle = idle(exchange.n_peers)
        self._stale_ns = to_ns(stale_periods * neighbourhood.scenario.period_s)
        self._state: StateArray = np.zeros(len(neighbourhood.link_bps), STATE)

    def decide(self, own: Columns, now_ns: int) -> FloatArray:
        """Decide the limits to be in force from now on, [k] in bits/s; inf: none.

        Args:
            own: measurements of the local hosts in the period that ended at `now_ns`.
        """
        exchange, guard = self.exchange, self.guard
        exchange.receive(now_ns)
        in_force = guard.held_bps if self._in_force else self._none
        for name in TOLD:
            self._state[name] = in_force if name == "rate_limit_bps" else own[name]
        heard = exchange.heard
        if exchange.n_peers:
            self.stale = (exchange.heard_ns == 0) | (now_ns - exchange.heard_ns > self._stale_ns)
            if n_stale := int(np.count_nonzero(self.stale)):
                self.counters["stale_peers"] += n_stale
                heard = np.where(self.stale, self._idle, heard)
        told = exchange.upper_ns > 0 and now_ns - exchange.upper_ns <= self._stale_ns
        self.counters["stale_upper"] += not told
        decided, why = None, ""
        try:
            decided = self.neighbourhood.decide(own, in_force, heard, exchange.upper if told else None)
        except NccError as error:
            why = str(error)
        return guard.hold(decided, now_ns, why)

    def share(self, now_ns: int) -> None:
        """Send the peers the state that `decide` was given last."""
        self.exchange.send(self._state, now_ns)

    def close(self) -> None:
        """Close the exchange; may be called twice."""
        self.exchange.close()
