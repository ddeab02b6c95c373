# SPDX-License-Identifier: BSD-3-Clause
"""The agent's log, and its notices to systemd. The log has a line of JSON per event, and each event a limited rate."""

import errno
import os
import select
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

BURST_LINES = 10
"""Lines that an event may fill in a burst."""
REFILL_S = 1.0
"""Seconds after which an event may fill one more line. Without a limit, it might fill a line in every period."""
STDERR = 2
NS_PER_US = 1000


class Log:
    """A log of events: ``{"time": ..., "level": ..., "event": ..., ...}``, times in UTC to the microsecond.

    An event may fill `BURST_LINES` lines in a burst, and one line in `REFILL_S` on average. Further lines are left out;
    the event's next line gives their number as ``left_out``. A line that cannot be written (a closed pipe, a full disk,
    a pipe that nobody reads) is counted in `lost`, and the agent goes on.
    """

    def __init__(self, write: Callable[[bytes], object] | None = None) -> None:
        """Make a log; `write` gets each line as soon as it is made (None: write to stderr, without waiting)."""
        self._write = write or NonBlockingWriter(STDERR)
        self._encoder = msgspec.json.Encoder(enc_hook=str)
        self._room: dict[str, tuple[float, float, int]] = {}
        """For each event: lines that it may fill, time of this number, and lines left out since its last line."""
        self.lost = 0

    def error(self, event: str, **fields: Any) -> None:
        """Log the end of the agent, or of its policy."""
        self._log("error", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log a problem that does not stop the agent."""
        self._log("warning", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log something that an operator may want to know."""
        self._log("info", event, fields)

    def _log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        at_s, now_s = time.monotonic(), time.time()
        room, since_s, left_out = self._room.get(event, (float(BURST_LINES), at_s, 0))
        room = min(room + (at_s - since_s) / REFILL_S, BURST_LINES)
        if room < 1:
            self._room[event] = room, at_s, left_out + 1
            return
        self._room[event] = room - 1, at_s, 0
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now_s))}.{int(now_s % 1 * 1e6):06d}Z"
        line = {"time": stamp, "level": level, "event": event, **fields}
        if left_out:
            line["left_out"] = left_out
        try:
            self._write(self._encoder.encode(line) + b"\n")
        except OSError:
            self.lost += 1


class NonBlockingWriter:
    """A function that writes lines to a descriptor if they fit there now. It never waits for a reader.

    The descriptor's flags stay as they are: O_NONBLOCK would be set for all processes that share it.

    Args:
        descriptor: descriptor of a pipe, a socket, a terminal or a file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._torn = descriptor, False
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def __call__(self, line: bytes) -> None:
        """Write a line, which ends with a newline. If the line before was cut off, begin with a newline too.

        Raises:
            OSError: there is no room now, or writing failed; a part of the line may have been written.
        """
        left = memoryview(b"\n" + line if self._torn else line)
        while left:
            if not self._poll.poll(0):  # a broken pipe counts as ready, and the write fails
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            written = os.write(self._descriptor, left[: select.PIPE_BUF])  # a ready pipe takes this much as a whole
            left = left[written:]
            self._torn = len(left) > 0


class Notifier:
    """Notices to systemd, by sd_notify(3). Nothing is sent unless the environment variable NOTIFY_SOCKET is set.

    Attributes:
        watchdog_ns: time without a notice after which systemd takes this process for dead; 0: it does not watch.
            `alive` sends a notice once in a quarter of this time.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.watchdog_ns, self._due_ns, self._socket = 0, 0, None
        if not (where := environment.get("NOTIFY_SOCKET", "")):
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._where = "\0" + where[1:] if where[0] == "@" else where
        if environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            self.watchdog_ns = int(environment.get("WATCHDOG_USEC", "0")) * NS_PER_US

    def ready(self, status: str) -> None:
        """Say that the agent has begun to work; `status` describes it in a few words."""
        self._send(f"READY=1\nSTATUS={' '.join(status.split())}")

    def alive(self, now_ns: int) -> None:
        """Say that the agent still works at `now_ns` (monotonic); cheap enough for every period."""
        if self.watchdog_ns and now_ns >= self._due_ns:
            self._due_ns = now_ns + self.watchdog_ns // 4
            self._send("WATCHDOG=1")

    def stopping(self, status: str) -> None:
        """Say that the agent ends; `status` is the reason."""
        self._send(f"STOPPING=1\nSTATUS={' '.join(status.split())}")

    def close(self) -> None:
        """Say nothing more; may be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode(), self._where)
        except OSError:  # the agent's work does not depend on whoever watches it
            return
