# SPDX-License-Identifier: BSD-3-Clause
"""One period of a host's agent: from measurements to limits, and to the state sent to its neighbours.

And advice to whoever started an agent that receives nothing: most often it is the first try, and an option is wrong.
"""

import numpy as np

from ncc.core.errors import NccError
from ncc.core.flows import FloatArray
from ncc.core.units import NS_PER_S, to_ns
from ncc.host.exchange import Exchange
from ncc.host.guard import Guard
from ncc.host.message import STATE, StateArray, idle
from ncc.host.neighbourhood import SHARED, Columns, Neighbourhood

STALE_PERIODS = 20
"""Periods after which a state counts as stale."""
HELD_NS = 5 * NS_PER_S
"""Time for which a silent peer counts as it was last, so that silencing it wins nobody its share at once.

Then it counts as idle: hosts that are switched off keep no share.
"""
SILENT_NS = 5 * NS_PER_S
"""Silence of all peers after which advice is given; agents that are started together have all begun by then."""
ADVICE = {
    "forged": "they are signed by another key, or changed on their way: compare the files of --key",
    "unknown_key": "they are signed by a key that --key does not have for their sender: compare the files",
    "clock": "the clocks of the machines differ by more than a minute: have NTP set them",
    "unknown_sender": "they name a host that --peers does not have",
    "kernel_drops": "they come from an address and port that --peers does not have, or from another version of ncc: "
    "name their senders, and run one version everywhere",
    "late": "they are too long on their way, or their machines stand still",
    "replayed": "they are older than those received before",
    "values": "they hold values that no host can have",
}
"""Reasons of `ncc.host.listener.DROPPED`, the first that explains a silence, with advice."""


class Agent:
    """The agent of the local hosts of one neighbourhood: fig. 5.2 of wang2021; `envs/linux/live.py` puts it into force.

    Args:
        neighbourhood: of the hosts.
        guard: of what is decided.
        exchange: with the peers.
        stale_periods: periods after which a state counts as stale: that of the uplink is then not used, and that of a
            peer for `HELD_NS` at most.
        in_force: false if the guard's limits are not put into force; hosts are then seen and sent as without limit.

    Attributes:
        guard: whose limits are in force.
        exchange: with the peers.
        counters: of messages too old to be used: `stale_peers`, a peer and period each; `stale_uplink`.
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
        self.counters = {"stale_peers": 0, "stale_uplink": 0}
        self.stale: np.ndarray = np.ones(exchange.n_peers, np.bool_)
        """[r] True for peers of which nothing was received for too long."""
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
        if not exchange.alone:
            for name in SHARED:
                self._state[name] = in_force if name == "rate_limit_bps" else own[name]
        inbox = exchange.inbox
        peers = inbox.states
        if exchange.n_peers:
            self.stale = (inbox.states_ns == 0) | (now_ns - inbox.states_ns > self._stale_ns)
            if n_stale := int(np.count_nonzero(self.stale)):
                self.counters["stale_peers"] += n_stale
                gone = (inbox.states_ns == 0) | (now_ns - inbox.states_ns > max(HELD_NS, self._stale_ns))
                peers = np.where(gone, self._idle, peers)
        uplink_ns = inbox.uplink_ns.item()
        uplink = inbox.uplink if uplink_ns and now_ns - uplink_ns <= self._stale_ns else None
        self.counters["stale_uplink"] += uplink is None
        decided, why = None, ""
        try:
            decided = self.neighbourhood.decide(own, in_force, peers, uplink)
        except NccError as error:
            why = str(error)
        return guard.hold(decided, now_ns, why)

    def share(self, now_ns: int) -> None:
        """Send the peers the state that `decide` was given last."""
        self.exchange.send(self._state, now_ns)

    def close(self) -> None:
        """Close the exchange; may be called twice."""
        self.exchange.close()


class Silence:
    """Notices that no state of any peer comes, and says so once, and again only after one has come."""

    def __init__(self, agent: Agent, now_ns: int) -> None:
        self._agent, self._since_ns, self._said = agent, now_ns, False
        self._counted = dict(agent.exchange.counters)

    def notice(self, now_ns: int) -> str | None:
        """Look once a period; a sentence if there is something new to say."""
        agent, counters, n = self._agent, self._agent.exchange.counters, self._agent.exchange.n_peers
        if not n or not agent.stale.all():
            self._since_ns, self._said = now_ns, False
            return None
        if self._said or now_ns - self._since_ns < SILENT_NS:
            return None
        self._said = True
        dropped = {why: counters.get(why, 0) - self._counted.get(why, 0) for why in ADVICE}
        self._counted = dict(counters)
        none = f"no state of any of {n} peers has come for {SILENT_NS // NS_PER_S} s, and all count as idle"
        for why, count in dropped.items():
            if count:
                return f"{none}: {count} messages were dropped ({why}), for {ADVICE[why]}"
        return f"{none}: nothing comes; see whether their agents run and a firewall lets UDP through"
