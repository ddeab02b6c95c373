# SPDX-License-Identifier: BSD-3-Clause
"""Messages of hosts to their neighbours: one fixed size, and authenticated.

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
| 48 | values: a row of `STATE`, of `UPPER`, or where a host is found; then zeros |
| 16 | the first half of HMAC-SHA256 (RFC 2104, truncated as in its section 5) of all before |

Numbers are little-endian. Whoever has the key can speak for every host of the neighbourhood, and nobody else for any.
"""

import hmac
import os
import stat
import struct
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

from ncc.core.errors import ConfigError
from ncc.core.signals import Scope, shared
from ncc.host.state import STATE, UPPER

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


def _values(scope: Scope) -> struct.Struct:
    return struct.Struct("<" + "".join("I" if signal.count else "d" for signal in shared(scope)))


STATE_VALUES, UPPER_VALUES = _values("host"), _values("uplink")
_LIMIT_AT = list(STATE.names or ()).index("rate_limit_bps")
HELLO_VALUES = struct.Struct("<16sHB")
"""IPv6 address, of IPv4 in its mapped form (RFC 4291 section 2.5.5.2); port; the sender's kind of messages."""
_PADDING = {size: bytes(VALUES_BYTES - size) for size in (STATE.itemsize, UPPER.itemsize, HELLO_VALUES.size)}

MOST = 2.0**60
"""Upper bound of any value but a limit: nothing real exceeds it, and float32 holds it."""


class Kind(IntEnum):
    """Kinds of messages."""

    STATE = 1
    """State of a host."""
    UPPER = 2
    """State of the uplink."""
    HELLO = 3
    """Address of a sender of one of those."""


class Key:
    """A secret that the hosts of a neighbourhood share."""

    def __init__(self, secret: bytes) -> None:
        """A key of at least `KEY_LEAST_BYTES`.

        Raises:
            ConfigError: it is too short or too long.
        """
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
    """Read a key from a file; white space around it does not count.

    Raises:
        ConfigError: no such file, it is not a plain one, others may read or write it, or it is no key.
    """
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


def encode(
    key: Key,
    kind: Kind,
    values: bytes,
    *,
    sender: int,
    session_ns: int,
    sequence: int,
    sent_ns: int,
    clock_ns: int,
    age_ns: int,
) -> bytes:
    """A message of `SIZE` bytes; `values` are a row of `STATE`, of `UPPER`, or `HELLO_VALUES`."""
    head = HEAD.pack(MAGIC, VERSION, kind, 0, sender, session_ns, sequence, sent_ns, clock_ns, age_ns)
    signed = head + values + _PADDING[len(values)]
    return signed + key.sign(signed)


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
    values = list(STATE_VALUES.unpack_from(data, VALUES_AT))
    return values.pop(_LIMIT_AT) > 0 and _possible(values)


def sane_upper(data: bytes | bytearray | memoryview) -> bool:
    """True if the values of a message of kind `UPPER` can be those of a port."""
    return _possible(UPPER_VALUES.unpack_from(data, VALUES_AT))


def _possible(values: Sequence[float]) -> bool:
    # The sum is not a number if one of them is not, whereas the least and the greatest may be.
    return sum(values) >= 0 <= min(values) and max(values) <= MOST
