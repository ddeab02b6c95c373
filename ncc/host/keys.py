# SPDX-License-Identifier: BSD-3-Clause
"""Keys with which agents sign their messages: one key for each pair of sender and receiver, or one for all.

A key file has the line `FIRST_LINE`, then a line for each key, ``ID SENDER RECEIVER HEX``: a number from 1 to 65535
that messages carry, the addresses of the two agents, and 16 to 64 bytes in hexadecimal. ``*`` is any agent. A key
is valid only for the agents that its line names, and a line that names an agent takes precedence over one with ``*``.
For rotation, a pair may have two keys: the first signs, and both are accepted. Every line ends with a newline, so that
half a key is none.
"""

import hmac
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from ncc.core.errors import ConfigError
from ncc.host.log import Log
from ncc.host.peers import numerical

FIRST_LINE = "ncc-keys 2"
"""First line of a key file. A file of version 1 was one secret alone."""
ANY = "*"
"""Name in a key file that stands for any agent."""
MAKE = f"(umask 077; printf '{FIRST_LINE}\\n1 * * %s\\n' $(openssl rand -hex 32) > FILE)"
"""Shell command that makes a file with one key for all agents."""
LEAST_BYTES, MOST_BYTES = 16, 64
FILE_MOST_BYTES = 1 << 20
VALID_MOST = 2
MAC_BYTES = 16
_LINE = re.compile(r"(\d{1,5}) ([0-9a-fA-F.:]+|\*) ([0-9a-fA-F.:]+|\*) ((?:[0-9a-fA-F]{2})+)", re.ASCII)


class Key:
    """A secret, and its number in messages."""

    def __init__(self, secret: bytes, number: int = 1) -> None:
        """Make a key from a secret of `LEAST_BYTES` to `MOST_BYTES`; raise `ConfigError` for another length."""
        if not LEAST_BYTES <= len(secret) <= MOST_BYTES:
            raise ConfigError(f"a key must have {LEAST_BYTES} to {MOST_BYTES} bytes, got {len(secret)}")
        self.number, self._keyed = number, hmac.new(secret, digestmod="sha256")

    def sign(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return the signature of `data`: `MAC_BYTES` bytes that only holders of the key can make."""
        keyed = self._keyed.copy()
        keyed.update(data)
        return keyed.digest()[:MAC_BYTES]

    def signed(self, data: bytes | bytearray | memoryview, mac: bytes | memoryview) -> bool:
        """Return True if `mac` is the signature of `data`; the time does not depend on which byte differs."""
        return hmac.compare_digest(self.sign(data), mac)


Named = dict[tuple[str, str], list[Key]]
"""Keys by sender and receiver, each an address or `ANY`, as a file has them."""


class Keys:
    """The keys that an agent knows, by sender and receiver."""

    def __init__(self, named: Named, path: Path | None = None) -> None:
        self._named, self._path = named, path
        self._between: dict[tuple[str, str], tuple[Key, ...]] = {}

    @classmethod
    def shared(cls, *keys: Key) -> "Keys":
        """Make keys that are valid for all senders and receivers; the first signs."""
        return cls({(ANY, ANY): list(keys)})

    @classmethod
    def read(cls, path: Path) -> "Keys":
        """Read the keys of a file, which `read_again` reads again.

        Raises:
            ConfigError: the file cannot be read, others may use it, or it has an invalid line.
        """
        return cls(_read(path), path)

    def between(self, sender: str, receiver: str) -> tuple[Key, ...]:
        """Return the keys for messages from one address to another: the first signs, and each is accepted.

        Raises:
            ConfigError: there is no such key.
        """
        pair = sender, receiver
        if (keys := self._between.get(pair)) is None:
            keys = self._between[pair] = _chosen(self._named, pair)
        return keys

    def read_again(self) -> None:
        """Read the file again. If it was not read from a file, do nothing.

        Raises:
            ConfigError: the file cannot be used, or has no key for a sender and receiver in use; the old keys are kept.
        """
        if self._path is not None:
            self.take(Keys.read(self._path))

    def take(self, other: "Keys") -> None:
        """Take over other keys, for the same senders and receivers.

        Raises:
            ConfigError: they have no key for a sender and receiver in use; the old keys are kept.
        """
        self._between = {pair: _chosen(other._named, pair) for pair in self._between}
        self._named = other._named


def reader(keys: Keys | None, log: Log) -> Callable[[], None]:
    """Return a function that reads the file of these keys, if any, again and logs the result. It raises nothing."""

    def read_again() -> None:
        if keys is None:
            log.info("keys", said="there is no key file to read again")
            return
        try:
            keys.read_again()
        except ConfigError as error:
            log.warning("keys", said=f"{error}; the keys of before stay in use")
        else:
            log.info("keys", said="the key file was read again")

    return read_again


def _chosen(named: Named, pair: tuple[str, str]) -> tuple[Key, ...]:
    sender, receiver = pair
    for entry in (pair, (sender, ANY), (ANY, receiver), (ANY, ANY)):
        if keys := named.get(entry):
            return tuple(keys)
    raise ConfigError(f"the key file has no key for what {sender} sends {receiver}: add a line for them, or for * *")


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
    if data and not data.endswith(b"\n"):
        raise ConfigError(f"the last line of the key file {path} is not complete: end it with a newline")
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
    """Parse the lines after the first; no error message shows their content, which is secret."""
    named: Named = {}
    for at, line in enumerate(lines, 2):
        words = " ".join(line.split())
        if not words or words.startswith("#"):
            continue
        if (fields := _LINE.fullmatch(words)) is None or not 1 <= int(fields[1]) <= 0xFFFF:
            raise ConfigError(f"line {at} is not `ID SENDER RECEIVER HEX`, as in `1 10.0.0.1 * 6c1f...`")
        try:
            sender, receiver = (name if name == ANY else numerical(name) for name in fields.group(2, 3))
        except ConfigError:
            raise ConfigError(
                f"line {at} has no valid address of an agent: write one of IPv4, one of IPv6 that is not of one link "
                "only, or *"
            ) from None
        try:
            key = Key(bytes.fromhex(fields[4]), int(fields[1]))
        except ConfigError as error:
            raise ConfigError(f"line {at}: {error}") from None
        same_pair = named.setdefault((sender, receiver), [])
        if len(same_pair) == VALID_MOST or key.number in [other.number for other in same_pair]:
            raise ConfigError(f"line {at} is one too many: a sender and receiver have two keys at most, of two ids")
        same_pair.append(key)
    if not named:
        raise ConfigError(f"it has no keys; make one by `{MAKE}`")
    return named


def _refuse_others(path: Path, status: os.stat_result) -> None:
    """Raise `ConfigError` unless the owner alone may use the file, and the owner is root or this user."""
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
