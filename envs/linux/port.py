# SPDX-License-Identifier: BSD-3-Clause
"""Bytes sent by and waiting at a port of this machine, which is a router or a namespace that plays a switch."""

import os
import socket
import struct
from typing import NamedTuple

from ncc.core.errors import ConfigError, DatapathError

_GET_QDISC, _ERROR = 38, 2
_ROOT = 0xFFFFFFFF
_REQUEST_ACK_ECHO = 0x0D
"""Flags of the request: without NLM_F_ECHO the kernel does not answer; an ACK comes even without a queue."""
_KIND, _STATS2, _BASIC, _QUEUE = 1, 7, 1, 3
_NO_QUEUE = b"noqueue\0"
_HEADER, _TC, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxxxiIII"), struct.Struct("=HH")
_NESTED = 0x3FFF
"""Mask of an attribute's type without its flags."""
Attributes = dict[int, memoryview]


class PortState(NamedTuple):
    """Counters of a port at one moment."""

    sent_bytes: int
    """Bytes sent since the queue was set up, with headers of the link layer."""
    backlog_bytes: int
    """Bytes that wait in the queue."""


class Port:
    """The counters of a network device's queue (`tc -s qdisc show dev ...`): its root and everything below.

    Reading takes no privileges and one request to the kernel.
    """

    def __init__(self, interface: str) -> None:
        """Find the device in the calling thread's namespace."""
        try:
            index = socket.if_nametoindex(interface)
        except OSError:
            known = ", ".join(name for _, name in socket.if_nameindex())
            raise ConfigError(f"there is no network interface {interface!r}; this machine has {known}") from None
        body = _TC.pack(socket.AF_UNSPEC, index, 0, _ROOT, 0)
        self._question = _HEADER.pack(_HEADER.size + len(body), _GET_QDISC, _REQUEST_ACK_ECHO, 1, 0) + body
        self.interface = interface
        self._buffer = bytearray(32768)
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._route = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._route.settimeout(1.0)
        try:
            self.read()
        except DatapathError as error:
            self.close()
            raise ConfigError(str(error)) from None

    def read(self) -> PortState:
        """Read the counters."""
        try:
            return self._read()
        except OSError as error:  # no answer within the time, or no memory for it
            raise DatapathError(f"the kernel does not tell the queue of {self.interface}: {error}") from None

    def _read(self) -> PortState:
        found: PortState | None = None
        self._route.send(self._question)
        while True:
            size = self._route.recv_into(self._buffer)
            at, data = 0, memoryview(self._buffer)[:size]
            while at + _HEADER.size <= size:
                length, kind, *_ = _HEADER.unpack_from(data, at)
                body = data[at + _HEADER.size : at + length]
                if kind == _ERROR:
                    (error,) = struct.unpack_from("=i", body)
                    if error or found is None:
                        raise DatapathError(self._refusal(-error))
                    return found
                found = _state(body)
                at += max((length + 3) & ~3, _HEADER.size)

    def close(self) -> None:
        """Close the socket to the kernel; may be called twice."""
        self._route.close()

    def _refusal(self, error: int) -> str:
        if error:
            return f"the queue of {self.interface} cannot be read: {os.strerror(error)}; is the interface still there?"
        return (
            f"{self.interface} has no queue that counts (noqueue); name the port at which packets wait, or give it a "
            f"queue: tc qdisc add dev {self.interface} root ..."
        )


def _state(body: memoryview) -> PortState | None:
    queue = attributes(body[_TC.size :])
    stats = attributes(queue.get(_STATS2, memoryview(b"")))
    if bytes(queue.get(_KIND, b"")) == _NO_QUEUE or _BASIC not in stats or _QUEUE not in stats:
        return None
    (sent,) = struct.unpack_from("=Q", stats[_BASIC])
    _, backlog = struct.unpack_from("=II", stats[_QUEUE])
    return PortState(sent, backlog)


def attributes(data: memoryview) -> Attributes:
    """Return the attributes in a part of netlink's answer by type (struct rtattr, aligned to four bytes)."""
    found: Attributes = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            break
        found[kind & _NESTED] = data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return found
