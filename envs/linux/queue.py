# SPDX-License-Identifier: BSD-3-Clause
"""`HostQueue`: a host's limit and an order among its flows, in the queue of its network device.

Two HTBs make it: one limits, and one within its limit orders. A program before them (bpf/order.bpf.c) names the class
of each packet:

- 1:2 is the line, 1:18 below it the host's limit, which takes all that has no other class;
- 2:10 to 2:17 within the limit are the classes of the order, the first of which goes first: packets without payload and
  the shortest messages. What is known of a message is its bytes that are acknowledged, in flight and written;
- 2:18 takes turns with 2:17, the last of them, and takes what has no place in the order: other protocols than TCP,
  forwarded packets;
- 1:3 beside the limit takes ARP, LLDP and their like, what this process sends with SO_PRIORITY `OPEN`, and everything
  while user space is silent.

The classes of the order never reach their rate, so an HTB serves them in strict order. Classes that borrow would not
do: the first packet of each, and one more after a minute, would go ahead of all that borrow, and overtake packets of
its own message. The limit holds for everything that leaves the device but for 1:3, whichever congestion control
sends it.
"""

import ctypes
import fcntl
import os
import socket
import struct
import time
from contextlib import suppress

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux import netlink
from ncc.envs.linux.netlink import Answer, Route, attribute, attributes, request
from ncc.envs.linux.order_program import CLASSES, OrderProgram

OPEN = 0x10003
"""Class beside the limit; SO_PRIORITY of sockets that ask for it, which takes CAP_NET_ADMIN."""
FIRST, REST = 0x20010, 0x20018
"""First class of the order, and the class of what has no place in it."""
LIMIT, LINE = 0x10018, 0x10002
RATE_MIN, RATE_MAX = 100, 2**40
"""Least and largest rate in bytes/s; others are these."""
BORROWS = 1
"""Rate of a class in bytes/s, which is nothing but what it borrows."""
BURST_PKTS, BURST_S = 2, 100e-6
"""Burst in full packets, or in seconds at the rate if that is more: timers are late by tens of microseconds."""
PROMPT_S, SETTLED_S = 2e-3, 0.05
"""A packet that left under a limit holds back the next one for as long as it takes at that limit, even if the limit
rises meanwhile. Right after a higher limit, one at which a full packet takes more than `PROMPT_S` is therefore raised
to that; from `SETTLED_S` on it holds as it is."""
QUEUE_PKTS = 20_000
"""Packets that each class holds."""
_HANDLE, _ORDER = 0x10000, 0x20000
_CLSACT, _CLSACT_PARENT, _EGRESS = 0xFFFF0000, 0xFFFFFFF1, 0xFFFFFFF3
_PREFERENCE, _FILTER = 0x4E43, b"ncc_order"
"""Place and name of the filter, by which it is known as ours."""
_WITH_CLSACT, _WITHIN_CLSACT = 1, 2
"""Handle of the filter: its clsact is ours and goes with it, or was there before and stays."""
_TCX_EGRESS = 47
"""BPF_TCX_EGRESS of linux/bpf.h."""
_ANY_PROTOCOL = 0x0300
"""ETH_P_ALL in network order."""
_PARMS, _INIT, _RATE64, _CEIL64 = 1, 2, 6, 7
_BPF_FD, _BPF_NAME, _BPF_FLAGS, _DIRECT_ACTION = 6, 7, 8, 1
_BASIC, _QUEUE = 1, 3
_GET_MTU, _GET_ADDRESS = 0x8921, 0x8927
_ETHERNETS, _ETHERNET_BYTES = (1, 772), 14
"""Kinds of devices that count a link-layer header per packet, and its size."""
_TICK_NS = 64
_SOURCE, _ETHERNET = struct.Struct("=BBHhHI"), 1
"""struct tc_ratespec; TC_LINKLAYER_ETHERNET, with which the kernel works out times itself."""
_GLOBAL = struct.Struct("=5I")
"""struct tc_htb_glob: version, rate over quantum, class of what has no other, debug, packets past all classes."""
_CLASS = struct.Struct(f"={_SOURCE.size * 2}s5I")
RESTORABLE = ("pfifo", "bfifo", "pfifo_fast", "fq", "fq_codel", "codel", "tbf", "mq", "noqueue")
"""Queues without classes of their own, which can be put back as they were."""


class HostQueue:
    """The queue of a network device, which takes the place of its root queue until `close`; may be closed twice.

    It is made in the namespace of the device; all calls work from any thread later. If this process ends without
    `close`, the queue stays, without a limit; `restore` removes it.

    Args:
        interface: name of the device.
        line_rate_bps: rate of the line, > 0; inf if it is not known.
        program: program that names classes; it must be open until the queue is closed.
        overhead_bytes: bytes of each packet on the line that the device does not count; they count in the line's rate.

    Attributes:
        before: text from which `restore` puts the former root queue back.

    Raises:
        ConfigError: there is no such device, or the rate is wrong.
        DatapathError: the device has a queue that could not be put back, or another program before ours, or the kernel
            refuses something.
    """

    def __init__(self, interface: str, line_rate_bps: float, *, program: OrderProgram, overhead_bytes: int = 0) -> None:
        _check_rate("HostQueue.line_rate_bps", line_rate_bps)
        self.interface, self.before = interface, ""
        self._line_bps, self._overhead_bytes = line_rate_bps, overhead_bytes
        self._index, self._packet_bytes, self._header_bytes = _device(interface)
        self._route: Route | None = Route()
        self._ceil = self._prompt_ns = 0
        self._ours = self._clsact = False
        try:
            self._set_up(program)
        except OSError as error:
            self.close()
            raise DatapathError(
                f"The kernel refuses the queue of {interface} ({os.strerror(error.errno or 0)}); `ncc host check` says "
                "what is missing."
            ) from None
        except BaseException:
            self.close()
            raise

    def _set_up(self, program: OrderProgram) -> None:
        route, index = self._opened(), self._index
        _remove_left(route, index)
        self.before = _root(route, index, self.interface)
        _check_first(route, index, self.interface)
        self._ours = True
        # The filter comes first and goes last, so that whatever a killed process leaves is known by it.
        with suppress(FileExistsError):
            route.send(_qdisc(index, "clsact", handle=_CLSACT, parent=_CLSACT_PARENT, flags=netlink.EXCLUSIVE))
            self._clsact = True
        route.send(_filter(index, _WITH_CLSACT if self._clsact else _WITHIN_CLSACT, program.fd))
        route.send(_htb(index, _HANDLE, LIMIT, flags=netlink.REPLACE))
        line, never = self._rate(self._line_bps), RATE_MAX
        route.all(
            [
                self._class(LINE, _HANDLE, rate=line, ceil=line, overhead_bytes=self._overhead_bytes),
                self._class(LIMIT, LINE, rate=BORROWS, ceil=line),
                self._class(OPEN, LINE, rate=BORROWS, ceil=line),
                _htb(index, _ORDER, REST, parent=LIMIT),
                *(self._class(FIRST + i, _ORDER, rate=never, ceil=never, prio=min(i, CLASSES - 1)) for i in range(9)),
            ]
        )
        fifo = attribute(netlink.OPTIONS, struct.pack("=I", QUEUE_PKTS))
        route.all(_qdisc(index, "pfifo", parent=leaf, options=fifo) for leaf in (OPEN, *range(FIRST, REST + 1)))

    def _opened(self) -> Route:
        if self._route is None:
            raise DatapathError(f"The queue of {self.interface} is closed.")
        return self._route

    def _rate(self, rate_bps: float) -> int:
        return int(min(max(rate_bps / BITS_PER_BYTE, RATE_MIN), RATE_MAX))

    def _burst_ticks(self, rate: int) -> int:
        """Return the time that a burst at a rate takes, in ticks; a class that only borrows has none of its own."""
        burst_bytes = max(BURST_PKTS * self._packet_bytes, rate * BURST_S) if rate > BORROWS else 1
        return max(1, round(burst_bytes / rate * NS_PER_S / _TICK_NS))

    def _class(
        self, handle: int, parent: int, *, rate: int, ceil: int, prio: int = 0, overhead_bytes: int = 0
    ) -> bytes:
        """Return a request that makes or changes a class; rates are in bytes/s of what the device counts."""
        specs = b"".join(
            _SOURCE.pack(0, _ETHERNET, overhead_bytes, 0, 0, min(each, 2**32 - 1)) for each in (rate, ceil)
        )
        bursts = (self._burst_ticks(rate), self._burst_ticks(ceil))
        options = (
            attribute(_PARMS, _CLASS.pack(specs, *bursts, self._packet_bytes, 0, prio))
            + attribute(_RATE64, struct.pack("=Q", rate))
            + attribute(_CEIL64, struct.pack("=Q", ceil))
        )
        body = attribute(netlink.KIND, b"htb\0") + attribute(netlink.OPTIONS, options)
        return request(netlink.NEW_CLASS, netlink.CREATE, self._index, handle=handle, parent=parent, body=body)

    def limit(self, rate_bps: float, now_ns: int | None = None) -> None:
        """Limit the host to a rate in bits/s of IP packets, exact for full ones; inf: the line's.

        `now_ns` is `time.monotonic_ns()`. A limit that changes all the time is best given in every period: see
        `PROMPT_S` for low ones. The kernel is asked only if something changes, which takes some 15 us.
        """
        _check_rate("HostQueue.limit", rate_bps)
        counted = rate_bps * (self._packet_bytes / (self._packet_bytes - self._header_bytes))
        ceil = self._rate(min(counted, self._line_bps))
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        if ceil >= (prompt := round(self._packet_bytes / PROMPT_S)):
            self._prompt_ns = now_ns
        elif now_ns - self._prompt_ns < SETTLED_S * NS_PER_S:
            ceil = prompt
        if ceil == self._ceil:
            return
        self._ceil = ceil
        try:
            self._opened().send(self._class(LIMIT, LINE, rate=BORROWS, ceil=ceil))
        except OSError as error:
            raise DatapathError(
                f"The queue of {self.interface} does not take a limit ({os.strerror(error.errno or 0)}): was it "
                "removed by another program?"
            ) from None

    def counters(self) -> dict[str, int]:
        """Return counts since the queue was made, in bytes as the device counts them.

        They are sent under the limit and outside it, waiting now, and packets dropped because a class was full.
        """
        found = dict.fromkeys(("limited_bytes", "open_bytes", "backlog_bytes", "dropped_pkts"), 0)
        for each in self._opened().ask(request(netlink.GET_CLASS, netlink.DUMP, self._index)):
            if each.handle not in (LIMIT, OPEN):
                continue
            stats = attributes(each.attributes.get(netlink.STATS, memoryview(b"")))
            if _BASIC not in stats or _QUEUE not in stats:
                continue
            (sent,) = struct.unpack_from("=Q", stats[_BASIC])
            found["limited_bytes" if each.handle == LIMIT else "open_bytes"] = sent
            _, backlog, dropped = struct.unpack_from("=3I", stats[_QUEUE])
            found["backlog_bytes"] += backlog
            found["dropped_pkts"] += dropped
        return found

    def check(self) -> None:
        """Raise `DatapathError` if another program has removed ours, or may decide before it: see `_check_first`."""
        route = self._opened()
        _check_first(route, self._index, self.interface)
        if not _filter_handle(route, self._index):
            raise DatapathError(
                f"Another program has removed the filter {_FILTER.decode()} of {self.interface}, without which the "
                "limit of a killed agent would stay: leave its clsact alone, and start the agent again."
            )

    def close(self) -> None:
        """Remove the queue and the program, and put the former root queue back."""
        route, self._route = self._route, None
        if route is None:
            return
        try:
            if self._ours:
                _remove(route, self._index, self.before, clsact=self._clsact)
        finally:
            route.close()

    def __enter__(self) -> "HostQueue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def occupied(interface: str) -> str:
    """Return kind and handle of a device's root queue that somebody has set up, as `tc` shows them.

    It is empty for a queue of the kernel's own choice, and for what a killed process of ours has left.
    """
    index, *_ = _device(interface)
    route = Route()
    try:
        found = _set_up_by_hand(route, index)
        left = found is not None and _is_htb(found) and (_filter_handle(route, index) > 0 or _has_order(route, index))
    finally:
        route.close()
    return "" if found is None or left else f"{found.kind} {found.handle >> 16:x}:"


def restore(interface: str, before: str = "") -> bool:
    """Remove what a process that was killed left at a device; return False if there is nothing.

    Args:
        interface: name of the device, in the calling thread's namespace.
        before: `HostQueue.before` of that process; without it the kernel's default queue comes back.
    """
    index, *_ = _device(interface)
    route = Route()
    try:
        return _remove_left(route, index, before)
    except OSError as error:
        raise DatapathError(f"The queue of {interface} cannot be put back: {os.strerror(error.errno or 0)}.") from None
    finally:
        route.close()


def _check_rate(what: str, rate_bps: float) -> None:
    if not rate_bps > 0:  # NaN fails too
        raise ConfigError(f"{what} must be above 0 bit/s, or inf for no limit, got {rate_bps}.")


def _device(interface: str) -> tuple[int, int, int]:
    """Return a device's index, the bytes of a full packet as it counts them, and those of its link-layer header."""
    try:
        index = socket.if_nametoindex(interface)
    except OSError:
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise ConfigError(f"there is no network interface {interface!r}; this machine has {known}") from None
    asked = struct.pack("16s16x8x", interface.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        (mtu,) = struct.unpack_from("=i", fcntl.ioctl(any_socket, _GET_MTU, asked), 16)
        (kind,) = struct.unpack_from("=H", fcntl.ioctl(any_socket, _GET_ADDRESS, asked), 16)
    header = _ETHERNET_BYTES if kind in _ETHERNETS else 0
    return index, mtu + header, header


def _qdisc(
    index: int, kind: str, *, handle: int = 0, parent: int = netlink.ROOT, options: bytes = b"", flags: int = 0
) -> bytes:
    body = attribute(netlink.KIND, kind.encode() + b"\0") + options
    return request(netlink.NEW_QDISC, netlink.CREATE | flags, index, handle=handle, parent=parent, body=body)


def _htb(index: int, handle: int, default: int, *, parent: int = netlink.ROOT, flags: int = 0) -> bytes:
    options = attribute(netlink.OPTIONS, attribute(_INIT, _GLOBAL.pack(3, 10, default & 0xFFFF, 0, 0)))
    return _qdisc(index, "htb", handle=handle, parent=parent, options=options, flags=flags)


def _filter(index: int, handle: int, program: int) -> bytes:
    options = (
        attribute(_BPF_FD, struct.pack("=I", program))
        + attribute(_BPF_NAME, _FILTER + b"\0")
        + attribute(_BPF_FLAGS, struct.pack("=I", _DIRECT_ACTION))
    )
    body = attribute(netlink.KIND, b"bpf\0") + attribute(netlink.OPTIONS, options)
    info = _PREFERENCE << 16 | _ANY_PROTOCOL
    return request(netlink.NEW_FILTER, netlink.CREATE, index, handle=handle, parent=_EGRESS, info=info, body=body)


def _filters(route: Route, index: int, parent: int = _EGRESS) -> list[Answer]:
    """Return the filters of a device that see what leaves it, or what `parent` says; none without a clsact."""
    try:
        return list(route.ask(request(netlink.GET_FILTER, netlink.DUMP, index, parent=parent)))
    except OSError:
        return []


def _filter_handle(route: Route, index: int) -> int:
    """Return the handle of our filter at a device; 0: it has none."""
    for each in _filters(route, index):
        name = attributes(each.attributes.get(netlink.OPTIONS, memoryview(b""))).get(_BPF_NAME)
        if name is not None and bytes(name).rstrip(b"\0") == _FILTER:
            return int(each.handle)
    return 0


def _check_first(route: Route, index: int, interface: str) -> None:
    """Raise `DatapathError` if another program may decide before ours: then a limit could outlive the heartbeat."""
    tcx = ctypes.c_uint32(0)  # stays 0 on kernels without
    ctypes.CDLL("libbpf.so.1").bpf_prog_query(index, _TCX_EGRESS, 0, None, None, ctypes.byref(tcx))
    if tcx.value or any(each.info >> 16 < _PREFERENCE for each in _filters(route, index)):
        shown = f"bpftool net show dev {interface}" if tcx.value else f"tc filter show dev {interface} egress"
        raise DatapathError(
            f"{interface} has a program of somebody else's ({shown}) that could keep packets from ours, so that the "
            "limit of a killed agent would stay: remove it, or take another interface."
        )


def _root(route: Route, index: int, interface: str) -> str:
    """Return a device's root queue as a text; empty for one that the kernel sets up itself."""
    found = _set_up_by_hand(route, index)
    if found is None:
        return ""
    if found.kind not in RESTORABLE:
        raise DatapathError(
            f"{interface} has a queue of kind {found.kind}, which has classes or settings that could not be put back "
            f"later: remove it (tc qdisc del dev {interface} root) or take another interface."
        )
    options = bytes(found.attributes.get(netlink.OPTIONS, b""))
    return f"{found.kind} {found.handle:x} {options.hex()}"


def _set_up_by_hand(route: Route, index: int) -> Answer | None:
    """Return a device's root queue; None for one that the kernel sets up itself, and if the device has gone."""
    found = list[Answer]()
    with suppress(OSError):
        found = list(route.ask(request(netlink.GET_QDISC, netlink.ECHO, index, parent=netlink.ROOT)))
    return found[-1] if found and found[-1].handle else None


def _is_htb(root: Answer) -> bool:
    """Return True if a root queue is our HTB, which somebody else's with the same handle is not."""
    if (root.kind, root.handle) != ("htb", _HANDLE):
        return False
    found = attributes(root.attributes.get(netlink.OPTIONS, memoryview(b""))).get(_INIT)
    return found is not None and _GLOBAL.unpack_from(found)[2] == LIMIT & 0xFFFF


def _has_order(route: Route, index: int) -> bool:
    """Return True if a device has the HTB of the order, by which a queue whose filter somebody removed is known."""
    found = list(route.ask(request(netlink.GET_QDISC, netlink.DUMP, index)))
    return any((each.index, each.handle, each.parent, each.kind) == (index, _ORDER, LIMIT, "htb") for each in found)


def _remove_left(route: Route, index: int, before: str = "") -> bool:
    """Remove what a process that was killed left at a device; return False if there is nothing."""
    handle = _filter_handle(route, index)
    root = None if handle else _set_up_by_hand(route, index)
    if not handle and not (root is not None and _is_htb(root) and _has_order(route, index)):
        return False
    _remove(route, index, before, clsact=handle == _WITH_CLSACT)
    return True


def _remove(route: Route, index: int, before: str = "", *, clsact: bool) -> None:
    """Remove our program, queue and `clsact` from a device, and put `before` back; leave what others have alone."""
    root = _set_up_by_hand(route, index)
    if root is not None and _is_htb(root):
        if before:
            kind, handle, options = before.split(" ")
            body = attribute(netlink.OPTIONS, bytes.fromhex(options)) if options else b""
            route.send(_qdisc(index, kind, handle=int(handle, 16), options=body, flags=netlink.REPLACE))
        else:
            _try(route, request(netlink.DEL_QDISC, 0, index, parent=netlink.ROOT))
    info = _PREFERENCE << 16 | _ANY_PROTOCOL
    _try(route, request(netlink.DEL_FILTER, 0, index, parent=_EGRESS, info=info))
    if clsact and not any(_filters(route, index, parent) for parent in (_EGRESS, _EGRESS - 1)):
        _try(route, request(netlink.DEL_QDISC, 0, index, handle=_CLSACT, parent=_CLSACT_PARENT))


def _try(route: Route, message: bytes) -> None:
    """Send a request; what it should remove may be gone already."""
    with suppress(OSError):
        route.send(message)
