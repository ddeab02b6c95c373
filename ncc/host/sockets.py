# SPDX-License-Identifier: BSD-3-Clause
"""UDP sockets of agents: they never block, hold little, and stay on the link."""

import errno
import socket
import struct
from ipaddress import IPv4Address

from ncc.core.errors import ConfigError
from ncc.host.peers import Address, interface_index

BUFFER_BYTES = 2304
"""Kernel memory that a waiting message takes at most: a descriptor and half a page."""
DSCP = 48
"""Network control (RFC 4594 section 3.1)."""
_MEMORY, _DROPS, _FIELDS = 55, 8, struct.Struct("9I")
"""SO_MEMINFO, and the field SK_MEMINFO_DROPS (linux/sock_diag.h)."""
_IP_MULTICAST_ALL = 49
"""linux/in.h."""


def open_socket(address: Address, messages: int) -> socket.socket:
    """A socket at an address of this machine, with room for about twice as many messages."""
    opened = _socket(messages)
    try:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DSCP << 2)
        opened.bind(address)
    except OSError as error:
        opened.close()
        raise ConfigError(f"cannot listen on {address}: {_why(error)}") from None
    return opened


def join_group(sending: socket.socket, group: Address, interface: str, messages: int, *, loop: bool) -> socket.socket:
    """A socket that receives what comes to a multicast group through an interface, and nothing else.

    What `sending` sends to the group leaves by the interface, and goes no farther than the link.
    """
    index = interface_index(interface)
    if not IPv4Address(group.host).is_multicast:
        raise ConfigError(f"the group {group} is no multicast address: name one of 239.0.0.0/8")
    opened = _socket(messages)
    membership = socket.inet_aton(group.host) + struct.pack("@4xi", index)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # all agents of a machine have the same
        opened.bind(group)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        # Linux gives a socket what any other of the machine has joined, unless told otherwise: ip(7).
        opened.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@8xi", index))
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(loop))
    except OSError as error:
        opened.close()
        raise ConfigError(f"cannot join the group {group} on {interface}: {_why(error)}") from None
    return opened


def _socket(messages: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, messages * BUFFER_BYTES)
    return opened


def drops(receiving: socket.socket) -> int:
    """Number of messages that the kernel has dropped since the socket was opened, because it was full."""
    fields: tuple[int, ...] = _FIELDS.unpack(receiving.getsockopt(socket.SOL_SOCKET, _MEMORY, _FIELDS.size))
    return fields[_DROPS]


def _why(error: OSError) -> str:
    remedies = {
        errno.EADDRINUSE: "the port is in use; is an agent running already? Stop it, or name another port",
        errno.EADDRNOTAVAIL: "this machine has no such address; name one that `ip address` shows",
        errno.EACCES: "this needs more rights; name a port of 1024 or above",
    }
    return remedies.get(error.errno or 0, error.strerror or str(error))
