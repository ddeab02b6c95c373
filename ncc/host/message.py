# SPDX-License-Identifier: BSD-3-Clause
"""Messages of hosts to their neighbours: one fixed size, numbered, and authenticated.

| bytes | what |
|---|---|
| 4 | `MAGIC` |
| 1, 1, 2 | `VERSION`; kind; zeros |
| 8 | sender (`ncc.host.peers.Peer.id`) |
| 8 | session: the sender's clock when it began, ns since 1970; every restart has a later one |
| 8 | sequence: one more with every message of a sender, session and kind |
| 8 | sent: ns from the session's beginning to the sending, of a clock that is never set |
| 8 | clock: the sender's when it sent, ns since 1970 |
| 8 | age: ns from the moment to which the values belong to the sending |
| 48 | values: a row of `STATE` or of `UPLINK`; then zeros |
| 16 | the first half of HMAC-SHA256 (RFC 2104, truncated as in its section 5) of all before |

Numbers are little-endian. Whoever has the key can speak for every host of the neighbourhood, and nobody else for any.
"""

import hmac
import os
import stat
import struct
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ncc.core.errors import ConfigError
from ncc.core.signals import Scope, shared
from ncc.host.peers import Peer

MAGIC = b"nccx"
VERSION = 1
BEGIN = MAGIC + bytes([VERSION])
KEY_LEAST_BYTES, KEY_MOST_BYTES = 16, 4096
MAC_BYTES = 16
VALUES_BYTES = 48

HEAD = struct.Struct("<4sBBHQQQQQQ")
VALUES_AT = HEAD.size
MAC_AT = VALUES_AT + VALUES_BYTES
SIZE = MAC_AT + MAC_BYTES

StateArray = npt.NDArray[np.void]
"""Rows of `STATE`, or of `UPLINK`."""
TimeArray = npt.NDArray[np.int64]
"""Nanoseconds of the monotonic clock; 0: never."""


def _row(scope: Scope) -> np.dtype[np.void]:
    return np.dtype([(signal.name, "<u4" if signal.count else "<f8") for signal in shared(scope)])


STATE = _row("host")
"""The signals that a host sends, before anything is normalised (`ncc.core.signals`)."""
UPLINK = _row("uplink")
"""The signals that are sent of the uplink."""


def idle(n: int) -> StateArray:
    """[n] of `STATE`: hosts with nothing to send and no limit, as a host that never sent a message is assumed to be."""
    state = np.zeros(n, dtype=STATE)
    state["rate_limit_bps"] = np.inf
    return state


def _bits(scope: Scope) -> struct.Struct:
    """Layout of the shared signals of a scope, but for the rate limit, with real numbers as unsigned integers."""
    codes = ("8x" if s.name == "rate_limit_bps" else "I" if s.count else "Q" for s in shared(scope))
    return struct.Struct("<" + "".join(codes))


_STATE_BITS, _UPLINK_BITS = _bits("host"), _bits("uplink")
assert STATE.fields is not None
_LIMIT, _LIMIT_AT = struct.Struct("<d"), VALUES_AT + STATE.fields["rate_limit_bps"][1]

MOST = 2.0**60
"""Upper bound of any value but a limit: nothing real exceeds it, and float32 holds it."""
_MOST_BITS = int.from_bytes(struct.pack("<d", MOST), "little")
"""Its bits as an unsigned integer. Those of negative numbers, infinity and NaN are greater."""


class Kind(IntEnum):
    """Kinds of messages."""

    STATE = 1
    """State of a host."""
    UPLINK = 2
    """State of the uplink."""


class Key:
    """A secret that the hosts of a neighbourhood share."""

    def __init__(self, secret: bytes) -> None:
        """A key of at least `KEY_LEAST_BYTES`."""
        if not KEY_LEAST_BYTES <= len(secret) <= KEY_MOST_BYTES:
            raise ConfigError(
                f"a key must have {KEY_LEAST_BYTES} to {KEY_MOST_BYTES} bytes, got {len(secret)}: "
                "make one with `openssl rand -hex 32`"
            )
        self._keyed = hmac.new(secret, digestmod="sha256")

    def sign(self, data: bytes | bytearray | memoryview) -> bytes:
        """The `MAC_BYTES` that only holders of the key can make."""
        keyed = self._keyed.copy()
        keyed.update(data)
        return keyed.digest()[:MAC_BYTES]

    def signed(self, data: bytes | bytearray | memoryview, mac: bytes | memoryview) -> bool:
        """True if `mac` is the signature of `data`; takes equally long whichever byte differs."""
        return hmac.compare_digest(self.sign(data), mac)


def read_key(path: Path) -> Key:
    """Read a key from a file; white space around it does not count."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(
            f"cannot read the key file {path}: {error.strerror}; make one with "
            "`(umask 077; openssl rand -hex 32 > FILE)` and copy it to every host"
        ) from None
    try:
        _refuse_shared(path, os.fstat(handle))
        secret = os.read(handle, KEY_MOST_BYTES + 2).strip()
    finally:
        os.close(handle)
    try:
        return Key(secret)
    except ConfigError as error:
        raise ConfigError(f"the key file {path} cannot be used: {error}") from None


def _refuse_shared(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"the key file {path} is not a plain file; name one that holds the key")
    if status.st_mode & 0o077:
        raise ConfigError(
            f"the key file {path} may be used by others than its owner (mode {stat.S_IMODE(status.st_mode):04o}): "
            f"run chmod 600 {path}, and make a new key if anybody may have read it"
        )
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"the key file {path} belongs to user {status.st_uid}, who could change it: it must belong to root "
            "or to whoever runs this"
        )


class Sender:
    """Numbers and signs the messages of an agent's hosts, in a session that begins with it.

    Args:
        key: shared by all hosts of the neighbourhood.
        own: hosts of the agent.
        now_ns: monotonic time at which the session begins.
        wall_ns: the machine's clock, ns since 1970.
    """

    def __init__(
        self, key: Key, own: Sequence[Peer], now_ns: int, *, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._key, self._own, self._began_ns, self._wall_ns = key, tuple(own), now_ns, wall_ns
        self._session_ns = wall_ns()
        self._sequence = dict.fromkeys(Kind, 0)

    def messages(self, kind: Kind, values: Sequence[bytes], at_ns: int, now_ns: int) -> list[bytes]:
        """A message of each of the agent's hosts, sent at `now_ns`.

        Args:
            values: of each host, as of `at_ns`: a row of `STATE` or of `UPLINK`.
        """
        self._sequence[kind] += 1
        sequence, sent_ns, age_ns = self._sequence[kind], max(now_ns - self._began_ns, 0), max(now_ns - at_ns, 0)
        session_ns, clock_ns, sign = self._session_ns, self._wall_ns(), self._key.sign
        found = []
        for peer, row in zip(self._own, values, strict=True):
            head = HEAD.pack(MAGIC, VERSION, kind, 0, peer.id, session_ns, sequence, sent_ns, clock_ns, age_ns)
            signed = (head + row).ljust(MAC_AT, b"\0")
            found.append(signed + sign(signed))
        return found


def misfit(data: bytes | bytearray | memoryview) -> str | None:
    """The reason for which these bytes, of any number, are no message of this version; None: they may be one.

    Returns:
        ``undersized``, ``foreign``, ``version`` or ``oversized``.
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
    """True if the values of a message of kind `STATE` can be those of a host."""
    return bool(
        max(_STATE_BITS.unpack_from(data, VALUES_AT)) <= _MOST_BITS and _LIMIT.unpack_from(data, _LIMIT_AT)[0] > 0
    )


def sane_uplink(data: bytes | bytearray | memoryview) -> bool:
    """True if the values of a message of kind `UPLINK` can be those of a port."""
    return bool(max(_UPLINK_BITS.unpack_from(data, VALUES_AT)) <= _MOST_BITS)
