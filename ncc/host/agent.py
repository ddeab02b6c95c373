# SPDX-License-Identifier: BSD-3-Clause
"""The agent of a host: in each period it turns measurements into limits, and sends its host's state to neighbours.

`Silence` gives advice if an agent receives nothing, because on a first try an option is often wrong.
"""

import time
from collections.abc import Callable

import numpy as np

from ncc.core.errors import NccError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.units import NS_PER_S, to_ns
from ncc.host.exchange import Exchange
from ncc.host.guard import Guard
from ncc.host.message import STATE, StateArray, TimeArray, idle
from ncc.host.neighbourhood import SHARED, Columns, Neighbourhood

STALE_PERIODS = 20
"""Periods after which a state is stale. A stale state of the uplink is not used; a peer's is used up to an age of
`HELD_NS`."""
HELD_NS = 5 * NS_PER_S
"""Time for which a silent peer keeps its last state, so that nobody gains its share at once by silencing it.

After this time it counts as idle, so that hosts that are switched off keep no share.
"""
SILENT_NS = 5 * NS_PER_S
"""Silence of all peers after which advice is given. Agents that are started together have all begun by then."""
ADVICE = {
    "forged": "they are signed by another key, or were changed in transit: compare the files of --key",
    "unknown_key": "they are signed by a key that --key does not have for their sender: compare the files",
    "clock": "the clocks of the machines differ by more than a minute: have NTP set them",
    "unknown_sender": "they name a host that --peers does not have",
    "kernel_drops": "they come from an address and port that --peers does not have, or from another version of ncc: "
    "name their senders, and run one version everywhere",
    "late": "they take too long, or their machines are paused",
    "replayed": "they are older than those received before",
    "values": "they hold values that no host can have",
}
"""Advice by reason of `ncc.host.listener.DROPPED`. The first reason that was counted explains a silence."""


class Agent:
    """The agent of the local hosts of one neighbourhood (wang2021, fig. 5.2); `envs/linux/live.py` enforces its limits.

    Args:
        neighbourhood: decider for these hosts.
        guard: guard of the decisions.
        exchange: exchange with the peers.
        in_force: false if nothing enforces the guard's limits. Hosts then count as unlimited, also for their peers.
        wall_ns: function that returns the machine's clock, ns since 1970. All hosts number periods by it, and equal
            hosts take turns by these numbers. Hosts whose clocks differ disagree on whose turn it is, for as long as
            the difference.

    Attributes:
        guard: guard with the limits in force.
        exchange: exchange with the peers.
        decided_bps: [k] limits of the last decision, before the guard; None: no decision was possible.
        why: reason for which the last decision was not possible.
        oldest: largest age of a peer's state at the last decision, in periods. A message that came since the decision
            before has age 0, although its state is a period old.
        uplink_stale: true if the uplink's state was too old at the last decision.
        counters: numbers of stale states: `stale_peers` (one per peer and period) and `stale_uplink` (one per period).
    """

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        guard: Guard,
        exchange: Exchange,
        *,
        in_force: bool = True,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.neighbourhood, self.guard, self.exchange = neighbourhood, guard, exchange
        self.counters = {"stale_peers": 0, "stale_uplink": 0}
        self.stale: np.ndarray = np.ones(exchange.n_peers, np.bool_)
        """[r] True for peers whose last state is stale."""
        self.decided_bps: FloatArray | None = None
        self.why, self.oldest, self.uplink_stale = "", 0, False
        self._in_force = in_force
        self._none: FloatArray = np.full(len(neighbourhood.link_bps), np.inf)
        self._idle = idle(exchange.n_peers)
        self._period_ns = to_ns(neighbourhood.scenario.period_s)
        self._stale_ns = to_ns(STALE_PERIODS * neighbourhood.scenario.period_s)
        self._began_ns, self._wall_ns = 0, wall_ns
        self._state: StateArray = np.zeros(len(neighbourhood.link_bps), STATE)

    def decide(self, own: Columns, now_ns: int) -> FloatArray:
        """Receive messages, decide, and return the limits to enforce from now on, [k] in bits/s; inf: none.

        Args:
            own: measurements of the local hosts in the period that has just ended.
            now_ns: monotonic time at which it ended.
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
        self._began_ns = self._began_ns or now_ns
        uplink_ns = max(inbox.uplink_ns.item(), self._began_ns)  # it counts as idle before its first message
        uplink = inbox.uplink if inbox.hears_uplink and now_ns - uplink_ns <= self._stale_ns else None
        self.uplink_stale = inbox.hears_uplink and uplink is None
        self.counters["stale_uplink"] += self.uplink_stale
        ages = self._ages(inbox.states_ns, now_ns)
        self.oldest = int(ages.max(initial=0))
        self.decided_bps, self.why = None, ""
        try:
            self.decided_bps = self.neighbourhood.decide(
                own,
                in_force,
                peers,
                uplink,
                ages=ages,
                uplink_age=0 if uplink is None else self._ages(inbox.uplink_ns, now_ns).item(),
                period=self._wall_ns() // self._period_ns,
            )
        except NccError as error:
            self.why = str(error)
        return guard.hold(self.decided_bps, now_ns, self.why)

    def _ages(self, came_ns: TimeArray, now_ns: int) -> IntArray:
        """Return for each sender the number of periods since its last message, or since the first decision without one.

        A message that came since the last decision has age 0, because every message is taken to be a period old.
        """
        since_ns = now_ns - np.maximum(came_ns, self._began_ns)
        ages: IntArray = np.maximum(since_ns + self._period_ns // 2, 0) // self._period_ns
        return ages

    def follow(self, before: "Agent") -> None:
        """Go on where another agent of the same hosts ends: with its limits in force and its counters."""
        self.guard.follow(before.guard)
        self.counters = before.counters
        if self.exchange is before.exchange:
            self.stale = before.stale
        else:
            self.exchange.counters.update(before.exchange.counters)

    def share(self, now_ns: int, *, at_once: bool = True) -> None:
        """Send the peers the local hosts' state as of the last `decide`.

        Args:
            now_ns: monotonic time of that decision.
            at_once: whether new flows to these hosts may begin without a grant. They may if these hosts send none.
        """
        self._state["at_once"] = at_once
        self.exchange.send(self._state, now_ns)

    def close(self) -> None:
        """Close the exchange; may be called twice."""
        self.exchange.close()


class Silence:
    """A watch for the case that no peer sends a state. It reports once, and again only after a state has arrived."""

    def __init__(self, agent: Agent, now_ns: int) -> None:
        self._agent, self._since_ns, self._said = agent, now_ns, False
        self._counted = dict(agent.exchange.counters)

    def notice(self, now_ns: int) -> str | None:
        """Check for silence, once a period; return a sentence with advice when it is noticed, else None."""
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
