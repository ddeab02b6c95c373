# SPDX-License-Identifier: BSD-3-Clause
"""Root queue and filters of a network device: reading them, recognising ours, and removing ours.

A queue of `ncc.envs.linux.queue.HostQueue` is recognised by its filter or, if that was removed, by its two HTBs.
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
"""Class of the host's limit, the default class."""
ROOT, ORDER = 0x10000, 0x20000
"""Handles of the HTB that limits, and of the HTB inside `LIMIT` that orders."""
CLSACT, CLSACT_PARENT = 0xFFFF0000, 0xFFFFFFF1
WITH_CLSACT, WITHIN_CLSACT = 1, 2
"""The two handles that our filter can have. They tell a clsact that is ours and is removed too from one that stays."""
FILTER = b"ncc_order"
"""Name that marks the filter as ours."""
TCX_EGRESS = 47
"""BPF_TCX_EGRESS of linux/bpf.h."""
RESTORABLE = ("pfifo", "bfifo", "pfifo_fast", "fq", "fq_codel", "codel", "tbf", "mq", "noqueue")
"""Queues without classes of their own, which can be put back as they were."""
INGRESS, EGRESS, PREFERENCE = 0xFFFFFFF2, 0xFFFFFFF3, 0x4E43
"""Parents of filters on a clsact: for packets that arrive, and for packets before they are queued. Our filter's
preference."""
_ANY_PROTOCOL = 0x0300
"""ETH_P_ALL in network order."""
_INIT = 2
_BPF_FD, _BPF_NAME, _BPF_FLAGS, _DIRECT_ACTION = 6, 7, 8, 1
_GET_MTU, _GET_ADDRESS = 0x8921, 0x8927
_ETHERNETS, ETHERNET_BYTES = (1, 772), 14
"""Kinds of devices that count a link-layer header per packet, and its size."""
_GLOBAL = struct.Struct("=5I")
"""struct tc_htb_glob: version, rate over quantum, default class, debug, packets that bypassed all classes."""


def occupied(interface: str) -> str:
    """Return kind and handle of a device's root queue, as `tc` shows them, if somebody has set it up.

    The text is empty for the kernel's default queue, and for a queue that a killed process of ours has left.
    """
    index, *_ = properties(interface)
    route = Route()
    try:
        root = set_up_by_hand(route, index)
        left = root is not None and is_ours(root) and (filter_handle(route, index) > 0 or has_order(route, index))
    finally:
        route.close()
    return "" if root is None or left else f"{root.kind} {root.handle >> 16:x}:"


def restore(interface: str, before: str = "") -> bool:
    """Remove the queue and filter that a killed process left at a device; return False if there are none.

    Args:
        interface: name of the device, in the calling thread's namespace.
        before: `HostQueue.before` of that process; if empty, the kernel's default queue comes back.
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
    """Return a device's index, and the bytes of a full packet (header included) and of its link-layer header."""
    index = interface_index(interface)
    ifreq = struct.pack("16s16x8x", interface.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        (mtu,) = struct.unpack_from("=i", fcntl.ioctl(any_socket, _GET_MTU, ifreq), 16)
        (kind,) = struct.unpack_from("=H", fcntl.ioctl(any_socket, _GET_ADDRESS, ifreq), 16)
    header = ETHERNET_BYTES if kind in _ETHERNETS else 0
    return index, mtu + header, header


def qdisc(
    index: int, kind: str, *, handle: int = 0, parent: int = netlink.ROOT, options: bytes = b"", flags: int = 0
) -> bytes:
    """Return a request that makes a queue of a kind, at the root of a device or in a class."""
    body = attribute(netlink.KIND, kind.encode() + b"\0") + options
    return request(netlink.NEW_QDISC, netlink.CREATE | flags, index, handle=handle, parent=parent, body=body)


def htb(index: int, handle: int, default: int, *, parent: int = netlink.ROOT, flags: int = 0) -> bytes:
    """Return a request that makes an HTB; `default` is its default class."""
    options = attribute(netlink.OPTIONS, attribute(_INIT, _GLOBAL.pack(3, 10, default & 0xFFFF, 0, 0)))
    return qdisc(index, "htb", handle=handle, parent=parent, options=options, flags=flags)


def clsact(index: int, flags: int = 0) -> bytes:
    """Return a request that gives a device a clsact, the place of its filters."""
    return qdisc(index, "clsact", handle=CLSACT, parent=CLSACT_PARENT, flags=flags)


def bpf_filter(
    index: int,
    program: int,
    *,
    name: bytes = FILTER,
    handle: int = 1,
    parent: int = EGRESS,
    preference: int = PREFERENCE,
) -> bytes:
    """Return a request that attaches a program (descriptor) to a device; lower preferences come first."""
    options = (
        attribute(_BPF_FD, struct.pack("=I", program))
        + attribute(_BPF_NAME, name + b"\0")
        + attribute(_BPF_FLAGS, struct.pack("=I", _DIRECT_ACTION))
    )
    body = attribute(netlink.KIND, b"bpf\0") + attribute(netlink.OPTIONS, options)
    info = preference << 16 | _ANY_PROTOCOL
    return request(netlink.NEW_FILTER, netlink.CREATE, index, handle=handle, parent=parent, info=info, body=body)


def filters(route: Route, index: int, parent: int = EGRESS) -> list[Answer]:
    """Return the filters of a device's outgoing packets, or those at another `parent`.

    The list is empty if the kernel refuses the request for any reason, such as a device without a clsact.
    """
    try:
        return list(route.ask(request(netlink.GET_FILTER, netlink.DUMP, index, parent=parent)))
    except OSError:
        return []


def filter_handle(route: Route, index: int) -> int:
    """Return the handle of our filter at a device; 0: it has none."""
    for answer in filters(route, index):
        name = attributes(answer.attributes.get(netlink.OPTIONS, memoryview(b""))).get(_BPF_NAME)
        if name is not None and bytes(name).rstrip(b"\0") == FILTER:
            return int(answer.handle)
    return 0


def check_first(route: Route, index: int, interface: str) -> None:
    """Raise `DatapathError` if another program runs before ours: then a limit could outlive the heartbeat."""
    tcx = ctypes.c_uint32(0)  # stays 0 on kernels without tcx
    ctypes.CDLL("libbpf.so.1").bpf_prog_query(index, TCX_EGRESS, 0, None, None, ctypes.byref(tcx))
    if tcx.value or any(answer.info >> 16 < PREFERENCE for answer in filters(route, index)):
        shown = f"bpftool net show dev {interface}" if tcx.value else f"tc filter show dev {interface} egress"
        raise DatapathError(
            f"{interface} has a program of somebody else's ({shown}) that could keep packets from ours, so that the "
            "limit of a killed agent would stay: remove it, or take another interface."
        )


def root_before(route: Route, index: int, interface: str) -> str:
    """Return a device's root queue as text for `remove`; empty for the kernel's default queue.

    Raises:
        DatapathError: the queue is of a kind that could not be put back.
    """
    root = set_up_by_hand(route, index)
    if root is None:
        return ""
    if root.kind not in RESTORABLE:
        raise DatapathError(
            f"{interface} has a queue of kind {root.kind}, which has classes or settings that could not be put back "
            f"later: remove it (tc qdisc del dev {interface} root) or take another interface."
        )
    options = bytes(root.attributes.get(netlink.OPTIONS, b""))
    return f"{root.kind} {root.handle:x} {options.hex()}"


def set_up_by_hand(route: Route, index: int) -> Answer | None:
    """Return a device's root queue; None for the kernel's default queue, or if the kernel refuses (device gone)."""
    answers = list[Answer]()
    with suppress(OSError):
        answers = list(route.ask(request(netlink.GET_QDISC, netlink.ECHO, index, parent=netlink.ROOT)))
    return answers[-1] if answers and answers[-1].handle else None


def is_ours(root: Answer) -> bool:
    """Return True if a root queue is our HTB, by its handle and its default class."""
    if (root.kind, root.handle) != ("htb", ROOT):
        return False
    options = attributes(root.attributes.get(netlink.OPTIONS, memoryview(b""))).get(_INIT)
    return options is not None and _GLOBAL.unpack_from(options)[2] == LIMIT & 0xFFFF


def has_order(route: Route, index: int) -> bool:
    """Return True if a device has the HTB of the order, which marks a queue as ours when its filter was removed."""
    queues = list(route.ask(request(netlink.GET_QDISC, netlink.DUMP, index)))
    return any((one.index, one.handle, one.parent, one.kind) == (index, ORDER, LIMIT, "htb") for one in queues)


def remove_left(route: Route, index: int, before: str = "") -> bool:
    """Remove the queue and filter that a killed process left at a device; return False if there are none."""
    handle = filter_handle(route, index)
    root = None if handle else set_up_by_hand(route, index)
    if not handle and not (root is not None and is_ours(root) and has_order(route, index)):
        return False
    remove(route, index, before, clsact=handle == WITH_CLSACT)
    return True


def remove(route: Route, index: int, before: str = "", *, clsact: bool) -> None:
    """Remove our program, queue and `clsact` from a device and put `before` back; leave everything else alone."""
    root = set_up_by_hand(route, index)
    if root is not None and is_ours(root):
        if before:
            kind, handle, options = before.split(" ")
            body = attribute(netlink.OPTIONS, bytes.fromhex(options)) if options else b""
            route.send(qdisc(index, kind, handle=int(handle, 16), options=body, flags=netlink.REPLACE))
        else:
            _try(route, request(netlink.DEL_QDISC, 0, index, parent=netlink.ROOT))
    info = PREFERENCE << 16 | _ANY_PROTOCOL
    _try(route, request(netlink.DEL_FILTER, 0, index, parent=EGRESS, info=info))
    if clsact and not any(filters(route, index, parent) for parent in (EGRESS, EGRESS - 1)):
        _try(route, request(netlink.DEL_QDISC, 0, index, handle=CLSACT, parent=CLSACT_PARENT))


def _try(route: Route, message: bytes) -> None:
    """Send a request to remove something that may be gone already."""
    with suppress(OSError):
        route.send(message)
