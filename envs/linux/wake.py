# SPDX-License-Identifier: BSD-3-Clause
"""Wakes of connections whose data waits in the socket (bpf/shim_gate.h).

The kernel tries to send when an ACK arrives. A wake is an ACK with nothing new, made on the sender's own host. A raw
socket sends it from the receiver's address to the host's own, so it passes no device but the loopback.
"""

import socket
import struct

from ncc.envs.linux.layout import MAPPED, address_bytes

_TCP, _LENGTH = struct.Struct("!HHIIBBHHH"), struct.Struct("!HBB")
_IP, _IPV6 = struct.Struct("!BBHHHBBH"), struct.Struct("!IHBB")
_VERSION, _VERSION_6, _TTL, _DATA_OFFSET, _ACK = 0x45, 6 << 28, 64, 5 << 4, 0x10
FIELDS = ("port", "peer_port", "una", "rcv_nxt", "window")
"""Fields of `ncc.envs.linux.layout.REPORT` that a wake repeats."""


def wake_ack(own: bytes, peer: bytes, *, port: int, peer_port: int, una: int, rcv_nxt: int, window: int) -> bytes:
    """Return the IP packet that wakes a connection from `own` to `peer`, both as `layout.address_bytes` returns them.

    Its version of IP is that of `own`.
    """
    if own.startswith(MAPPED):
        ends = peer[len(MAPPED) :] + own[len(MAPPED) :]  # the kernel adds the header's checksum
        head = _IP.pack(_VERSION, 0, _IP.size + len(ends) + _TCP.size, 0, 0, _TTL, socket.IPPROTO_TCP, 0)
    else:
        ends = peer + own
        head = _IPV6.pack(_VERSION_6, _TCP.size, socket.IPPROTO_TCP, _TTL)

    def tcp(checksum: int) -> bytes:
        return _TCP.pack(peer_port, port, rcv_nxt, una, _DATA_OFFSET, _ACK, window, checksum, 0)

    checked = ends + _LENGTH.pack(_TCP.size, 0, socket.IPPROTO_TCP) + tcp(0)
    return head + ends + tcp(checksum(checked))


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Waker:
    """Sends wakes to one host's connections. Construct it in the host's network namespace; it takes CAP_NET_RAW."""

    def __init__(self, address: str) -> None:
        self._own, self._to = address_bytes(address), (address, 0)
        family = socket.AF_INET if self._own.startswith(MAPPED) else socket.AF_INET6
        self._socket = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)  # with our own IP headers

    def wake(self, peer: bytes, **numbers: int) -> None:
        """Make the kernel try to send on a connection to `peer`, given as `layout.address_bytes` returns it.

        `numbers` are `FIELDS` of its report.
        """
        self._socket.sendto(wake_ack(self._own, peer, **numbers), self._to)

    def close(self) -> None:
        """Close the socket; may be called twice."""
        self._socket.close()
