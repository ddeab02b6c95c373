# SPDX-License-Identifier: BSD-3-Clause
"""Orders that this kernel offers."""

import struct
from functools import cache
from typing import Literal, NamedTuple

from ncc.core.errors import DatapathError
from ncc.envs.linux import check, netlink
from ncc.envs.linux.netlink import Route, attribute, request

LOOPBACK = 1
"""Index of the loopback device."""
OPTIONS = {
    "htb": attribute(2, struct.pack("=5I", 3, 10, 0, 0, 0)),
    "prio": struct.pack("=i16B", 3, *[1] * 16),
    "ets": attribute(1, b"\2") + attribute(2, b"\2"),
    "fq": b"",
}
"""Options of the queues that could order or limit flows, as the kernel takes them."""


class Offer(NamedTuple):
    """An order that this kernel offers."""

    kind: Literal["htb", "none"]
    """Kind of queue that keeps it: an HTB, as `HostQueue` is, or none."""
    sentence: str
    """Sentence that says what was found, or what is missing and what to do about it."""


@cache
def offered() -> Offer:
    """Find out which order this kernel offers, by trying in a network namespace made for it."""
    try:
        seen = check.in_own_namespace(_tried)
    except DatapathError as error:
        return Offer("none", str(error).removesuffix("."))
    others = f"; of others it has {', '.join(seen[1:])}" if seen[1:] else "; it has no others"
    if seen[:1] != ["htb"]:
        return Offer("none", "it has no HTB: boot a kernel with CONFIG_NET_SCH_HTB")
    return Offer("htb", f"HTB orders and limits{others}")


def _tried() -> list[str]:
    """List which of the queues the kernel has that could order or limit flows."""
    found, route = [], Route()
    try:
        for kind, options in OPTIONS.items():
            body = attribute(netlink.KIND, kind.encode() + b"\0") + attribute(netlink.OPTIONS, options)
            try:
                route.send(request(netlink.NEW_QDISC, netlink.CREATE, LOOPBACK, parent=netlink.ROOT, body=body))
            except OSError:
                continue
            found.append(kind)
            route.send(request(netlink.DEL_QDISC, 0, LOOPBACK, parent=netlink.ROOT))
    finally:
        route.close()
    if check.BTF.exists() and b"bpf_struct_ops_Qdisc_ops\0" in check.BTF.read_bytes():
        found.append("sch_bpf")
    return found
