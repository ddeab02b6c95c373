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
            data = memoryview(self._buffer)[: self._route.recv_into(self._buffer)]
            while len(data) >= _HEADER.size:
                length, kind, *_ = _HEADER.unpack_from(data)
                body, data = data[_HEADER.size : length], data[max((length + 3) & ~3, _HEADER.size) :]
                if kind != _ERROR:
                    found = _state(body)
                    continue
                (error,) = struct.unpack_from("=i", body)
                if error:
                    raise DatapathError(
                        f"the queue of {self.interface} cannot be read: {os.strerror(-error)}; is the interface still "
                        "there?"
                    )
                if found is None:
                    raise DatapathError(
                        f"{self.interface} has no queue that counts (noqueue); name the port at which packets wait, or "
                        f"give it a queue: tc qdisc add dev {self.interface} root ..."
                    )
                return found

    def close(self) -> None:
        """Close the socket to the kernel; may be called twice."""
        self._route.close()


def _state(body: memoryview) -> PortState | None:
    queue = _attributes(body[_TC.size :])
    stats = _attributes(queue.get(_STATS2, memoryview(b"")))
    if bytes(queue.get(_KIND, b"")) == _NO_QUEUE or _BASIC not in stats or _QUEUE not in stats:
        return None
    (sent,) = struct.unpack_from("=Q", stats[_BASIC])
    _, backlog = struct.unpack_from("=II", stats[_QUEUE])
    return PortState(sent, backlog)


def _attributes(data: memoryview) -> Attributes:
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
