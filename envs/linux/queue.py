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

import os
import struct
import time
from contextlib import suppress

from ncc.core.errors import DatapathError
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux import device, netlink
from ncc.envs.linux.device import LIMIT
from ncc.envs.linux.netlink import Route, attribute, attributes, request
from ncc.envs.linux.order_program import CLASSES, OrderProgram

OPEN = 0x10003
"""Class beside the limit; SO_PRIORITY of sockets that ask for it, which takes CAP_NET_ADMIN."""
FIRST, REST = 0x20010, 0x20018
"""First class of the order, and the class of what has no place in it."""
LINE = 0x10002
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
_PARMS, _RATE64, _CEIL64 = 1, 6, 7
_BASIC, _QUEUE = 1, 3
_TICK_NS = 64
_SOURCE, _ETHERNET = struct.Struct("=BBHhHI"), 1
"""struct tc_ratespec; TC_LINKLAYER_ETHERNET, with which the kernel works out times itself."""
_CLASS = struct.Struct(f"={_SOURCE.size * 2}s5I")


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
        ConfigError: there is no such device.
        DatapathError: the device has a queue that could not be put back, or another program before ours, or the kernel
            refuses something.
    """

    def __init__(self, interface: str, line_rate_bps: float, *, program: OrderProgram, overhead_bytes: int = 0) -> None:
        self.interface, self.before = interface, ""
        self._line_bps, self._overhead_bytes = line_rate_bps, overhead_bytes
        self._index, self._packet_bytes, self._header_bytes = device.properties(interface)
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
        device.remove_left(route, index)
        self.before = device.root_before(route, index, self.interface)
        device.check_first(route, index, self.interface)
        self._ours = True
        # The filter comes first and goes last, so that whatever a killed process leaves is known by it.
        with suppress(FileExistsError):
            route.send(
                device.qdisc(
                    index, "clsact", handle=device.CLSACT, parent=device.CLSACT_PARENT, flags=netlink.EXCLUSIVE
                )
            )
            self._clsact = True
        route.send(device.bpf_filter(index, device.WITH_CLSACT if self._clsact else device.WITHIN_CLSACT, program.fd))
        route.send(device.htb(index, device.ROOT, LIMIT, flags=netlink.REPLACE))
        line, never = self._rate(self._line_bps), RATE_MAX
        route.all(
            [
                self._class(LINE, device.ROOT, rate=line, ceil=line, overhead_bytes=self._overhead_bytes),
                self._class(LIMIT, LINE, rate=BORROWS, ceil=line),
                self._class(OPEN, LINE, rate=BORROWS, ceil=line),
                device.htb(index, device.ORDER, REST, parent=LIMIT),
                *(
                    self._class(FIRST + i, device.ORDER, rate=never, ceil=never, prio=min(i, CLASSES - 1))
                    for i in range(9)
                ),
            ]
        )
        fifo = attribute(netlink.OPTIONS, struct.pack("=I", QUEUE_PKTS))
        route.all(device.qdisc(index, "pfifo", parent=leaf, options=fifo) for leaf in (OPEN, *range(FIRST, REST + 1)))

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
        """Raise `DatapathError` if another program has removed ours, or may decide before it: `device.check_first`."""
        route = self._opened()
        device.check_first(route, self._index, self.interface)
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

    def __enter__(self) -> "HostQueue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
