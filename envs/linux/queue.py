# SPDX-License-Identifier: BSD-3-Clause
"""`HostQueue`: a host's limit and an order among its flows, in the queue of its network device.

The queue has two HTBs: the outer one limits, the inner one orders. A program before them (bpf/order.bpf.c) names the
class of each packet:

- 1:2 is the line. 1:18 below it is the host's limit, the default class.
- 2:10 to 2:17 inside the limit are the classes of the order. 2:10 is served first; it has packets without payload and
  the shortest messages. A message counts with its known bytes: those acknowledged, in flight, and written by now.
- 2:18 and 2:19 inside the limit have the packets outside the order: protocols other than TCP, forwarded packets. 2:19
  has the small ones, 2:18 all others. Each has a share of the limit (`SHARE_FRAC`) ahead of the order, and beyond it
  what the order leaves. Their queues are short (`SHARE_S`).
- 1:3 is outside the limit. It has packets that this process sends with SO_PRIORITY `OPEN`, and all packets while user
  space is silent.
- 1:4 is outside the limit, with a ceiling of its own (`LINK_BPS`). It has what keeps the link up, if this host sends it
  itself: ARP, LACP, EAPOL, LLDP, and neighbour discovery of IPv6.

The classes of the order never reach their rate, so an HTB serves them in strict order. If they borrowed, the order
would fail: the first packet of each, and one more after a minute, would go ahead of all borrowing classes and overtake
packets of its own message. The limit holds for all packets that leave the device except those in 1:3 and 1:4, under any
congestion control.
"""

import math
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux import device, netlink
from ncc.envs.linux.device import LIMIT
from ncc.envs.linux.extension import extension
from ncc.envs.linux.netlink import Answer, Route, attribute, attributes, request
from ncc.envs.linux.order_program import CLASSES, OrderProgram
from ncc.envs.linux.shim import Shim

OPEN = 0x10003
"""Class outside the limit; a socket chooses it by SO_PRIORITY, which takes CAP_NET_ADMIN."""
LINK, LINK_BPS, LINK_PKTS = 0x10004, 2e6, 2048
"""Class of what keeps the link up, its ceiling in bits/s, and the packets that it holds.

A user who sends to unused addresses makes the kernel ask for 1,024 neighbours at once (gc_thresh3), each once a second,
in IPv4 (42 bytes) and in IPv6 (86 bytes): 1.05 Mbit/s, of which no packet is lost here.
"""
FIRST, REST, EARLY = 0x20010, 0x20018, 0x20019
"""First class of the order, the class of packets outside the order, and that of the small ones among these."""
SMALL_BYTES = 256
"""Size of the largest small packet, with its link-layer header."""
SHARE_FRAC, SHARE_DRIFT, SHARE_FOLLOWS_S = 0.05, 1.25, 0.05
"""Share of the limit that `REST` and `EARLY` have each. It follows a limit that has changed by more than this factor,
at most once in this time."""
SHARE_S, SHARE_PKTS = 0.1, 32
"""Longest wait of a packet in a queue of these two classes at this share, and least number of packets that it holds."""
LINE, INSIDE = 0x10002, 0x20001
"""Parents of classes: the line, and all bandwidth inside the limit, which `REST` and `EARLY` borrow."""
RATE_MIN, RATE_MAX = 100, 2**40
"""Least and largest rate in bytes/s; other rates are clipped to these."""
BORROWS = 1
"""Rate in bytes/s of a class that borrows all its bandwidth."""
BURST_PKTS, BURST_S = 2, 100e-6
"""Burst in full packets, or in seconds at the rate if that is more: timers are late by tens of microseconds."""
PROMPT_S, SETTLED_S = 2e-3, 1.0
"""A packet delays the next one by its transmission time at the limit in force, even if the limit rises meanwhile. A
limit is low if a full packet takes more than `PROMPT_S` at it. Instead of a low limit, the rate at which it takes
`PROMPT_S` is in force at first; the low limit itself follows `SETTLED_S` after the last limit that was not low. A host
that waits for its turn has a low limit, and must not lose time when its turn comes (docs/linux/order.md)."""
HELD_BYTES = 65_536
"""Bytes of a message that may wait in the queue of a host with a limit."""
GROWING = ("limited_bytes", "open_bytes", "dropped_pkts", "silent_pkts")
QUEUE_PKTS = 20_000
"""Packets that each other class holds."""
_PARMS, _CEIL64, _CEIL_AT = 1, 7, 20
"""TCA_HTB_PARMS, TCA_HTB_CEIL64, and the place of the ceiling in struct tc_htb_opt."""


class HostQueue:
    """The queue of a network device. It replaces the root queue until `close`, which may be called twice.

    Construct it in the namespace of the device; later calls work from any thread. If this process ends without `close`,
    the queue stays, without a limit; `device.restore` removes it.

    Args:
        interface: name of the device.
        line_rate_bps: rate of the line, > 0; inf if it is not known.
        program: program that names classes; it must be open until the queue is closed.
        overhead_bytes: bytes per packet on the line that the device does not count; the line's rate includes them.

    Attributes:
        before: text from which `device.restore` puts the former root queue back.

    Raises:
        ConfigError: there is no such device.
        DatapathError: the device has a queue that could not be put back, or another program before ours, or the kernel
            refuses something.
    """

    def __init__(self, interface: str, line_rate_bps: float, *, program: OrderProgram, overhead_bytes: int = 0) -> None:
        self.interface, self.before = interface, ""
        self._line_bps, self._overhead_bytes = line_rate_bps, overhead_bytes
        self._index, self._packet_bytes, self._header_bytes = device.properties(interface)
        self._classes = extension().Classes(self._index, self._packet_bytes, BURST_PKTS, BURST_S)
        self._route: Route | None = Route()
        self._ceil = self._shared = self._share_pkts = self._share_ns = self._prompt_ns = 0
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
        device.remove_left(route, index)
        self.before = device.root_before(route, index, self.interface)
        device.check_first(route, index, self.interface)
        self._ours = True
        # The filter is added first and removed last, so that it marks whatever a killed process leaves.
        with suppress(FileExistsError):
            route.send(device.clsact(index, netlink.EXCLUSIVE))
            self._clsact = True
        handle = device.WITH_CLSACT if self._clsact else device.WITHIN_CLSACT
        route.send(device.bpf_filter(index, program.fd, handle=handle))
        route.send(device.htb(index, device.ROOT, LIMIT, flags=netlink.REPLACE))
        line, never, set_class = self._rate(self._line_bps), RATE_MAX, self._classes.set
        set_class(LINE, device.ROOT, line, line, overhead_bytes=self._overhead_bytes, inner=True)
        for handle in (LIMIT, OPEN):
            set_class(handle, LINE, BORROWS, line)
        set_class(LINK, LINE, BORROWS, min(line, self._rate(LINK_BPS)))
        self._classes.send()
        route.send(device.htb(index, device.ORDER, REST, parent=LIMIT))
        for i in range(CLASSES):
            set_class(FIRST + i, device.ORDER, never, never, prio=i)
        set_class(INSIDE, device.ORDER, never, never, inner=True)
        self._set_share(line)
        self._classes.send()
        self._shared = line
        leaves = (OPEN, *range(FIRST, FIRST + CLASSES))
        route.send(*(self._fifo(leaf, QUEUE_PKTS) for leaf in leaves), self._fifo(LINK, LINK_PKTS))
        self._set_share_pkts(line)

    def _opened(self) -> Route:
        if self._route is None:
            raise DatapathError(f"The queue of {self.interface} is closed.")
        return self._route

    def _rate(self, rate_bps: float) -> int:
        return int(min(max(rate_bps / BITS_PER_BYTE, RATE_MIN), RATE_MAX))

    def _fifo(self, leaf: int, pkts: int) -> bytes:
        """Return a request that makes or changes the queue of a class."""
        options = attribute(netlink.OPTIONS, struct.pack("=I", pkts))
        return device.qdisc(self._index, "pfifo", parent=leaf, options=options, flags=netlink.REPLACE)

    def _set_share(self, ceil: int) -> None:
        """Give the classes outside the order their share of a limit of `ceil` bytes/s at the next `Classes.send`."""
        for handle in (REST, EARLY):
            self._classes.set(handle, INSIDE, max(RATE_MIN, round(SHARE_FRAC * ceil)), RATE_MAX)

    def _set_share_pkts(self, ceil: int) -> None:
        """Let the classes outside the order hold as many packets as suit their share of a limit of `ceil` bytes/s."""
        pkts = max(SHARE_PKTS, min(QUEUE_PKTS, round(SHARE_FRAC * ceil * SHARE_S / self._packet_bytes)))
        if pkts != self._share_pkts:
            self._opened().send(*(self._fifo(handle, pkts) for handle in (REST, EARLY)))
        self._share_pkts = pkts

    def limit(self, rate_bps: float, now_ns: int | None = None) -> None:
        """Limit the host to a rate in bits/s of IP packets (exact for full packets); inf: the line's rate.

        `now_ns` is `time.monotonic_ns()`. Call this in every period, also if the limit stays: low limits come into
        force in two steps (`PROMPT_S`). Only a change asks the kernel.
        """
        counted = rate_bps * (self._packet_bytes / (self._packet_bytes - self._header_bytes))
        ceil = self._rate(min(counted, self._line_bps))
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        if ceil >= (prompt := round(self._packet_bytes / PROMPT_S)):
            self._prompt_ns = now_ns
        elif now_ns - self._prompt_ns < SETTLED_S * NS_PER_S:
            ceil = prompt
        drifts = not 1 / SHARE_DRIFT <= ceil / self._shared <= SHARE_DRIFT
        shares = drifts and now_ns - self._share_ns >= SHARE_FOLLOWS_S * NS_PER_S
        if ceil == self._ceil and not shares:
            return
        self._opened()
        self._ceil = 0  # not known until the kernel has taken it
        try:
            self._classes.set(LIMIT, LINE, BORROWS, ceil)
            if shares:
                self._set_share(ceil)
            self._classes.send()
            if shares:
                self._set_share_pkts(ceil)
                self._shared, self._share_ns = ceil, now_ns
        except OSError as error:
            raise DatapathError(
                f"The queue of {self.interface} does not take a limit ({os.strerror(error.errno or 0)}): was it "
                "removed by another program?"
            ) from None
        self._ceil = ceil

    def counters(self) -> dict[str, int]:
        """Return counts since the queue was made, and the bytes that wait now; bytes are as the device counts them.

        The counts are bytes sent under and outside the limit, and packets dropped because a class was full.
        """
        counts = dict.fromkeys(("limited_bytes", "open_bytes", "backlog_bytes", "dropped_pkts"), 0)
        for answer in self._opened().ask(request(netlink.GET_CLASS, netlink.DUMP, self._index)):
            if answer.handle in (LIMIT, OPEN, LINK) and answer.counts is not None:
                sent, waiting, dropped = answer.counts
                counts["limited_bytes" if answer.handle == LIMIT else "open_bytes"] += sent
                counts["backlog_bytes"] += waiting
                counts["dropped_pkts"] += dropped
        return counts

    def check(self) -> None:
        """Raise `DatapathError` if another program has removed ours or runs before it (`device.check_first`).

        The same for one that has changed classes of the queue or has added filters to it.
        """
        route = self._opened()
        device.check_first(route, self._index, self.interface)
        answers = {answer.handle: answer for answer in route.ask(request(netlink.GET_CLASS, netlink.DUMP, self._index))}
        filtered = any(device.filters(route, self._index, at) for at in (device.ROOT, LINE, device.ORDER, INSIDE))
        written = self._classes.written()
        if (
            filtered
            or answers.keys() != written.keys()
            or any(not _as_written(answers[at], written[at]) for at in answers)
        ):
            raise DatapathError(
                f"Another program has changed the queue of {self.interface} (classes or filters; tc class show dev "
                f"{self.interface}), and what leaves is not limited as decided: leave it alone, and start the agent "
                "again."
            )
        if not device.filter_handle(route, self._index):
            raise DatapathError(
                f"Another program has removed the filter {device.FILTER.decode()} of {self.interface}, without which "
                "the limit of a killed agent would stay: leave its clsact alone, and start the agent again."
            )

    def close(self) -> None:
        """Remove the queue and the program, and put the former root queue back."""
        route, self._route = self._route, None
        if route is None:
            return
        try:
            if self._ours:
                device.remove(route, self._index, self.before, clsact=self._clsact)
        finally:
            route.close()
            self._classes.close()

    def __enter__(self) -> "HostQueue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _as_written(answer: Answer, written: bytes) -> bool:
    """Return True if a class in the kernel's answer has the options that were written last."""
    options = attributes(answer.attributes.get(netlink.OPTIONS, memoryview(b"")))
    return all(options[kind] == data for kind, data in attributes(memoryview(written)).items() if kind in options)


class Queues:
    """Queues of hosts 0 to k - 1 that enforce limits and an order.

    Attributes:
        counts: bytes sent under the limits and outside them, with link-layer headers, packets dropped, and packets that
            have left outside because no beat came, as of the last `check`.
    """

    def __init__(self, program: OrderProgram, queues: Sequence[HostQueue]) -> None:
        self.program, self._queues = program, queues
        self.counts = dict.fromkeys(GROWING, 0)
        self._silent_pkts: int | None = None
        self._windows = list[int]()

    def decide(self, limits_bps: FloatArray, now_ns: int, shim: Shim | None = None) -> None:
        """Put limits [k] (bits/s, inf: none) into force, or renew them.

        On hosts with a limit, `shim` lets connections send whole messages into the queue, which orders them.
        """
        self.program.beat(now_ns)
        if self._silent_pkts is None:  # packets before the first decision do not count
            self._silent_pkts = self.program.silent_pkts
        limits = limits_bps.tolist()
        windows = [HELD_BYTES if limit < math.inf else 0 for limit in limits]
        if shim is not None and windows != self._windows:
            shim.hold(windows)
            self._windows = windows
        for queue, limit_bps in zip(self._queues, limits, strict=True):
            queue.limit(limit_bps, now_ns)

    @property
    def silent_pkts(self) -> int:
        """Number of packets that have left outside the limits since the first decision because no beat came."""
        return 0 if self._silent_pkts is None else self.program.silent_pkts - self._silent_pkts

    def counters(self) -> dict[str, int]:
        """Return counts of the program since the first decision, and of all queues."""
        counts = self.program.counters()
        counts["silent_pkts"] = self.silent_pkts
        for queue in self._queues:
            for name, count in queue.counters().items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def check(self) -> None:
        """Bring `counts` up to date, from the thread that limits.

        Raises:
            DatapathError: another program has replaced a queue, or comes before ours (`HostQueue.check`).
        """
        counters = self.counters()
        counts = {name: counters[name] for name in GROWING}
        if any(counts[name] < self.counts[name] for name in GROWING):
            names = ", ".join(queue.interface for queue in self._queues)
            raise DatapathError(f"Another program has replaced the queue of {names}: nothing limits what leaves.")
        self.counts = counts
        for queue in self._queues:
            queue.check()


def kernel_limits_bps(interface: str) -> Iterator[float | None]:
    """Yield the limit of an interface in the kernel, in bits/s of IP packets in full frames (None: the line's rate).

    Yield nothing if the interface has no queue of ours.
    """
    ceilings = dict[int, int]()
    try:
        index, packet_bytes, header_bytes = device.properties(interface)
        with closing(Route()) as route:
            if not device.filter_handle(route, index):
                return
            for answer in route.ask(request(netlink.GET_CLASS, netlink.DUMP, index)):
                options = attributes(answer.attributes.get(netlink.OPTIONS, memoryview(b"")))
                if _PARMS in options:
                    (ceilings[answer.handle],) = struct.unpack_from("=I", options[_PARMS], _CEIL_AT)
                if _CEIL64 in options:
                    (ceilings[answer.handle],) = struct.unpack_from("=Q", options[_CEIL64])
    except (ConfigError, OSError):  # gone meanwhile
        return
    if LIMIT not in ceilings:
        return
    limit, line = ceilings[LIMIT], ceilings.get(LINE, 0)
    yield None if limit >= line else limit * BITS_PER_BYTE * (packet_bytes - header_bytes) / packet_bytes
