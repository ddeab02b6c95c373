# SPDX-License-Identifier: BSD-3-Clause
"""A ZMQ socket that never waits for ever, because it also notices ended connections and timeouts."""

import time
from collections.abc import Sequence
from typing import Any

from ncc.core.errors import DatapathError
from ncc.envs.ns3gym.schema import library

LINGER_MS = 1000
"""Longest time in milliseconds that a closing socket may take to deliver its last message."""

POLL_S = 3600.0
"""Longest single wait in seconds; libzmq has 32 bits for it, in milliseconds."""

EVENT_MS = 100
"""Milliseconds that libzmq may take to report the end of a connection."""


class Lost(DatapathError):  # noqa: N818 - names an event, like the other errors here
    """Error: the connection to the other side has ended."""


class TimedOut(DatapathError):  # noqa: N818
    """Error: nothing came in time."""


class Ended(DatapathError):  # noqa: N818
    """Error: the watched descriptor became readable, because the process behind it has ended."""


class Link:
    """One socket, its context, and a monitor of its connections.

    Args:
        kind: type of the socket, such as ``DEALER``.
        address: address to bind or to connect to, as in ``tcp://127.0.0.1:5555``.
        bind: True makes a listening socket, False one that connects.

    Raises:
        OSError: the address cannot be used.
    """

    def __init__(self, kind: str, address: str, *, bind: bool) -> None:
        self._zmq: Any = library("zmq")
        self._monitoring: Any = library("zmq.utils.monitor")
        zmq = self._zmq
        self._context = zmq.Context()
        self._socket = self._context.socket(getattr(zmq, kind))
        self._socket.linger = LINGER_MS
        self._socket.reconnect_ivl = 20
        self._socket.reconnect_ivl_max = 200
        self._begun, self._ended = {int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_CONNECTED)}, int(zmq.EVENT_DISCONNECTED)
        failed = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        self._monitor = self._socket.get_monitor_socket(sum(self._begun) + self._ended + failed)
        self._poller = zmq.Poller()
        for socket in (self._socket, self._monitor):
            self._poller.register(socket, zmq.POLLIN)
        self._connections: set[int] = set()
        self._last_sender: int | None = None
        self._bind, self._gone = bind, False
        try:
            (self._socket.bind if bind else self._socket.connect)(address)
        except zmq.ZMQError as error:
            self.close()
            raise OSError(error.errno, error.strerror) from None

    @property
    def connected(self) -> bool:
        """True if there is a connection, by the events read so far."""
        return bool(self._connections)

    @property
    def port(self) -> int:
        """Port that was bound."""
        return int(self._socket.last_endpoint.rpartition(b":")[2])

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message of several frames, without waiting.

        Raises:
            Lost: there is no connection for the message, and none is being made.
        """
        try:
            self._socket.send_multipart(list(frames), flags=self._zmq.DONTWAIT)
        except self._zmq.Again:
            # libzmq has given the connection up, and reports the reason a moment later.
            while self._monitor.poll(EVENT_MS) and not self._lost():
                pass
            raise Lost("there is no connection") from None

    def receive(self, timeout_s: float, fd: int | None = None) -> list[bytes]:
        """Return the frames of the next message.

        Args:
            timeout_s: longest time to wait.
            fd: another descriptor to watch.

        Raises:
            Lost: our connection ended or, on a listening socket, the connection from which the last message came, even
                if others are connected. Messages that have arrived are returned first.
            Ended: `fd` is readable, and there is no message left to read.
            TimedOut: nothing happened in time.
        """
        zmq, deadline_s = self._zmq, time.monotonic() + timeout_s
        if fd is not None:
            self._poller.register(fd, zmq.POLLIN)
        try:
            while True:
                left_s = deadline_s - time.monotonic()
                ready = dict(self._poller.poll(0 if self._gone else max(0, round(min(left_s, POLL_S) * 1000))))
                if self._socket in ready:
                    return self._read()
                lost = self._gone or (self._monitor in ready and self._lost())
                if lost or fd in ready:
                    # Messages sent before the end come first; one may have arrived since the poll.
                    if self._socket.poll(0):
                        continue
                    self._gone = False  # reported once
                    raise Lost("the connection has ended") if lost else Ended("the process has ended")
                if left_s <= 0:
                    raise TimedOut(f"nothing came within {timeout_s:g} s")
        finally:
            if fd is not None:
                self._poller.unregister(fd)

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Close everything; may be called twice."""
        if self._context.closed:
            return
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(linger_ms)
        self._context.term()

    def _read(self) -> list[bytes]:
        """Read the message that is there; on a listening socket, note from which connection it came."""
        if not self._bind:
            return list(self._socket.recv_multipart())
        self._lost()  # first, because another connection may have the number of an ended one by now
        frames = self._socket.recv_multipart(copy=False)
        self._last_sender = int(frames[-1].get(self._zmq.SRCFD))
        self._gone = self._last_sender not in self._connections
        return [bytes(frame.bytes) for frame in frames]

    def _lost(self) -> bool:
        """Read all events of connections so far; return True if the connection in use has ended.

        On a socket that connects, any end counts, and so does a failed handshake. On a listening socket, only the end
        of the connection from which the last message came counts.
        """
        ended = False
        while self._monitor.poll(0):
            event = self._monitoring.recv_monitor_message(self._monitor)
            kind, fd = int(event["event"]), int(event["value"])
            if kind in self._begun:
                self._connections.add(fd)
            elif kind == self._ended:
                self._connections.discard(fd)
                ended = True
                if fd == self._last_sender:
                    self._last_sender, self._gone = None, True
            elif not self._bind:  # failed attempts to connect to our own port do not matter
                self._connections.clear()
                ended = True
        # A connection that we made is lost even if libzmq has made another meanwhile, because the other side does not
        # know the new one.
        return self._gone if self._bind else ended
