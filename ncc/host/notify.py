# SPDX-License-Identifier: BSD-3-Clause
"""Notices to systemd about the agent: that it is ready, alive, and ending (sd_notify(3))."""

import os
import socket
from collections.abc import Mapping

NS_PER_US = 1000


class Notifier:
    """Notices to the process that started this one, if NOTIFY_SOCKET of the environment names its socket.

    Attributes:
        watchdog_ns: `alive` must be called within each of these; it is passed on four times as often at most. 0: not.
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
        """Say that the agent works; `status` in a few words."""
        self._send(f"READY=1\nSTATUS={' '.join(status.split())}")

    def alive(self, now_ns: int) -> None:
        """Say that it still works at this time of the monotonic clock; cheap enough for every period."""
        if self.watchdog_ns and now_ns >= self._due_ns:
            self._due_ns = now_ns + self.watchdog_ns // 4
            self._send("WATCHDOG=1")

    def stopping(self, status: str) -> None:
        """Say that it ends, and why."""
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
