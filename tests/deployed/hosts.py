# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that speak, and one that listens, without sockets and at any time."""

from typing import Any

from ncc.core.units import NS_PER_S
from ncc.deployed.listening import DROPPED, RECEIVED, Listener
from ncc.deployed.message import Key, Kind
from ncc.deployed.peers import Peer, parse_agent, parse_one
from ncc.deployed.speaking import Speaker
from ncc.deployed.state import UPPER, StateArray, idle

KEY = Key(b"sixteen bytes or more")
ME = parse_agent("10.0.0.1")
NEAR = parse_agent("10.0.0.2*2")
ABOVE = parse_one("10.0.0.9", "upper")
WALL_NS = 1_790_000_000 * NS_PER_S
"""What all clocks of the day say, unless told otherwise."""
MS = 1_000_000


def wall_ns() -> int:
    return WALL_NS


def listener(**changes: Any) -> Listener:
    """Of two peers and an upper port; state may be 10 ms old."""
    given: dict[str, Any] = {"late_ns": 10 * MS, "wall_ns": wall_ns, "upper": ABOVE, **changes}
    return Listener(given.pop("key", KEY), ME, NEAR, **given)


def speaker(*own: Peer, key: Key = KEY, later_ns: int = 0, now_ns: int = 0) -> Speaker:
    """Of the peers, or of others; its session begins so much later than the clocks of others say."""
    return Speaker(key, own or NEAR, now_ns, wall_ns=lambda: WALL_NS + later_ns)


def states(n: int = 2, **values: float | list[float]) -> StateArray:
    """[n] idle hosts but for some values."""
    rows = idle(n)
    for name, value in values.items():
        rows[name] = value
    return rows


def told(by: Speaker, rows: StateArray, at_ns: int, now_ns: int | None = None) -> list[bytes]:
    """What they say of `rows`."""
    kind = Kind.UPPER if rows.dtype == UPPER else Kind.STATE
    return by.say(kind, [row.tobytes() for row in rows], at_ns, at_ns if now_ns is None else now_ns)


def hear(by: Listener, messages: list[bytes], now_ns: int) -> dict[str, int]:
    """Take them in; what became of them, by number."""
    before = dict(by.counters)
    for message in messages:
        by.take(memoryview(message), now_ns)
    assert set(by.counters) >= {RECEIVED, *DROPPED}
    return {name: count - before[name] for name, count in by.counters.items() if count != before[name]}
