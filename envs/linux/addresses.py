# SPDX-License-Identifier: BSD-3-Clause
"""Addresses of this machine, as the kernel lists them (`ip address`), in the calling thread's network namespace."""

import ipaddress
import os
import socket
import struct
from typing import NamedTuple

from ncc.core.errors import DatapathError
from ncc.envs.linux.port import attributes

_GET_ADDRESS, _ERROR, _DONE = 22, 2, 3
_REQUEST_DUMP = 0x0301
_ADDRESS, _LOCAL = 1, 2
_HEADER, _BODY = struct.Struct("=IHHII"), struct.Struct("=BBBBI")
ANSWER_BYTES = 1 << 16
"""Size of the receive buffer: more than the kernel puts into one part of an answer."""
BROADCAST = ipaddress.IPv4Address("255.255.255.255")
Any4or6 = ipaddress.IPv4Address | ipaddress.IPv6Address


class InterfaceAddress(NamedTuple):
    """An address of an interface."""

    interface: int
    """The kernel's index of the interface."""
    address: Any4or6
    """Local address, also where the interface has the address of a peer as well."""


def addresses() -> list[InterfaceAddress]:
    """List all addresses, those of one interface in the order in which the kernel prefers them.

    Raises:
        DatapathError: the kernel does not list them.
    """
    found: list[InterfaceAddress] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as route:
        route.settimeout(1.0)
        body = _BODY.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        route.send(_HEADER.pack(_HEADER.size + len(body), _GET_ADDRESS, _REQUEST_DUMP, 1, 0) + body)
        while True:
            try:
                data = memoryview(route.recv(ANSWER_BYTES))
            except OSError as error:
                raise DatapathError(f"The kernel does not tell this machine's addresses: {error}.") from None
            while data:
                length, kind, *_ = _HEADER.unpack_from(data)
                part, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    (refusal,) = struct.unpack_from("=i", part)
                    raise DatapathError(f"The kernel does not tell this machine's addresses: {os.strerror(-refusal)}.")
                *_, number = _BODY.unpack_from(part)
                held = attributes(part[_BODY.size :])
                raw = held.get(_LOCAL, held.get(_ADDRESS))
                if raw is not None:
                    found.append(InterfaceAddress(number, ipaddress.ip_address(bytes(raw))))


def is_here(address: str) -> bool:
    """Return True if connections of this namespace may begin at an IPv4 address."""
    asked = ipaddress.IPv4Address(address)
    if asked.is_multicast or asked.is_unspecified or asked == BROADCAST:
        return False  # bind() takes these, but no connection begins there
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.bind((address, 0))
        except OSError:
            return False
    return True
