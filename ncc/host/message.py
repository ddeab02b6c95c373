# SPDX-License-Identifier: BSD-3-Clause
"""Messages of hosts to their neighbours. All have the same size, a sequence number and a signature.

| bytes | what |
|---|---|
| 4 | `MAGIC` |
| 1, 1, 2 | `VERSION`; kind; number of the key (`ncc.host.keys`) |
| 8 | sender (`ncc.host.peers.Peer.id`) |
| 8 | session: the sender's clock at its start, ns since 1970 |
| 8 | sequence: number of the message in its session; each kind is counted by itself |
| 8 | sent: ns from the session's beginning to the sending, by the sender's monotonic clock |
| 8 | clock: the sender's clock at the sending, ns since 1970 |
| 8 | age: ns from the measurement of the values to the sending |
| 48 | values: a row of `STATE`, `UPLINK`, `FLOWS` or `GRANT`; then zeros |
| 16 | the first half of HMAC-SHA256 (RFC 2104, truncated as in its section 5) of all before |

Numbers are little-endian. Version 1 had zeros for the number of the key. The zeros are signed. Receivers do not look
at them. A `STATE` has none; earlier senders of version 2 had zeros for its `at_once`, so all flows to them wait.
"""

import struct
import time
from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ncc.core.signals import Scope, shared
from ncc.host.keys import ANY, MAC_BYTES, Key, Keys
from ncc.host.peers import Peer

MAGIC = b"nccx"
VERSION = 2
BEGIN = MAGIC + bytes([VERSION])
VALUES_BYTES = 48

HEAD = struct.Struct("<4sBBHQQQQQQ")
VALUES_AT = HEAD.size
MAC_AT = VALUES_AT + VALUES_BYTES
SIZE = MAC_AT + MAC_BYTES

StateArray = npt.NDArray[np.void]
"""Structured array with the columns of `STATE`, `UPLINK`, `FLOWS` or `GRANT`."""
TimeArray = npt.NDArray[np.int64]
"""Times in nanoseconds of the monotonic clock; 0: never."""


def _row(scope: Scope) -> np.dtype[np.void]:
    return np.dtype([(signal.name, "<u4" if signal.count else "<f8") for signal in shared(scope)])


STATE = np.dtype([*_row("host").descr, ("at_once", "<u4")])
"""The signals that a host sends of itself (`ncc.core.signals`), as measured: nothing is normalised.

`at_once` is 1 if new flows to the host may begin without its grant, else 0.
"""
UPLINK = _row("uplink")
"""The signals of the uplink that hosts are sent (`ncc.core.signals`)."""


FLOWS = np.dtype(
    [
        ("receiver", "<u8"),
        ("flows", "<u4"),
        ("begun", "<u4"),
        ("waiting_bytes", "<f8"),
        ("next_bytes", "<f8"),
        ("received_bytes", "<f8"),
    ]
)
"""Summary of a sender's flows to one receiver.

- `receiver`: id of the receiver (`ncc.host.peers.Peer.id`);
- `flows`: number of live flows; `begun`: number of all flows that have begun so far (modulo 2^32);
- `waiting_bytes`: payload of the live flows that is not acknowledged;
- `next_bytes`: the same of the flow with the least;
- `received_bytes`: payload of the live flows that is acknowledged.
"""
GRANT = np.dtype(
    [
        ("receiver", "<u8"),
        ("senders", "<u4"),
        ("begun", "<u4"),
        ("waiting_bytes", "<f8"),
        ("start_s", "<f8"),
        ("window_bytes", "<f8"),
        ("rate_bps", "<f8"),
    ]
)
"""Grant of a host that receives flows to one of their senders.

- `receiver`: id of the host that gets the message, which is the sender of the flows;
- `senders`: number of hosts with flows to the granting host;
- `waiting_bytes`: sum of the `waiting_bytes` that they have reported;
- `begun`: number of the last flow that the grant covers (`begun` of `FLOWS`);
- `start_s`: time from the sending of this message until these flows may begin; at once if negative;
- `window_bytes`: largest window of each flow; 0: TCP's own;
- `rate_bps`: limit of these flows together; inf: no limit.
"""


def idle(n: int) -> StateArray:
    """Return [n] rows of `STATE` for hosts without data or limit, all flows to which wait for a grant.

    Hosts that never sent a message count as such.
    """
    state = np.zeros(n, dtype=STATE)
    state["rate_limit_bps"] = np.inf
    return state


def _bits(scope: Scope) -> struct.Struct:
    """Return the layout of a scope's shared signals, with real numbers as unsigned integers and no rate limit."""
    codes = ("8x" if s.name == "rate_limit_bps" else "I" if s.count else "Q" for s in shared(scope))
    return struct.Struct("<" + "".join(codes))


_STATE_BITS, _UPLINK_BITS = _bits("host"), _bits("uplink")
assert STATE.fields is not None
_LIMIT, _LIMIT_AT = struct.Struct("<d"), VALUES_AT + STATE.fields["rate_limit_bps"][1]
_AT_ONCE, _AT_ONCE_AT = struct.Struct("<I"), VALUES_AT + STATE.fields["at_once"][1]

MOST = 2.0**60
"""Upper bound of all values except limits. No value on a real host exceeds it, and float32 can hold it."""
_MOST_BITS = int.from_bytes(struct.pack("<d", MOST), "little")
"""The bits of `MOST`, read as an unsigned integer. The bits of negative numbers, infinity and NaN are greater."""


FLOWS_MOST = 1 << 20
"""Most flows or senders that a message may report."""
START_MOST_S = 10.0
"""Largest difference in seconds between the sending of a grant and the start that it grants, before or after."""
_FLOWS_BITS = struct.Struct("<8xI4xQQQ")
_GRANT_BITS = struct.Struct("<8xI4xQ8xQ")
_START_RATE, _RECEIVER = struct.Struct("<24xd8xd"), struct.Struct("<Q")
assert GRANT.fields is not None
_WINDOW_AT = VALUES_AT + GRANT.fields["window_bytes"][1]


class Kind(IntEnum):
    """Kinds of messages."""

    STATE = 1
    """State of a host."""
    UPLINK = 2
    """State of the uplink."""
    FLOWS = 3
    """Flows of a sender to one receiver."""
    GRANT = 4
    """Grant of a receiver to one sender."""


TO_ONE = (Kind.FLOWS, Kind.GRANT)
"""Kinds of messages for one host; their values begin with its id."""


class Sender:
    """A maker of the messages of an agent's hosts: it numbers and signs them. Its session begins when it is made.

    Args:
        keys: keys of the agent.
        own: hosts of the agent.
        now_ns: monotonic time at which the session begins.
        to: addresses of the agents that messages are sent to; `ANY`: messages are signed for all agents.
        wall_ns: function that returns the machine's clock, ns since 1970.

    Raises:
        ConfigError: there is no key for messages to one of these agents.
    """

    def __init__(
        self,
        keys: Keys,
        own: Sequence[Peer],
        now_ns: int,
        *,
        to: Sequence[str] = (ANY,),
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._keys, self._own, self._began_ns, self._wall_ns = keys, tuple(own), now_ns, wall_ns
        self._pairs = [(own[0].address.host, receiver) for receiver in to]
        for pair in self._pairs:
            keys.between(*pair)
        self._session_ns = wall_ns()
        self._sequence = dict.fromkeys(Kind, 0)

    def messages(self, kind: Kind, values: Sequence[bytes], at_ns: int, now_ns: int) -> list[list[bytes]]:
        """Return for each address of `to` a list with one message per host of the agent.

        Args:
            kind: `STATE` or `UPLINK`.
            values: for each host, a row of this kind as bytes.
            at_ns: monotonic time at which the values were measured.
            now_ns: monotonic time of sending.
        """
        self._sequence[kind] += 1
        sequence, sent_ns, age_ns = self._sequence[kind], max(now_ns - self._began_ns, 0), max(now_ns - at_ns, 0)
        numbers = self._session_ns, sequence, sent_ns, self._wall_ns(), age_ns
        by_key: dict[Key, list[bytes]] = {}
        batches = []
        for pair in self._pairs:
            key, *_ = self._keys.between(*pair)
            if key not in by_key:
                by_key[key] = [
                    _signed(key, HEAD.pack(MAGIC, VERSION, kind, key.number, peer.id, *numbers) + row)
                    for peer, row in zip(self._own, values, strict=True)
                ]
            batches.append(by_key[key])
        return batches

    def message_to(self, kind: Kind, to: int, values: bytes, now_ns: int) -> bytes:
        """Return a message of the agent's first host to one agent.

        Args:
            kind: one of `TO_ONE`.
            to: index of the agent's address in the `to` of this object.
            values: a row of `FLOWS` or of `GRANT` as bytes.
            now_ns: monotonic time of the values and of sending.
        """
        self._sequence[kind] += 1
        key, *_ = self._keys.between(*self._pairs[to])
        sent_ns = max(now_ns - self._began_ns, 0)
        numbers = self._session_ns, self._sequence[kind], sent_ns, self._wall_ns(), 0
        return _signed(key, HEAD.pack(MAGIC, VERSION, kind, key.number, self._own[0].id, *numbers) + values)


def _signed(key: Key, data: bytes) -> bytes:
    padded = data.ljust(MAC_AT, b"\0")
    return padded + key.sign(padded)


def misfit(data: bytes | bytearray | memoryview) -> str | None:
    """Return the reason why these bytes are no message of this version; None: they may be one.

    Returns:
        ``undersized``, ``foreign``, ``version`` or ``oversized`` (`ncc.host.listener.DROPPED`).
    """
    if len(data) == SIZE and data[: len(BEGIN)] == BEGIN:
        return None
    if len(data) <= len(MAGIC):
        return "undersized"
    if data[: len(MAGIC)] != MAGIC:
        return "foreign"
    if data[len(MAGIC)] != VERSION:
        return "version"
    return "oversized" if len(data) > SIZE else "undersized"


def sane_state(data: bytes | bytearray | memoryview) -> bool:
    """Return True if the values of a message of kind `STATE` are possible for a host."""
    return bool(
        max(_STATE_BITS.unpack_from(data, VALUES_AT)) <= _MOST_BITS
        and _LIMIT.unpack_from(data, _LIMIT_AT)[0] > 0
        and _AT_ONCE.unpack_from(data, _AT_ONCE_AT)[0] <= 1
    )


def sane_uplink(data: bytes | bytearray | memoryview) -> bool:
    """Return True if the values of a message of kind `UPLINK` are possible for a port."""
    return bool(max(_UPLINK_BITS.unpack_from(data, VALUES_AT)) <= _MOST_BITS)


def receiver_of(data: bytes | bytearray | memoryview) -> int:
    """Return the id of the host that a message is for, if its kind is in `TO_ONE`."""
    receiver: int = _RECEIVER.unpack_from(data, VALUES_AT)[0]
    return receiver


def sane_flows(data: bytes | bytearray | memoryview) -> bool:
    """Return True if the values of a message of kind `FLOWS` are possible for a sender."""
    flows, waiting, least, received = _FLOWS_BITS.unpack_from(data, VALUES_AT)
    return bool(flows <= FLOWS_MOST and least <= waiting <= _MOST_BITS and received <= _MOST_BITS)


def sane_grant(data: bytes | bytearray | memoryview, buffer_bytes: float) -> bool:
    """Return True if the values of a message of kind `GRANT` are possible for a receiver whose port has this buffer."""
    senders, *payload = _GRANT_BITS.unpack_from(data, VALUES_AT)
    start_s, rate_bps = _START_RATE.unpack_from(data, VALUES_AT)
    return bool(
        senders <= FLOWS_MOST
        and max(payload) <= _MOST_BITS
        and _LIMIT.unpack_from(data, _WINDOW_AT)[0] <= buffer_bytes
        and abs(start_s) <= START_MOST_S
        and rate_bps > 0
    )
