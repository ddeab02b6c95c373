# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's token bucket filter, which is the queue of a port and empties it at a rate.

pyroute2 supports the filter but not its size in bytes, rates above 32 bits or the overhead of frames, so its message is
put together here.
"""

import os
import socket
import struct

from ncc.core.errors import DatapathError

RATE_MAX = 2**32 - 1
"""Largest rate in bytes/s that the older field holds."""
EGRESS = 0xFFFFFFF3
"""Place of a program that sees packets before they are queued: TC_H_CLSACT, TC_H_MIN_EGRESS."""
_ROOT = 0xFFFFFFFF
_NEW_QDISC, _ERROR = 36, 2
_REQUEST_ACK_CREATE_EXCL = 0x605
_KIND, _OPTIONS = 1, 2
_PARAMETERS, _RATE64, _BURST = 1, 4, 6
_ETHERNET = 1
"""Link layer without padding of packets to cells."""
_RATE = struct.Struct("=BBHhHI")
"""`struct tc_ratespec`: cell_log, linklayer, overhead, cell_align, mpu, rate (linux/pkt_sched.h)."""


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def token_bucket(
    device: int, *, rate_bytes_per_s: int, burst_bytes: int, limit_bytes: int, overhead_bytes: int
) -> bytes:
    """Make the message that gives a device a queue of at most `limit_bytes`, emptied at a rate.

    Each packet counts as `overhead_bytes` more than its size. Sizes are those that the device counts, with link-layer
    headers.
    """
    rate = _RATE.pack(0, _ETHERNET, overhead_bytes, 0, 0, min(rate_bytes_per_s, RATE_MAX))
    parameters = rate + bytes(_RATE.size) + struct.pack("=III", limit_bytes, 0, 0)
    options = _attribute(_PARAMETERS, parameters) + _attribute(_BURST, struct.pack("=I", burst_bytes))
    if rate_bytes_per_s > RATE_MAX:
        options += _attribute(_RATE64, struct.pack("=Q", rate_bytes_per_s))
    body = struct.pack("=BxxxiIII", socket.AF_UNSPEC, device, 1 << 16, _ROOT, 0)
    body += _attribute(_KIND, b"tbf\0") + _attribute(_OPTIONS, options)
    return struct.pack("=IHHII", 16 + len(body), _NEW_QDISC, _REQUEST_ACK_CREATE_EXCL, 1, 0) + body


def send(message: bytes, what: str) -> None:
    """Send a message to the kernel in the calling thread's namespace.

    Raises:
        DatapathError: the kernel refuses; `what` names the thing in the message.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as route:
        route.sendto(message, (0, 0))
        answer = route.recv(65536)
    kind, error = struct.unpack_from("=4xH10xi", answer)
    if kind != _ERROR or error:
        raise DatapathError(f"The kernel refuses {what}: {os.strerror(-error)}.")
