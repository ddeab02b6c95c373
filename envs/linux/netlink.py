# SPDX-License-Identifier: BSD-3-Clause
"""Requests to the kernel's traffic control (rtnetlink), in the network namespace where the socket was opened.

The command `tc` does not do for this. It is too slow for a limit that changes every period. An agent without root could
not even call it to remove its queues, because a child process does not inherit the agent's capabilities.
"""

import errno
import socket
import struct
from collections.abc import Iterator

NEW_QDISC, DEL_QDISC, GET_QDISC = 36, 37, 38
GET_CLASS = 42
NEW_FILTER, DEL_FILTER, GET_FILTER = 44, 45, 46
REPLACE, EXCLUSIVE, CREATE, ECHO, DUMP = 0x100, 0x200, 0x400, 0x8, 0x300
"""Flags of requests."""
KIND, OPTIONS, STATS = 1, 2, 7
"""Attributes of a queue, a class or a filter: TCA_KIND, TCA_OPTIONS, TCA_STATS2."""
ROOT = 0xFFFFFFFF
"""Parent of a device's root queue."""
_REQUEST, _ACK, _ERROR, _DONE = 1, 4, 2, 3
_NUMBERS = 1 << 31
"""Numbers of requests, from 1. The kernel's answers repeat them."""
_HEADER, _TC, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxxxiIII"), struct.Struct("=HH")
_ASKED, _ASKED_AT = struct.Struct("=HI"), 6
"""Flags and number in a header."""
_BASIC, _QUEUE = 1, 3
"""TCA_STATS_BASIC and TCA_STATS_QUEUE."""
_NESTED = 0x3FFF
"""Mask of an attribute's type without its flags."""
BUFFER_BYTES, PATIENCE_S = 65536, 5
Attributes = dict[int, memoryview]


def attribute(kind: int, data: bytes) -> bytes:
    """Return an attribute (struct rtattr), padded to four bytes."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(data), kind) + data + bytes(-len(data) % 4)


def attributes(data: memoryview) -> Attributes:
    """Parse attributes from a part of an answer; return them by type."""
    found: Attributes = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            break
        found[kind & _NESTED] = data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return found


def request(
    kind: int, flags: int, index: int, *, handle: int = 0, parent: int = 0, info: int = 0, body: bytes = b""
) -> bytes:
    """Return a request about device `index`, which the kernel acknowledges; `Route` gives it a number."""
    tc = _TC.pack(socket.AF_UNSPEC, index, handle, parent, info) + body
    return _HEADER.pack(_HEADER.size + len(tc), kind, flags | _REQUEST | _ACK, 0, 0) + tc


class Answer:
    """A queue, a class or a filter in the kernel's answer."""

    def __init__(self, body: memoryview) -> None:
        _, self.index, self.handle, self.parent, self.info = _TC.unpack_from(body)
        self.attributes = attributes(body[_TC.size :])

    @property
    def counts(self) -> tuple[int, int, int] | None:
        """Bytes sent, bytes waiting and packets dropped, with link-layer headers; None if the kernel counts nothing."""
        stats = attributes(self.attributes.get(STATS, memoryview(b"")))
        if _BASIC not in stats or _QUEUE not in stats:
            return None
        (sent,) = struct.unpack_from("=Q", stats[_BASIC])
        _, waiting, dropped = struct.unpack_from("=3I", stats[_QUEUE])
        return sent, waiting, dropped

    @property
    def kind(self) -> str:
        """Name of the kind, such as "htb"."""
        return bytes(self.attributes.get(KIND, b"")).rstrip(b"\0").decode()


class Route:
    """A socket to the traffic control of the calling thread's network namespace. One thread at a time may use it."""

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        # The kernel keeps the time: with a timeout of Python's, each call would ask first whether it may go on.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("=qq", PATIENCE_S, 0))
        self._number = 0

    def send(self, *messages: bytes) -> None:
        """Send requests together and wait until they are done, in order, also those after one that is refused.

        Raises:
            OSError: the kernel refuses a request; this is its first refusal.
        """
        refused = 0
        for kind, of_last, body in self._answers(*messages):
            if kind == _ERROR:
                refused = refused or _error(body)
                if of_last:
                    break
        if refused:
            raise OSError(refused, "")

    def ask(self, message: bytes) -> Iterator[Answer]:
        """Send a request and yield the kernel's answers, all of which the caller must read.

        Raises:
            OSError: the kernel refuses the request.
        """
        for kind, _, body in self._answers(message):
            if kind not in (_ERROR, _DONE):
                yield Answer(body)
                continue
            if error := _error(body):
                raise OSError(error, "")
            return

    def _answers(self, *messages: bytes) -> Iterator[tuple[int, bool, memoryview]]:
        """Send requests; yield each answer's type, True if it is to the last request, and its body.

        The kernel answers the others only if it refuses them. Answers that an earlier caller has not read are skipped.
        """
        first = self._number % _NUMBERS + 1
        self._number = last = first + len(messages) - 1
        sent, at = bytearray().join(messages), 0
        for number, message in enumerate(messages, first):
            flags, _ = _ASKED.unpack_from(message, _ASKED_AT)
            _ASKED.pack_into(sent, at + _ASKED_AT, flags if number == last else flags & ~_ACK, number)
            at += len(message)
        self._socket.send(sent)
        while True:
            try:
                data = memoryview(self._socket.recv(BUFFER_BYTES))
            except BlockingIOError:
                raise TimeoutError(errno.ETIMEDOUT, "the kernel does not answer") from None
            while len(data) >= _HEADER.size:
                length, kind, _, number, _ = _HEADER.unpack_from(data)
                body, data = data[_HEADER.size : length], data[max((length + 3) & ~3, _HEADER.size) :]
                if first <= number <= last:
                    yield kind, number == last, body

    def close(self) -> None:
        """Close the socket; may be called twice."""
        self._socket.close()


def _error(body: memoryview) -> int:
    """Return the error number of an answer; 0: done."""
    (error,) = struct.unpack_from("=i", body)
    return -int(error)
