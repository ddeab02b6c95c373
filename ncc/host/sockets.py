# SPDX-License-Identifier: BSD-3-Clause
"""The UDP socket of an exchange. A filter in the kernel drops packets that no peer has sent."""

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import ip_address
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
_STORE, _RECALL = 0x02, 0x60
"""Instructions that store into a word of the filter's memory, and load it."""
_UDP_BYTES, _IP_AT, _SOURCE_AT, _SOURCE_AT_IPV6 = 8, 0xFFF0_0000, 12, 8
"""Size of the UDP header, with which a filter's data begins; offset of IP's header, SKF_NET_OFF; and offsets in it of
the source address."""
UNPRIVILEGED = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
"""File with the least port that takes no right."""
REMEDIES = {
    errno.EADDRINUSE: "the port is in use; is an agent running already? Stop what has it, or name another port",
    errno.EADDRNOTAVAIL: "this machine has no such address; name one that `ip address` shows",
    errno.EACCES: "a port below 1024 takes CAP_NET_BIND_SERVICE, which root and the unit have at a start: restart the "
    "agent, or name another port",
    errno.EAFNOSUPPORT: "this process may not use addresses of this version of IP: let RestrictAddressFamilies of the "
    "unit have AF_INET6 (systemctl edit ncc-host), or give the kernel IPv6",
    errno.ENOMEM: "the kernel has no room for the filter of so many peers: raise net.core.optmem_max",
}


def opened(address: Address, messages: int, senders: Sequence[Address]) -> socket.socket:
    """Open a socket at an address of this machine for messages of `senders`, with room for about twice `messages`.

    Raises:
        ConfigError: the address cannot be used.
        DatapathError: the port is in use, perhaps not for long.
    """
    family, level, option = (
        (socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
        if address.is_ipv6
        else (socket.AF_INET, socket.IPPROTO_IP, socket.IP_TOS)
    )
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    try:
        with ExitStack() as undo:
            made = undo.enter_context(socket.socket(family, kind))
            take_from(made, messages, senders)  # before it is bound and receives anything
            made.setsockopt(level, option, DSCP << 2)
            made.bind(address)
            undo.pop_all()
    except OSError as error:
        raise refused(address, error.errno or 0) from None
    return made


def refused(address: Address, number: int) -> ConfigError | DatapathError:
    """Return the error of an address whose port cannot be opened, by the kernel's error number."""
    kind = DatapathError if number == errno.EADDRINUSE else ConfigError
    return kind(f"cannot listen on {address}: {REMEDIES.get(number, os.strerror(number))}")


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
    sources = {sender: ip_address(sender.host).packed for sender in senders}
    program = []
    for load, wanted in (
        ((_LENGTH, 0, 0, 0), _UDP_BYTES + SIZE),
        ((_WORD, 0, 0, _UDP_BYTES), int.from_bytes(MAGIC, "big")),
        ((_BYTE, 0, 0, _UDP_BYTES + len(MAGIC)), VERSION),
    ):
        program += [load, (_EQUAL, 1, 0, wanted), drop]
    words = range(max(map(len, sources.values()), default=0) // 4)
    for word in words:
        at = _IP_AT + (_SOURCE_AT if len(words) == 1 else _SOURCE_AT_IPV6) + 4 * word
        program += [(_WORD, 0, 0, at), (_STORE, 0, 0, word)]
    for port in dict.fromkeys(sender.port for sender in senders):
        of_port = []
        for source in (source for sender, source in sources.items() if sender.port == port):
            for word in reversed(words):  # the last differs most often
                wanted = int.from_bytes(source[4 * word : 4 * word + 4], "big")
                of_port += [(_RECALL, 0, 0, word), (_EQUAL, 0, 2 * word + 1, wanted)]
            of_port.append(take)
        program += [(_HALF, 0, 0, 0), (_EQUAL, 1, 0, port), (_JUMP, 0, 0, len(of_port) + 1), *of_port, drop]
    return [*program, drop]
