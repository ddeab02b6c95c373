# SPDX-License-Identifier: BSD-3-Clause
"""What an agent says of itself while it runs: a line of JSON per event, and of each kind of event only so many."""

import errno
import os
import select
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import msgspec

from ncc.core.errors import ConfigError

MOST = 10
"""Lines that an event may fill at once,"""
EVERY_S = 1.0
"""and then one in so many seconds: an agent has a thousand periods in one."""


STDERR = 2


class Level(IntEnum):
    """As syslog(3) orders them."""

    ERROR = 3
    WARNING = 4
    INFO = 6
    DEBUG = 7


class Log:
    """Writes events: ``{"time": ..., "level": ..., "event": ..., ...}``, times in UTC to the microsecond.

    What an event says beyond `MOST` lines at once or one in `EVERY_S` is left out, and its next line has how many were,
    as ``left_out``. A line that cannot be written (a closed pipe, a full disk, a pipe that nobody reads) is counted in
    `lost`; an agent goes on.
    """

    def __init__(
        self,
        write: Callable[[bytes], object] | None = None,
        level: Level = Level.INFO,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        **always: Any,
    ) -> None:
        """Write what is at least as urgent as `level`, by default to stderr; `always` is in every line.

        `write` gets a line at once, so that nothing is kept that a later one would have to wait for.
        """
        self._write, self._level = write or Unwaiting(STDERR), level
        self._monotonic_s, self._always = monotonic_s, always
        self._encoder = msgspec.json.Encoder(enc_hook=str)
        self._buckets: dict[str, _Bucket] = {}
        self.lost = 0

    def error(self, event: str, **fields: Any) -> None:
        """What ended, or was given up."""
        self._say(Level.ERROR, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """What is not as it should be, and goes on."""
        self._say(Level.WARNING, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """What an operator may want to know."""
        self._say(Level.INFO, event, fields)

    def debug(self, event: str, **fields: Any) -> None:
        """What explains the rest."""
        self._say(Level.DEBUG, event, fields)

    def _say(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        if level > self._level:
            return
        bucket = self._buckets.setdefault(event, _Bucket())
        if not bucket.takes(self._monotonic_s()):
            return
        now_s = time.time()
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now_s))}.{int(now_s % 1 * 1e6):06d}Z"
        line = {"time": stamp, "level": level.name.lower(), "event": event, **self._always, **fields}
        if bucket.left_out:
            line["left_out"], bucket.left_out = bucket.left_out, 0
        try:
            self._write(self._encoder.encode(line) + b"\n")
        except OSError:
            self.lost += 1


class Unwaiting:
    """Writes lines to a descriptor where there is room for them at once, and never waits for whoever reads it.

    The descriptor is left as it is: O_NONBLOCK would be set for all processes that share it.

    Args:
        descriptor: of a pipe, a socket, a terminal or a file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._torn = descriptor, False
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def __call__(self, line: bytes) -> None:
        """Write a line that ends in a newline; the next one begins below what was written of one in part.

        Raises:
            OSError: it was not written, or not all of it.
        """
        left = memoryview(b"\n" + line if self._torn else line)
        while left:
            if not self._poll.poll(0):  # an error is ready too: it is the write's
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            written = os.write(self._descriptor, left[: select.PIPE_BUF])  # so much a pipe that is ready takes whole
            left = left[written:]
            self._torn = len(left) > 0


class _Bucket:
    """How many lines an event may still fill."""

    __slots__ = ("left_out", "seen_s", "tokens")

    def __init__(self) -> None:
        self.tokens, self.seen_s, self.left_out = float(MOST), 0.0, 0

    def takes(self, now_s: float) -> bool:
        self.tokens = min(self.tokens + (now_s - self.seen_s) / EVERY_S, MOST)
        self.seen_s = now_s
        if self.tokens < 1:
            self.left_out += 1
            return False
        self.tokens -= 1
        return True


def level_of(name: str) -> Level:
    """The level of a name.

    Raises:
        ConfigError: there is no such level.
    """
    try:
        return Level[name.upper()]
    except KeyError:
        known = ", ".join(level.name.lower() for level in Level)
        raise ConfigError(f"there is no log level {name!r}: choose one of {known}") from None
