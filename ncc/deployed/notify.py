# SPDX-License-Identifier: BSD-3-Clause
"""What systemd is told of an agent: that it works, that it still does, that it ends (sd_notify(3))."""

import os
import socket
from collections.abc import Mapping

from ncc.core.errors import ConfigError
from ncc.core.units import NS_PER_S

_US_PER_S = 1_000_000


class Notifier:
    """Tells whoever started this process, if it asked; otherwise it tells nobody, and `watchdog_ns` is 0.

    Attributes:
        watchdog_ns: within each of which `alive` must be called; it is passed on twice as often at most. 0: need not.
        errors: messages that could not be delivered.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """By NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of the environment.

        Raises:
            ConfigError: they cannot be what systemd sets.
        """
        env = os.environ if environment is None else environment
        self.errors, self.watchdog_ns, self._due_ns, self._socket = 0, 0, 0, None
        where = env.get("NOTIFY_SOCKET", "")
        if not where:
            return
        if where[0] not in "/@" or len(where) < 2:
            raise ConfigError(f"NOTIFY_SOCKET must be a path or begin with @, got {where!r}: unset it")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._where = "\0" + where[1:] if where[0] == "@" else where
        if env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()) and (text := env.get("WATCHDOG_USEC")):
            if not text.isascii() or not text.isdigit():
                raise ConfigError(f"WATCHDOG_USEC must be a whole number of microseconds, got {text!r}: unset it")
            self.watchdog_ns = int(text) * (NS_PER_S // _US_PER_S)

    def ready(self, status: str) -> None:
        """The agent works; `status` in a few words."""
        self._tell(f"READY=1\nSTATUS={_line(status)}")

    def status(self, status: str) -> None:
        """What it does now, for `systemctl status`."""
        self._tell(f"STATUS={_line(status)}")

    def alive(self, now_ns: int) -> None:
        """It still works at this time of the monotonic clock; cheap enough for every period."""
        if self.watchdog_ns and now_ns >= self._due_ns:
            self._due_ns = now_ns + self.watchdog_ns // 4
            self._tell("WATCHDOG=1")

    def stopping(self, status: str) -> None:
        """It ends, and says why."""
        self._tell(f"STOPPING=1\nSTATUS={_line(status)}")

    def close(self) -> None:
        """Tell nothing more; may be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _tell(self, message: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode(), self._where)
        except OSError:  # the agent's work does not depend on who watches it
            self.errors += 1


def _line(text: str) -> str:
    return " ".join(text.split())
