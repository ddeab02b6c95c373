# SPDX-License-Identifier: BSD-3-Clause
"""Advice for an agent that hears none of its peers: most often it is the first try, and an option is wrong."""

from ncc.core.units import NS_PER_S
from ncc.host.agent import Agent

AFTER_NS = 5 * NS_PER_S
"""Silence after which advice is given; agents that are started together have all begun by then."""
_WHY = {
    "forged": "they are signed by another key, or changed on their way: compare the files of --key",
    "clock": "the clocks of the machines differ by more than a minute: have NTP set them",
    "unknown_sender": "they come from an address and port that --peers does not have",
    "version": "their agents are of another version of ncc",
    "late": "they are too long on their way, or their machines stand still",
    "replayed": "they are older than what was heard before",
    "values": "they tell what cannot be",
}
"""Reasons of `ncc.host.listener.DROPPED`, the first that explains a silence, with advice."""


class Silence:
    """Notices that no peer at all is heard, and says so once, and again only after a peer was heard."""

    def __init__(self, agent: Agent, now_ns: int) -> None:
        self._agent, self._since_ns, self._said = agent, now_ns, False
        self._counted = dict(agent.exchange.counters)

    def notice(self, now_ns: int) -> str | None:
        """Look once a period; a sentence if there is something new to say."""
        agent = self._agent
        if not agent.exchange.n_peers or not agent.stale.all():
            self._since_ns, self._said = now_ns, False
            return None
        if self._said or now_ns - self._since_ns < AFTER_NS:
            return None
        self._said = True
        counters, before = agent.exchange.counters, self._counted
        dropped = {why: counters.get(why, 0) - before.get(why, 0) for why in _WHY}
        self._counted = dict(counters)
        n, found = agent.exchange.n_peers, next((why for why, count in dropped.items() if count), None)
        none = f"none of {n} peers has been heard for {AFTER_NS // NS_PER_S} s, and all count as idle"
        if found is None:
            return f"{none}: nothing comes; see whether their agents run and a firewall lets UDP through"
        return f"{none}: {dropped[found]} messages were dropped ({found}), for {_WHY[found]}"
