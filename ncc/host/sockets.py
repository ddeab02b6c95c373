# SPDX-License-Identifier: BSD-3-Clause
"""UDP sockets of agents: they never block, buffer little, and keep multicast on the link."""

import ctypes
import errno
import socket
import struct
from collections.abc import Sequence
from ipaddress import IPv4Address

from ncc.core.errors import ConfigError
from ncc.envs.linux.device import interface_index
from ncc.host.message import MAGIC, SIZE, VERSION
from ncc.host.peers import Address

BUFFER_BYTES = 2304
"""Kernel memory that a waiting message takes at most: a descriptor and half a page."""
DSCP = 48
"""Network control (RFC 4594 section 3.1)."""
_MEMORY, _DROPS, _FIELDS = 55, 8, struct.Struct("9I")
"""SO_MEMINFO, and the field SK_MEMINFO_DROPS (linux/sock_diag.h)."""
_SO_ATTACH_FILTER = 26
"""asm-generic/socket.h."""
_LENGTH, _BYTE, _HALF, _WORD, _EQUAL, _JUMP, _RETURN = 0x80, 0x30, 0x28, 0x20, 0x15, 0x05, 0x06
"""Instructions of classic BPF (linux/bpf_common.h): loads, a jump on equality, a jump, and the verdict."""
_UDP_BYTES, _SOURCE_AT = 8, 0xFFF0_0000 + 12
"""Size of the UDP header, where a filter's data begins, and place of IP's source address (SKF_NET_OFF)."""
_IP_MULTICAST_ALL = 49
"""linux/in.h."""


def open_socket(address: Address, messages: int, senders: Sequence[Address]) -> socket.socket:
    """Open a socket at an address of this machine for messages of `senders`, with room for about twice `messages`."""
    opened = _socket(messages, senders)
    try:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DSCP << 2)
        opened.bind(address)
    except OSError as error:
        opened.close()
        raise ConfigError(f"cannot listen on {address}: {_why(error)}") from None
    return opened


def join_group(
    sending: socket.socket, group: Address, interface: str, messages: int, senders: Sequence[Address], *, loop: bool
) -> socket.socket:
    """Open a socket that receives only packets from `senders` to a multicast group, by an interface.

    Packets from `sending` to the group leave by that interface, and go no farther than the link.
    """
    index = interface_index(interface)
    if not IPv4Address(group.host).is_multicast:
        raise ConfigError(f"the group {group} is no multicast address: name one of 239.0.0.0/8")
    opened = _socket(messages, senders)
    membership = socket.inet_aton(group.host) + struct.pack("@4xi", index)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # all agents of a machine bind it
        opened.bind(group)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        # By default Linux gives a socket the packets of all groups that any socket of the machine has joined: ip(7).
        opened.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@8xi", index))
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(loop))
    except OSError as error:
        opened.close()
        raise ConfigError(f"cannot join the group {group} on {interface}: {_why(error)}") from None
    return opened


def _socket(messages: int, senders: Sequence[Address]) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, messages * BUFFER_BYTES)
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in _filter(senders))
    code = ctypes.create_string_buffer(program)
    filter_ = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)  # before it is bound and receives anything
    return opened


def _filter(senders: Sequence[Address]) -> list[tuple[int, int, int, int]]:
    """Return a program that takes packets of our size and version from these addresses and ports, and drops all others.

    Dropped packets take no room in the socket and no time of the agent. A packet with a forged source passes.
    """
    drop, take = (_RETURN, 0, 0, 0), (_RETURN, 0, 0, 0xFFFF_FFFF)
    program = []
    for load, wanted in (
        ((_LENGTH, 0, 0, 0), _UDP_BYTES + SIZE),
        ((_WORD, 0, 0, _UDP_BYTES), int.from_bytes(MAGIC, "big")),
        ((_BYTE, 0, 0, _UDP_BYTES + len(MAGIC)), VERSION),
    ):
        program += [load, (_EQUAL, 1, 0, wanted), drop]
    for port in dict.fromkeys(address.port for address in senders):
        hosts = [int(IPv4Address(host)) for host in dict.fromkeys(one.host for one in senders if one.port == port)]
        of_port = [(_WORD, 0, 0, _SOURCE_AT)]
        for host in hosts:
            of_port += [(_EQUAL, 0, 1, host), take]
        program += [(_HALF, 0, 0, 0), (_EQUAL, 1, 0, port), (_JUMP, 0, 0, len(of_port) + 1), *of_port, drop]
    return [*program, drop]


def drops(receiving: socket.socket) -> int:
    """Number of messages that the kernel has dropped since the socket was opened, by the filter or for lack of room."""
    fields: tuple[int, ...] = _FIELDS.unpack(receiving.getsockopt(socket.SOL_SOCKET, _MEMORY, _FIELDS.size))
    return fields[_DROPS]


def _why(error: OSError) -> str:
    remedies = {
        errno.EADDRINUSE: "the port is in use; is an agent running already? Stop it, or name another port",
        errno.EADDRNOTAVAIL: "this machine has no such address; name one that `ip address` shows",
        errno.EACCES: "this needs more rights; name a port of 1024 or above",
    }
    return remedies.get(error.errno or 0, error.strerror or str(error))
