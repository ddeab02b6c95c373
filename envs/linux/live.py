# SPDX-License-Identifier: BSD-3-Clause
"""`Live`: hosts as they are, whose connections nobody announced, measured through the shim's reports and held by it.

Columns are those of `ncc.core.measurement`, except where the kernel knows less than a simulator:

- How large a flow is, nobody knows: `queued_bytes` is what applications have written and the kernel has not sent,
  `next_bytes` the least of it, and a flow is queued if it has any. What an application has not written yet, because the
  send buffer is full, is not in it.
- `wait_s` counts from the end of the period in which new bytes of the flow last left; before that from its beginning.
- All of a connection is as of its last ACK: of one whose first data is on its way nothing is known.
- Limits hold for all connections from a host's address, also for those to its neighbours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux import layout
from ncc.envs.linux.limits import Limits
from ncc.envs.linux.order import WeightsByWait
from ncc.envs.linux.shim import Shim

Counter = Callable[[], int]
"""Bytes of IP packets that have left a host's interface since whenever."""
READS = 20
"""Times a report is read that the kernel is writing, before it is left to the next period."""
WEIGH_NS = 8_000_000
"""As for runs (senders.py): weights are worked out anew no sooner than the kernel passes on what a flow leaves."""
_COUNTS = (
    "delivered_bytes",
    "sent_bytes",
    "retrans_bytes",
    "sent_packets",
    "rtt_sum_ns",
    "rtt_samples",
    "unsent_bytes",
    "began_ns",
)
"""Of `layout.REPORT`, 64 bits each."""
_WORDS = [layout.REPORT.fields[name][1] // 8 for name in _COUNTS]  # type: ignore[index]
_DELIVERED, _SENT, _RETRANS, _PACKETS, _RTT_SUM, _RTTS, _UNSENT, _BEGAN = range(len(_COUNTS))


@dataclass(frozen=True)
class HostColumns:
    """A period of some hosts, [k] each; names are those of `ncc.core.measurement`."""

    throughput_bps: FloatArray
    goodput_bps: FloatArray
    rtt_s: FloatArray
    wait_s: FloatArray
    queued_bytes: FloatArray
    next_bytes: FloatArray
    queued_flows: IntArray
    interval_s: float
    """How long it was; 0: the first."""
    reported: int
    """Connections with a new report."""
    connections: int
    """That live."""


class Live:
    """The local hosts of an agent: rows 0 to k - 1 of a shim.

    Args:
        shim: `add_host` of each row is called here.
        addresses: [k] IPv4 of each host.
        base_rtt_s: [k] what is said of a host's RTT before its first sample.
        counters: [k] of each host's interface; None: bytes that its connections report, with headers.
        order: of its flows; None: all alike.
        writes: whether anything is put into force; false: hosts are only measured.

    Attributes:
        torn: reports that were left to the next period.
    """

    def __init__(
        self,
        shim: Shim,
        addresses: Sequence[str],
        base_rtt_s: FloatArray,
        *,
        counters: Sequence[Counter] | None = None,
        order: WeightsByWait | None = None,
        writes: bool = True,
    ) -> None:
        self.shim, self.torn, self._n = shim, 0, len(addresses)
        self._counters, self._order, self._writes = counters, order, writes
        self._limits = Limits(shim, self._n, 0.0)
        self._generation = np.zeros(len(shim.reports), np.uint32)
        self._before = np.zeros((len(shim.reports), len(_COUNTS)), np.int64)
        self._last_left_ns = np.zeros(len(shim.reports), np.int64)
        self._rtt_s = np.array(base_rtt_s, np.float64)
        self._sent_bytes = self._count()
        self._read_ns = self._weighed_ns = 0
        self._held = b""
        self._live: NDArray[np.intp] = np.empty(0, np.intp)
        self._reports: NDArray[np.void] = np.empty(0, layout.REPORT)
        for row, address in enumerate(addresses):
            shim.add_host(row, address)

    def measure(self, now_ns: int) -> HostColumns:
        """What has happened since the last call; `now_ns` is `time.monotonic_ns()`."""
        shim, n = self.shim, self._n
        slots, rows = self._read()
        counts = rows.view(np.int64).reshape(len(rows), layout.REPORT.itemsize // 8).take(_WORDS, axis=1)
        new = rows["generation"] != self._generation[slots]
        self._generation[slots] = rows["generation"]
        before = self._before[slots]
        before[new] = 0
        grown = counts - before
        self._before[slots] = counts
        left_ns = np.where(new, counts[:, _BEGAN], self._last_left_ns[slots])
        left_ns = np.where(grown[:, _SENT] > grown[:, _RETRANS], now_ns, left_ns)
        self._last_left_ns[slots] = left_ns

        mine, live = rows["host"] < n, rows["state"] == layout.LIVE
        host = np.where(mine, rows["host"], n).astype(np.int64)
        unsent = np.where(live & mine, counts[:, _UNSENT], 0)
        queued = unsent > 0
        of = host[queued]
        next_bytes = np.full(n, np.inf)
        np.minimum.at(next_bytes, of, unsent[queued])
        samples, rtt_ns = self._sum(host, grown[:, _RTTS]), self._sum(host, grown[:, _RTT_SUM])
        self._rtt_s = np.where(samples > 0, rtt_ns / np.maximum(samples, 1) / NS_PER_S, self._rtt_s)
        interval_s = (now_ns - self._read_ns) / NS_PER_S if self._read_ns else 0.0
        self._read_ns = now_ns
        per_s = BITS_PER_BYTE / interval_s if interval_s > 0 else 0.0
        if self._counters is None:
            sent = self._sum(host, grown[:, _SENT] + grown[:, _PACKETS] * rows["header_bytes"].astype(np.int64))
        else:
            counted = self._count()
            sent, self._sent_bytes = (counted - self._sent_bytes).astype(np.float64), counted
        self._live, self._reports = slots[live & mine], rows[live & mine]
        if len(ended := slots[rows["state"] == layout.FINISHED]):
            shim.give_back(ended)
        return HostColumns(
            throughput_bps=sent * per_s,
            goodput_bps=self._sum(host, grown[:, _DELIVERED]) * per_s,
            rtt_s=self._rtt_s,
            wait_s=np.bincount(of, (now_ns - left_ns[queued]) / NS_PER_S, n)[:n],
            queued_bytes=self._sum(of, unsent[queued]),
            next_bytes=np.where(np.isinf(next_bytes), 0.0, next_bytes),
            queued_flows=np.bincount(of, minlength=n)[:n],
            interval_s=interval_s,
            reported=int(np.count_nonzero(grown.any(axis=1))),
            connections=int(np.count_nonzero(live & mine)),
        )

    def put(self, limits_bps: FloatArray, now_ns: int) -> None:
        """Put limits [k] (inf: none) and the order of flows into force, and show that somebody decides."""
        if not self._writes:
            return
        self.shim.beat(now_ns)
        decided, self._held = (limits := limits_bps.tobytes()) != self._held, limits
        self._limits.put(
            limits_bps, decided=decided, interval_s=0.0, sent_bps=np.zeros(self._n), waiting=np.zeros(self._n)
        )
        if self._order is not None and len(self._live) and now_ns - self._weighed_ns >= WEIGH_NS:
            self._weighed_ns = now_ns
            rows, slots = self._reports, self._live
            weights = self._order.of(rows, self._last_left_ns[slots], now_ns)
            self.shim.decisions["weight"][slots] = weights
            self.shim.decisions["generation"][slots] = rows["generation"]

    def lift(self) -> None:
        """Limit and weigh nothing any more; without `put` the kernel soon stops asking."""
        if not self._writes:
            return
        self.shim.limit(np.full(self._n, np.inf))
        self.shim.decisions["weight"][: self.shim.used()] = 1
        self._held, self._weighed_ns = b"", 0

    @property
    def busy(self) -> bool:
        """Whether connections of these hosts have data, as the kernel counts them."""
        return bool((self.shim.hosts["flows"][: self._n] > 0).any())

    def _count(self) -> IntArray:
        return np.array([counter() for counter in self._counters or ()], np.int64)

    def _sum(self, host: IntArray, values: IntArray) -> FloatArray:
        """[k] over connections; host k is none of ours."""
        return np.bincount(host, values, self._n)[: self._n]

    def _read(self) -> tuple[NDArray[np.intp], NDArray[np.void]]:
        """Slots in use and consistent copies of their reports; whoever is being written all the time is left out.

        With SCHED_FIFO this may have stopped the kernel in the middle of writing one.
        """
        reports = self.shim.reports
        slots = np.flatnonzero(reports["state"][: self.shim.used()])
        rows: NDArray[np.void] = np.empty(len(slots), layout.REPORT)
        torn = np.arange(len(slots))
        for _ in range(READS):
            at = slots[torn]
            before = reports["seq"][at]
            rows[torn] = reports[at]
            torn = torn[(before != reports["seq"][at]) | (before % 2 == 1)]
            if not len(torn):
                return slots, rows
        self.torn += len(torn)
        whole = np.setdiff1d(np.arange(len(slots)), torn, assume_unique=True)
        return slots[whole], rows[whole]


class InterfaceCounter:
    """A `Counter` of an interface of the calling thread's network namespace; it stays open until `close`.

    Args:
        name: of the interface.
        header_bytes: of its link layer, which it counts with each packet.

    Raises:
        DatapathError: there is no such interface.
    """

    def __init__(self, name: str, header_bytes: int = 14) -> None:
        self._header_bytes, self._files = header_bytes, []
        try:
            for what in ("tx_bytes", "tx_packets"):
                self._files.append(open(f"/sys/class/net/{name}/statistics/{what}", "rb", buffering=0))  # noqa: SIM115, PTH123
        except OSError as error:
            self.close()
            raise DatapathError(
                f"Interface {name} cannot be read ({error.strerror}); `ip link` lists those that are here."
            ) from None

    def __call__(self) -> int:
        sent = []
        for file in self._files:
            file.seek(0)
            sent.append(int(file.read(32)))
        return sent[0] - sent[1] * self._header_bytes

    def close(self) -> None:
        """May be called twice."""
        for file in self._files:
            file.close()
