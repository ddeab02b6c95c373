# SPDX-License-Identifier: BSD-3-Clause
"""An agent that receives nothing says so once, and what is most likely the matter."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ncc.core.units import NS_PER_S
from ncc.host.agent import Silence
from ncc.host.message import Key
from tests.host.hosts import NEAR, listener, sender_of, sent, states, take


class FakeAgent:
    """The attributes of an agent that `Silence` reads, with a listener that gets messages."""

    def __init__(self, by: Any = None) -> None:
        self.listener = by or listener()
        self.stale = np.ones(2, np.bool_)
        self.exchange = SimpleNamespace(n_peers=2, counters=self.listener.counters)


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ({"key": Key(b"another sixteen bytes")}, r"4 messages were dropped \(forged\), .* --key"),
        ({"later_ns": -61 * NS_PER_S}, r"\(clock\), .* NTP"),
        ({}, "nothing comes; .* UDP"),
    ],
    ids=["another key", "another time", "nothing comes"],
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
