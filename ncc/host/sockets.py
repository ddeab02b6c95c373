# SPDX-License-Identifier: BSD-3-Clause
"""UDP sockets of agents: they never block, hold little, and stay on the link."""

import errno
import socket
import struct
from collections.abc import Sequence

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

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
"""An address as `socket.sendto` takes it, of IPv4 or of IPv6."""


def open_socket(address: Address, messages: int) -> socket.socket:
    """A socket at an address of this machine, with room for about twice as many messages.

    Raises:
        ConfigError: the address is not this machine's, the port is in use, or it may not be had.
    """
    opened = socket.socket(address.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if address.family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, DSCP << 2)
        else:
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DSCP << 2)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, messages * BUFFER_BYTES)
        opened.bind(address)
    except OSError as error:
        opened.close()
        raise ConfigError(f"cannot listen on {address}: {_why(error)}") from None
    return opened


def join_group(group: Address, interface: str, messages: int) -> socket.socket:
    """A socket that receives what comes to a multicast group through an interface, and nothing else.

    Raises:
        ConfigError: it is no multicast group, there is no such interface, or it may not be had.
    """
    index = interface_index(interface)
    first = group.packed()[12 if group.family == socket.AF_INET else 0]
    if not (first == 0xFF if group.family == socket.AF_INET6 else 224 <= first <= 239):
        raise ConfigError(
            f"the group {group} is no multicast address: name one of 239.0.0.0/8, or of ff02::/16 in brackets"
        )
    opened = socket.socket(group.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # all agents of a machine have the same
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, messages * BUFFER_BYTES)
        if group.family == socket.AF_INET6:
            opened.bind((group.host, group.port, 0, index))
            membership = socket.inet_pton(socket.AF_INET6, group.host) + struct.pack("@I", index)
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)
        else:
            opened.bind(group)
            membership = socket.inet_aton(group.host) + struct.pack("@4xi", index)
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            # Linux gives a socket what any other of the machine has joined, unless told otherwise: ip(7).
            opened.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
    except OSError as error:
        opened.close()
        raise ConfigError(f"cannot join the group {group} on {interface}: {_why(error)}") from None
    return opened


def destinations(
    sending: socket.socket,
    own: Address,
    to: Sequence[Address],
    *,
    group: Address | None = None,
    interface: str | None = None,
    loop: bool = False,
) -> list[SocketAddress]:
    """Addresses to which a socket sends: each of `to` once, or else the group.

    Messages to a group leave by the interface, and go no farther than the link.

    Raises:
        ConfigError: a destination of the other version of IP, or an interface that cannot be used.
    """
    if group is None or interface is None:
        if strange := next((address for address in to if address.family != own.family), None):
            raise ConfigError(f"{own} cannot speak to {strange}: name IPv4 addresses only, or IPv6 only")
        return list(dict.fromkeys(to))
    if own.family != group.family:
        raise ConfigError(f"the group {group} and the address to listen on are of two versions of IP: name one kind")
    index = interface_index(interface)
    try:
        if group.family == socket.AF_INET6:
            sending.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            sending.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 1)
            sending.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, int(loop))
        else:
            sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@8xi", index))
            sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
            sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(loop))
    except OSError as error:
        raise ConfigError(f"cannot send to the group {group} through {interface}: {_why(error)}") from None
    return [group if group.family == socket.AF_INET else (*group, 0, index)]


def send_all(sending: socket.socket, messages: Sequence[bytes], to: Sequence[SocketAddress]) -> tuple[int, int]:
    """Send every message to every address without waiting; the numbers of those sent, and of those that failed."""
    send, sent, errors = sending.sendto, 0, 0
    for address in to:
        for message in messages:
            try:
                send(message, address)
                sent += 1
            except OSError:  # a full buffer, no route, a firewall: the next period tries again
                errors += 1
    return sent, errors


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
