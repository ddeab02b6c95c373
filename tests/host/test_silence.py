# SPDX-License-Identifier: BSD-3-Clause
"""An agent that receives nothing says so once, with the likely cause; silent peers age to idle."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ncc.core.units import NS_PER_S
from ncc.host.agent import Agent, Silence
from ncc.host.exchange import Exchange
from ncc.host.guard import Guard, GuardSettings
from ncc.host.keys import Key, Keys
from ncc.host.neighbourhood import SHARED
from ncc.policies import RateBounds
from tests.host.hosts import NEAR, SECRET, listener, sender_of, sent, states, take


class FakeAgent:
    """The attributes of an agent that `Silence` reads, with a listener that gets messages."""

    def __init__(self, by: Any = None) -> None:
        self.listener = by or listener()
        self.stale = np.ones(2, np.bool_)
        self.exchange = SimpleNamespace(n_peers=2, counters=self.listener.counters)


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ({"keys": Keys.shared(Key(b"another sixteen bytes"))}, r"4 messages were dropped \(forged\), .* --key"),
        ({"later_ns": -61 * NS_PER_S}, r"\(clock\), .* NTP"),
        ({"keys": Keys.shared(Key(SECRET, 2))}, r"\(unknown_key\), .* compare the files"),
        ({}, "nothing comes; .* UDP"),
    ],
    ids=["another key", "another id", "another time", "nothing comes"],
)
def test_an_agent_that_receives_nothing_says_once_what_to_look_at(by: dict[str, Any], says: str) -> None:
    agent: Any = FakeAgent()
    silence = Silence(agent, 0)
    if by:
        by_other = sender_of(*NEAR, **by)
        for i in (1, 2):
            take(agent.listener, sent(by_other, states(), i), i)
    assert silence.notice(5 * NS_PER_S - 1) is None
    said = silence.notice(5 * NS_PER_S)
    assert said is not None
    assert said.startswith("no state of any of 2 peers has come for 5 s")
    assert re.search(says, said)
    assert silence.notice(9 * NS_PER_S) is None
    agent.stale[0] = False
    assert silence.notice(10 * NS_PER_S) is None
    agent.stale[0] = True
    assert silence.notice(14 * NS_PER_S) is None
    assert "nothing comes" in (silence.notice(15 * NS_PER_S) or "")


def test_the_version_and_the_address_of_what_the_kernel_drops_are_advised() -> None:
    agent: Any = FakeAgent()
    silence = Silence(agent, 0)
    agent.exchange.counters["kernel_drops"] = 7
    said = silence.notice(5 * NS_PER_S)
    assert "7 messages were dropped (kernel_drops), for they come from an address and port that --peers" in (said or "")


class Sees:
    """A neighbourhood that keeps the states of its peers, and limits nothing."""

    def __init__(self) -> None:
        self.scenario, self.link_bps = SimpleNamespace(period_s=1e-3), np.full(1, 1e9)
        self.queued: list[float] = []
        self.ages: list[int] = []

    def decide(self, own: Any, in_force: Any, peers: Any, uplink: Any, *, ages: Any, **_: Any) -> Any:
        self.queued, self.ages = peers["queued_bytes"].tolist(), ages.tolist()
        return np.full(1, np.inf)


def test_who_silences_a_peer_does_not_win_its_share_at_once() -> None:
    """A busy peer that falls silent counts as busy for 5 s, then as idle; a peer without messages is idle."""
    sees: Any = Sees()
    exchange = Exchange()
    exchange.inbox = inbox = listener()
    bounds = RateBounds(min_rate_frac=0.01, max_rate_frac=1)
    agent = Agent(sees, Guard(GuardSettings(), bounds, sees.link_bps, sees.link_bps, print), exchange)
    own: Any = dict.fromkeys(SHARED, np.zeros(1))
    now_ns = NS_PER_S
    take(inbox, sent(sender_of(), states(queued_bytes=1e6), now_ns)[:1], now_ns)
    for later_s, counts, stale in ((0.0, 1e6, 0), (0.1, 1e6, 1), (4.9, 1e6, 1), (5.1, 0, 1)):
        agent.decide(own, now_ns + round(later_s * NS_PER_S))
        assert sees.queued == [counts, 0]
        assert sees.ages == [round(later_s * 1000)] * 2, "in periods; of the one never heard, since the first decision"
        assert agent.stale.tolist() == [bool(stale), True]
