# SPDX-License-Identifier: BSD-3-Clause
"""Root queue and filters of a network device: what stands there, what of it is ours, and how that is removed.

The queue of `ncc.envs.linux.queue.HostQueue` is known by its filter, and if somebody removed that, by its two HTBs.
"""

import ctypes
import fcntl
import os
import socket
import struct
from contextlib import suppress

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.linux import netlink
from ncc.envs.linux.netlink import Answer, Route, attribute, attributes, request

LIMIT = 0x10018
"""Class of the host's limit, which takes all that has no other class."""
ROOT, ORDER = 0x10000, 0x20000
"""Handles of the HTB that limits, and of the one within `LIMIT` that orders."""
CLSACT, CLSACT_PARENT = 0xFFFF0000, 0xFFFFFFF1
WITH_CLSACT, WITHIN_CLSACT = 1, 2
"""Handle of the filter: its clsact is ours and goes with it, or was there before and stays."""
FILTER = b"ncc_order"
"""Name of the filter, by which it is known as ours."""
TCX_EGRESS = 47
"""BPF_TCX_EGRESS of linux/bpf.h."""
RESTORABLE = ("pfifo", "bfifo", "pfifo_fast", "fq", "fq_codel", "codel", "tbf", "mq", "noqueue")
"""Queues without classes of their own, which can be put back as they were."""
INGRESS, _EGRESS, _PREFERENCE = 0xFFFFFFF2, 0xFFFFFFF3, 0x4E43
_ANY_PROTOCOL = 0x0300
"""ETH_P_ALL in network order."""
_INIT = 2
_BPF_FD, _BPF_NAME, _BPF_FLAGS, _DIRECT_ACTION = 6, 7, 8, 1
_GET_MTU, _GET_ADDRESS = 0x8921, 0x8927
_ETHERNETS, ETHERNET_BYTES = (1, 772), 14
"""Kinds of devices that count a link-layer header per packet, and its size."""
_GLOBAL = struct.Struct("=5I")
"""struct tc_htb_glob: version, rate over quantum, class of what has no other, debug, packets past all classes."""


def occupied(interface: str) -> str:
    """Return kind and handle of a device's root queue that somebody has set up, as `tc` shows them.

    It is empty for a queue of the kernel's own choice, and for what a killed process of ours has left.
    """
    index, *_ = properties(interface)
    route = Route()
    try:
        found = set_up_by_hand(route, index)
        left = found is not None and is_ours(found) and (filter_handle(route, index) > 0 or has_order(route, index))
    finally:
        route.close()
    return "" if found is None or left else f"{found.kind} {found.handle >> 16:x}:"


def restore(interface: str, before: str = "") -> bool:
    """Remove what a process that was killed left at a device; return False if there is nothing.

    Args:
        interface: name of the device, in the calling thread's namespace.
        before: `HostQueue.before` of that process; without it the kernel's default queue comes back.
    """
    index, *_ = properties(interface)
    route = Route()
    try:
        return remove_left(route, index, before)
    except OSError as error:
        raise DatapathError(f"The queue of {interface} cannot be put back: {os.strerror(error.errno or 0)}.") from None
    finally:
        route.close()


def interface_index(interface: str) -> int:
    """Return the kernel's number of a network interface of the calling thread's namespace."""
    try:
        return socket.if_nametoindex(interface)
    except (OSError, ValueError):  # ValueError: a name with a zero byte
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise ConfigError(f"there is no network interface {interface!r}; this machine has {known}") from None


def properties(interface: str) -> tuple[int, int, int]:
    """Return a device's index, the bytes of a full packet as it counts them, and those of its link-layer header."""
    index = interface_index(interface)
    asked = struct.pack("16s16x8x", interface.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        (mtu,) = struct.unpack_from("=i", fcntl.ioctl(any_socket, _GET_MTU, asked), 16)
        (kind,) = struct.unpack_from("=H", fcntl.ioctl(any_socket, _GET_ADDRESS, asked), 16)
    header = ETHERNET_BYTES if kind in _ETHERNETS else 0
    return index, mtu + header, header


def qdisc(
    index: int, kind: str, *, handle: int = 0, parent: int = netlink.ROOT, options: bytes = b"", flags: int = 0
) -> bytes:
    """Return a request that makes a queue of a kind, at the root of a device or in a class."""
    body = attribute(netlink.KIND, kind.encode() + b"\0") + options
    return request(netlink.NEW_QDISC, netlink.CREATE | flags, index, handle=handle, parent=parent, body=body)


def htb(index: int, handle: int, default: int, *, parent: int = netlink.ROOT, flags: int = 0) -> bytes:
    """Return a request that makes an HTB; `default` is the class of what has no other."""
    options = attribute(netlink.OPTIONS, attribute(_INIT, _GLOBAL.pack(3, 10, default & 0xFFFF, 0, 0)))
    return qdisc(index, "htb", handle=handle, parent=parent, options=options, flags=flags)


def bpf_filter(index: int, handle: int, program: int, parent: int = _EGRESS) -> bytes:
    """Return a request that puts a program, by its descriptor, before what leaves a device, or comes (`INGRESS`)."""
    options = (
        attribute(_BPF_FD, struct.pack("=I", program))
        + attribute(_BPF_NAME, FILTER + b"\0")
        + attribute(_BPF_FLAGS, struct.pack("=I", _DIRECT_ACTION))
    )
    body = attribute(netlink.KIND, b"bpf\0") + attribute(netlink.OPTIONS, options)
    info = _PREFERENCE << 16 | _ANY_PROTOCOL
    return request(netlink.NEW_FILTER, netlink.CREATE, index, handle=handle, parent=parent, info=info, body=body)


def filters(route: Route, index: int, parent: int = _EGRESS) -> list[Answer]:
    """Return the filters of a device that see what leaves it, or what `parent` says; none without a clsact."""
    try:
        return list(route.ask(request(netlink.GET_FILTER, netlink.DUMP, index, parent=parent)))
    except OSError:
        return []


def filter_handle(route: Route, index: int) -> int:
    """Return the handle of our filter at a device; 0: it has none."""
    for each in filters(route, index):
        name = attributes(each.attributes.get(netlink.OPTIONS, memoryview(b""))).get(_BPF_NAME)
        if name is not None and bytes(name).rstrip(b"\0") == FILTER:
            return int(each.handle)
    return 0


def check_first(route: Route, index: int, interface: str) -> None:
    """Raise `DatapathError` if another program may decide before ours: then a limit could outlive the heartbeat."""
    tcx = ctypes.c_uint32(0)  # stays 0 on kernels without
    ctypes.CDLL("libbpf.so.1").bpf_prog_query(index, TCX_EGRESS, 0, None, None, ctypes.byref(tcx))
    if tcx.value or any(each.info >> 16 < _PREFERENCE for each in filters(route, index)):
        shown = f"bpftool net show dev {interface}" if tcx.value else f"tc filter show dev {interface} egress"
        raise DatapathError(
            f"{interface} has a program of somebody else's ({shown}) that could keep packets from ours, so that the "
            "limit of a killed agent would stay: remove it, or take another interface."
        )


def root_before(route: Route, index: int, interface: str) -> str:
    """Return a device's root queue as a text; empty for one that the kernel sets up itself."""
    found = set_up_by_hand(route, index)
    if found is None:
        return ""
    if found.kind not in RESTORABLE:
        raise DatapathError(
            f"{interface} has a queue of kind {found.kind}, which has classes or settings that could not be put back "
            f"later: remove it (tc qdisc del dev {interface} root) or take another interface."
        )
    options = bytes(found.attributes.get(netlink.OPTIONS, b""))
    return f"{found.kind} {found.handle:x} {options.hex()}"


def set_up_by_hand(route: Route, index: int) -> Answer | None:
    """Return a device's root queue; None for one that the kernel sets up itself, and if the device has gone."""
    found = list[Answer]()
    with suppress(OSError):
        found = list(route.ask(request(netlink.GET_QDISC, netlink.ECHO, index, parent=netlink.ROOT)))
    return found[-1] if found and found[-1].handle else None


def is_ours(root: Answer) -> bool:
    """Return True if a root queue is our HTB, which somebody else's with the same handle is not."""
    if (root.kind, root.handle) != ("htb", ROOT):
        return False
    found = attributes(root.attributes.get(netlink.OPTIONS, memoryview(b""))).get(_INIT)
    return found is not None and _GLOBAL.unpack_from(found)[2] == LIMIT & 0xFFFF


def has_order(route: Route, index: int) -> bool:
    """Return True if a device has the HTB of the order, by which a queue whose filter somebody removed is known."""
    found = list(route.ask(request(netlink.GET_QDISC, netlink.DUMP, index)))
    return any((each.index, each.handle, each.parent, each.kind) == (index, ORDER, LIMIT, "htb") for each in found)


def remove_left(route: Route, index: int, before: str = "") -> bool:
    """Remove what a process that was killed left at a device; return False if there is nothing."""
    handle = filter_handle(route, index)
    root = None if handle else set_up_by_hand(route, index)
    if not handle and not (root is not None and is_ours(root) and has_order(route, index)):
        return False
    remove(route, index, before, clsact=handle == WITH_CLSACT)
    return True


def remove(route: Route, index: int, before: str = "", *, clsact: bool) -> None:
    """Remove our program, queue and `clsact` from a device, and put `before` back; leave what others have alone."""
    root = set_up_by_hand(route, index)
    if root is not None and is_ours(root):
        if before:
            kind, handle, options = before.split(" ")
            body = attribute(netlink.OPTIONS, bytes.fromhex(options)) if options else b""
            route.send(qdisc(index, kind, handle=int(handle, 16), options=body, flags=netlink.REPLACE))
        else:
            _try(route, request(netlink.DEL_QDISC, 0, index, parent=netlink.ROOT))
    info = _PREFERENCE << 16 | _ANY_PROTOCOL
    _try(route, request(netlink.DEL_FILTER, 0, index, parent=_EGRESS, info=info))
    if clsact and not any(filters(route, index, parent) for parent in (_EGRESS, _EGRESS - 1)):
        _try(route, request(netlink.DEL_QDISC, 0, index, handle=CLSACT, parent=CLSACT_PARENT))


def _try(route: Route, message: bytes) -> None:
    """Send a request; what it should remove may be gone already."""
    with suppress(OSError):
        route.send(message)
