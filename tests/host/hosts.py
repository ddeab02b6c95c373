# SPDX-License-Identifier: BSD-3-Clause
"""Senders of messages, and a listener, without sockets and at any time."""

from typing import Any

import numpy as np

from ncc.core.units import NS_PER_S
from ncc.host.keys import FIRST_LINE, Key, Keys
from ncc.host.listener import DROPPED, RECEIVED, Listener
from ncc.host.message import FLOWS, GRANT, UPLINK, Kind, Sender, StateArray, idle
from ncc.host.peers import Peer, parse_agent, parse_one

SECRET = b"sixteen bytes or more"
KEY = Key(SECRET)
KEYS = Keys.shared(KEY)
FOR_ALL = f"{FIRST_LINE}\n1 * * {SECRET.hex()}\n"
"""Text of a key file."""
ME = parse_agent("10.0.0.1")
NEAR = parse_agent("10.0.0.2*2")
ROUTER = parse_one("10.0.0.9", "uplink")
WALL_NS = 1_790_000_000 * NS_PER_S
"""Time of all clocks, unless a test says otherwise."""
MS = 1_000_000


def wall_ns() -> int:
    return WALL_NS


def listener(**changes: Any) -> Listener:
    """A listener to two peers and an uplink; states may be 10 ms old."""
    given: dict[str, Any] = {"late_ns": 10 * MS, "wall_ns": wall_ns, "uplink": ROUTER, **changes}
    return Listener(given.pop("keys", KEYS), ME, NEAR, **given)


def sender_of(*own: Peer, keys: Keys = KEYS, later_ns: int = 0, now_ns: int = 0) -> Sender:
    """A sender for the peers, or for others; its clock is `later_ns` ahead of the others."""
    return Sender(keys, own or NEAR, now_ns, wall_ns=lambda: WALL_NS + later_ns)


def states(n: int = 2, **values: float | list[float]) -> StateArray:
    """[n] idle hosts except for some values."""
    rows = idle(n)
    for name, value in values.items():
        rows[name] = value
    return rows


def flows_to(to: Peer, **values: float) -> bytes:
    """A row of `FLOWS` to a host, zeros except for some values."""
    return _row_to(FLOWS, to, values)


def grant_to(to: Peer, **values: float) -> bytes:
    """A row of `GRANT` to a host, zeros without a limit except for some values."""
    return _row_to(GRANT, to, {"rate_bps": float("inf"), **values})


def _row_to(kind: np.dtype[np.void], to: Peer, values: dict[str, float]) -> bytes:
    row = np.zeros(1, kind)
    row["receiver"] = to.id
    for name, value in values.items():
        row[name] = value
    return row.tobytes()


def sent(by: Sender, rows: StateArray, at_ns: int, now_ns: int | None = None) -> list[bytes]:
    """Messages with `rows`."""
    kind = Kind.UPLINK if rows.dtype == UPLINK else Kind.STATE
    (messages,) = by.messages(kind, [row.tobytes() for row in rows], at_ns, at_ns if now_ns is None else now_ns)
    return messages


def take(by: Listener, messages: list[bytes], now_ns: int) -> dict[str, int]:
    """Receive messages; return the number of each fate."""
    before = dict(by.counters)
    for message in messages:
        by.take(memoryview(message), now_ns)
    assert set(by.counters) >= {RECEIVED, *DROPPED}
    return {name: count - before[name] for name, count in by.counters.items() if count != before[name]}
