# SPDX-License-Identifier: BSD-3-Clause
"""The UDP socket of an exchange. A filter in the kernel drops packets that no peer has sent."""

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

from ncc.core.errors import ConfigError, DatapathError
from ncc.host.message import MAGIC, SIZE, VERSION
from ncc.host.peers import Address

MESSAGE_MEMORY_BYTES = 2304
"""Most kernel memory that a waiting message takes: a descriptor and half a page."""
DSCP = 48
"""Class of the messages: network control (RFC 4594 section 3.1)."""
_SO_ATTACH_FILTER = 26
"""Socket option of asm-generic/socket.h."""
_LENGTH, _BYTE, _HALF, _WORD, _EQUAL, _JUMP, _RETURN = 0x80, 0x30, 0x28, 0x20, 0x15, 0x05, 0x06
"""Instructions of classic BPF (linux/bpf_common.h): four loads, a jump on equality, a jump, and the verdict."""
_UDP_BYTES, _SOURCE_AT = 8, 0xFFF0_0000 + 12
"""Size of the UDP header, with which a filter's data begins; and offset of the source address in IP's header, which a
filter reaches by SKF_NET_OFF."""
UNPRIVILEGED = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
"""File with the least port that takes no right."""
_REMEDIES = {
    errno.EADDRINUSE: "the port is in use; is an agent running already? Stop what has it, or name another port",
    errno.EADDRNOTAVAIL: "this machine has no such address; name one that `ip address` shows",
    errno.EACCES: "a port below 1024 takes CAP_NET_BIND_SERVICE, which root and the unit have at a start: restart the "
    "agent, or name another port",
}


def opened(address: Address, messages: int, senders: Sequence[Address]) -> socket.socket:
    """Open a socket at an address of this machine for messages of `senders`, with room for about twice `messages`.

    Raises:
        ConfigError: the address cannot be used.
        DatapathError: the port is in use, perhaps not for long.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        take_from(made, messages, senders)  # before it is bound and receives anything
        made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DSCP << 2)
        made.bind(address)
    except OSError as error:
        made.close()
        raise refused(address, error.errno or 0) from None
    return made


def refused(address: Address, number: int) -> ConfigError | DatapathError:
    """Return the error of an address whose port cannot be opened, by the kernel's error number."""
    kind = DatapathError if number == errno.EADDRINUSE else ConfigError
    return kind(f"cannot listen on {address}: {_REMEDIES.get(number, os.strerror(number))}")


def take_from(opened: socket.socket, messages: int, senders: Sequence[Address]) -> None:
    """Let a socket take messages of `senders` only from now on, with room for about twice `messages`."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, messages * MESSAGE_MEMORY_BYTES)
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in _filter(senders))
    code = ctypes.create_string_buffer(program)
    filter_ = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)


def _filter(senders: Sequence[Address]) -> list[tuple[int, int, int, int]]:
    """Return a BPF program that passes messages of this version from these senders, and drops all other packets.

    It checks size, version, address and port. Dropped packets take no room in the socket and no time of the agent. A
    packet whose source address is forged passes.
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
