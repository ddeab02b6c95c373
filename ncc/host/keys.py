# SPDX-License-Identifier: BSD-3-Clause
"""Keys by which agents sign their messages: each for what one agent sends another, or one for all.

A key file has the line `FIRST_LINE`, then a line for each key, ``ID SENDER RECEIVER HEX``: a number from 1 to 65535
that messages name, the IPv4 addresses of the two agents, and 16 to 64 bytes in hexadecimal. ``*`` is any agent. A key
counts for what its line names and nothing else, and a line that names an agent goes before one that names any. Two ids
may be valid at once, for rotation: the first signs, and both are believed.
"""

import hmac
import os
import re
import stat
from collections.abc import Callable, Iterable
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from ncc.core.errors import ConfigError
from ncc.host.log import Log

FIRST_LINE = "ncc-keys 2"
"""Version 1 was one secret alone."""
ANY = "*"
"""Any agent; as a receiver also a multicast group."""
MAKE = f"(umask 077; printf '{FIRST_LINE}\\n1 * * %s\\n' $(openssl rand -hex 32) > FILE)"
"""A command that makes a file with one key for all."""
LEAST_BYTES, MOST_BYTES = 16, 64
FILE_MOST_BYTES = 1 << 20
VALID_MOST = 2
MAC_BYTES = 16
_LINE = re.compile(r"(\d{1,5}) ([0-9.]+|\*) ([0-9.]+|\*) ((?:[0-9a-fA-F]{2})+)", re.ASCII)


class Key:
    """A secret, and the number by which messages name it."""

    def __init__(self, secret: bytes, number: int = 1) -> None:
        """A key of `LEAST_BYTES` to `MOST_BYTES`."""
        if not LEAST_BYTES <= len(secret) <= MOST_BYTES:
            raise ConfigError(f"a key must have {LEAST_BYTES} to {MOST_BYTES} bytes, got {len(secret)}")
        self.number, self._keyed = number, hmac.new(secret, digestmod="sha256")

    def sign(self, data: bytes | bytearray | memoryview) -> bytes:
        """The `MAC_BYTES` that only holders of the key can make."""
        keyed = self._keyed.copy()
        keyed.update(data)
        return keyed.digest()[:MAC_BYTES]

    def signed(self, data: bytes | bytearray | memoryview, mac: bytes | memoryview) -> bool:
        """True if `mac` is the signature of `data`; takes equally long whichever byte differs."""
        return hmac.compare_digest(self.sign(data), mac)


Named = dict[tuple[str, str], list[Key]]
"""Keys by sender and receiver, as a file has them."""


class Keys:
    """The keys that an agent has, by sender and receiver."""

    def __init__(self, named: Named, path: Path | None = None) -> None:
        self._named, self._path = named, path
        self._between: dict[tuple[str, str], tuple[Key, ...]] = {}

    @classmethod
    def shared(cls, *keys: Key) -> "Keys":
        """The same for all."""
        return cls({(ANY, ANY): list(keys)})

    @classmethod
    def read(cls, path: Path) -> "Keys":
        """Keys of a file, which `read_again` reads again."""
        return cls(_read(path), path)

    def between(self, sender: str, receiver: str) -> tuple[Key, ...]:
        """Keys for what an agent sends another, by their addresses: the first signs, and each is believed."""
        pair = sender, receiver
        if (found := self._between.get(pair)) is None:
            found = self._between[pair] = _chosen(self._named, pair)
        return found

    def read_again(self) -> None:
        """Read the file again; if that fails, or a key that is in use has no successor, all stays as it is."""
        if self._path is None:
            return
        named = _read(self._path)
        self._between = {pair: _chosen(named, pair) for pair in self._between}
        self._named = named


def reader(keys: Keys, log: Log) -> Callable[[], None]:
    """Make a function that reads a key file again, and logs what became of it."""

    def read_again() -> None:
        try:
            keys.read_again()
        except ConfigError as error:
            log.warning("keys", said=f"{error}; the keys of before stay in use")
        else:
            log.info("keys", said="the key file was read again")

    return read_again


def _chosen(named: Named, pair: tuple[str, str]) -> tuple[Key, ...]:
    sender, receiver = pair
    for one in (pair, (sender, ANY), (ANY, receiver), (ANY, ANY)):
        if found := named.get(one):
            return tuple(found)
    whom = "a group" if receiver == ANY else receiver
    raise ConfigError(f"the key file has no key for what {sender} sends {whom}: add a line for them, or for * *")


def _read(path: Path) -> Named:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(f"cannot read the key file {path}: {error.strerror}; make one by `{MAKE}`") from None
    try:
        _refuse_others(path, os.fstat(handle))
        data = os.read(handle, FILE_MOST_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > FILE_MOST_BYTES:
        raise ConfigError(f"the key file {path} has more than {FILE_MOST_BYTES} bytes; name one that holds the keys")
    first, *lines = data.decode("ascii", "replace").splitlines() or [""]
    if first != FIRST_LINE:
        raise ConfigError(
            f"the key file {path} does not begin with the line `{FIRST_LINE}`, as one of this version does: make a new "
            f"one by `{MAKE}`, and copy it to every host"
        )
    try:
        return _parsed(lines)
    except ConfigError as error:
        raise ConfigError(f"the key file {path} cannot be used: {error}") from None


def _parsed(lines: Iterable[str]) -> Named:
    """Keys of lines; no error shows what stands in one."""
    named: Named = {}
    for at, line in enumerate(lines, 2):
        words = " ".join(line.split())
        if not words or words.startswith("#"):
            continue
        if (found := _LINE.fullmatch(words)) is None or not 1 <= int(found[1]) <= 0xFFFF:
            raise ConfigError(f"line {at} is not `ID SENDER RECEIVER HEX`, as in `1 10.0.0.1 * 6c1f...`")
        try:
            sender, receiver = (one if one == ANY else str(IPv4Address(one)) for one in found.group(2, 3))
            key = Key(bytes.fromhex(found[4]), int(found[1]))
        except AddressValueError:
            raise ConfigError(f"line {at} has no valid IPv4 address; write four numbers, or *") from None
        except ConfigError as error:
            raise ConfigError(f"line {at}: {error}") from None
        alike = named.setdefault((sender, receiver), [])
        if len(alike) == VALID_MOST or key.number in [other.number for other in alike]:
            raise ConfigError(f"line {at} is one too many: a sender and receiver have two keys at most, of two ids")
        alike.append(key)
    if not named:
        raise ConfigError(f"it has no keys; make one by `{MAKE}`")
    return named


def _refuse_others(path: Path, status: os.stat_result) -> None:
    """Raise `ConfigError` for a file that others than its owner, or an owner other than us and root, may use."""
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"the key file {path} is not a plain file; name one that holds the keys")
    if status.st_mode & 0o077:
        raise ConfigError(
            f"the key file {path} may be used by others than its owner (mode {stat.S_IMODE(status.st_mode):04o}): "
            f"run chmod 600 {path}, and make new keys if anybody may have read it"
        )
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"the key file {path} belongs to user {status.st_uid}, who could change it: it must belong to root "
            "or to whoever runs this"
        )
