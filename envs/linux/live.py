# SPDX-License-Identifier: BSD-3-Clause
"""`Live`: hosts with unannounced connections, which the shim reports and limits.

Columns are those of `ncc.core.signals`, except where the kernel knows less than a simulator:

- Sizes of flows are unknown. `queued_bytes` are the bytes that applications have written and the kernel has not sent,
  `next_bytes` the least of them over flows, and a flow is queued if it has any. Data that an application has not
  written yet, because the send buffer is full, is not counted.
- `wait_s` counts from the end of the period in which new bytes of the flow last left; before that from its beginning.
- All values are as of a connection's last ACK; nothing is known of one before the ACK of its first data.
- Limits hold for all connections from a host's address, also for those to its neighbours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.signals import SIGNALS, names
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux.extension import LIVE_COLUMNS, extension, reports_of
from ncc.envs.linux.order import WeightsByWait
from ncc.envs.linux.shim import Shim

Counter = Callable[[], int]
"""Function that returns the bytes of IP packets that have left a host's interface since an arbitrary time."""
ETHERNETS, ETHERNET_BYTES = (1, 772), 14
"""ARPHRD_ETHER and ARPHRD_LOOPBACK of linux/if_arp.h, whose counters include a link-layer header per packet."""
WEIGH_NS = 8_000_000
"""Least time between two updates of weights, as for runs (senders.py)."""
ON_HOSTS = tuple(signal.name for signal in SIGNALS.values() if signal.on_hosts)
"""Signals that are measured here."""
_REALS, _COUNTS = names("host", count=False), names("host", count=True)
_SLOT, _GENERATION = LIVE_COLUMNS.index("slot"), LIVE_COLUMNS.index("generation")


@dataclass(frozen=True)
class HostColumns:
    """Measurement of some hosts in a period."""

    columns: dict[str, FloatArray | IntArray]
    """Columns [k] of `ON_HOSTS`, by name."""
    interval_s: float
    """Length of the period; 0 for the first."""
    reported: int
    """Number of connections with a new report."""
    connections: int
    """Number of live connections."""


class Live:
    """The local hosts of an agent, which are rows 0 to k - 1 of a shim.

    Args:
        shim: shim, to which the hosts are added here.
        addresses: all IPv4 addresses of each host [k].
        base_rtt_s: RTT [k] of each host before its first sample.
        counters: counter [k] of each host's interface; None: bytes that its connections report, with headers.
        order: order among the flows of a host; None: equal weights.
        writes: False only measures and puts nothing into force.

    Attributes:
        torn: number of reports that could not be read in their period and were left to the next.
    """

    def __init__(
        self,
        shim: Shim,
        addresses: Sequence[Sequence[str]],
        base_rtt_s: FloatArray,
        *,
        counters: Sequence[Counter] | None = None,
        order: WeightsByWait | None = None,
        writes: bool = True,
    ) -> None:
        self.shim, self.torn, self._n = shim, 0, len(addresses)
        self._counters, self._order, self._writes = counters, order, writes
        reports = shim.reports
        self._columns = np.zeros((len(LIVE_COLUMNS), len(reports)), np.int64)
        self._connections = extension().Connections(reports=reports_of(reports), n_hosts=self._n, columns=self._columns)
        self._rtt_s: FloatArray = np.array(base_rtt_s, np.float64)
        self._sent_bytes = self._count()
        self._read_ns = self._weighed_ns = self._n_live = 0
        self._held = b""
        for row, own in enumerate(addresses):
            for address in own:
                shim.add_host(row, address)

    def measure(self, now_ns: int) -> HostColumns:
        """Measure the time since the last call; `now_ns` is `time.monotonic_ns()`."""
        interval_s = (now_ns - self._read_ns) / NS_PER_S if self._read_ns else 0.0
        self._read_ns = now_ns
        reals, counts = np.empty((len(_REALS), self._n)), np.empty((len(_COUNTS), self._n), np.int64)
        reported, self._n_live, ended, torn = self._connections.measure(
            self.shim.used(), now_ns, interval_s, self._rtt_s, reals, counts
        )
        self.torn += torn
        if ended:
            self.shim.give_back(ended)
        columns: dict[str, FloatArray | IntArray] = {
            **dict(zip(_REALS, reals, strict=True)),
            **dict(zip(_COUNTS, counts, strict=True)),
        }
        if self._counters is not None:
            counted = self._count()
            sent, self._sent_bytes = (counted - self._sent_bytes).astype(np.float64), counted
            columns["throughput_bps"] = sent * (BITS_PER_BYTE / interval_s if interval_s > 0 else 0.0)
        return HostColumns(
            {name: columns[name] for name in ON_HOSTS}, interval_s, reported=reported, connections=self._n_live
        )

    def put(self, limits_bps: FloatArray, now_ns: int) -> None:
        """Put limits [k] (inf: none) and the order of flows into force, and renew the heartbeat."""
        if not self._writes:
            return
        self.shim.beat(now_ns)
        if (limits := limits_bps.tobytes()) != self._held:
            self.shim.limit(limits_bps)
            self._held = limits
        if self._order is not None and self._n_live and now_ns - self._weighed_ns >= WEIGH_NS:
            self._weighed_ns = now_ns
            live = self._columns[:, : self._n_live]
            slots = live[_SLOT]
            self.shim.decisions["weight"][slots] = self._order.of(live, now_ns)
            self.shim.decisions["generation"][slots] = live[_GENERATION]

    def lift(self) -> None:
        """Lift all limits and weights; without further `put` the heartbeat soon times out."""
        if not self._writes:
            return
        self.shim.limit(np.full(self._n, np.inf))
        self.shim.decisions["weight"][: self.shim.used()] = 1
        self._held, self._weighed_ns = b"", 0

    @property
    def busy(self) -> bool:
        """True if connections of these hosts have data, by the kernel's count."""
        return bool((self.shim.hosts["flows"][: self._n] > 0).any())

    def _count(self) -> IntArray:
        return np.array([counter() for counter in self._counters or ()], np.int64)


class InterfaceCounter:
    """A `Counter` of an interface of the calling thread's network namespace, open until `close`."""

    def __init__(self, name: str) -> None:
        self._name, self._header_bytes, self._files = name, 0, list[IO[bytes]]()
        try:
            kind = int(Path(f"/sys/class/net/{name}/type").read_text())
            self._header_bytes = ETHERNET_BYTES if kind in ETHERNETS else 0
            for what in ("tx_bytes", "tx_packets"):
                self._files.append(open(f"/sys/class/net/{name}/statistics/{what}", "rb", buffering=0))  # noqa: SIM115, PTH123
        except OSError as error:
            self.close()
            raise DatapathError(
                f"Interface {name} cannot be read ({error.strerror}); `ip link` lists those that are here."
            ) from None

    def __call__(self) -> int:
        """Return the bytes sent since the interface came up."""
        sent = []
        try:
            for file in self._files:
                file.seek(0)
                sent.append(int(file.read(32)))
        except (OSError, ValueError) as error:  # ValueError: nothing was read
            raise DatapathError(
                f"Interface {self._name} has gone ({error}): start the agent again when it is back."
            ) from None
        return sent[0] - sent[1] * self._header_bytes

    def close(self) -> None:
        """Close the counters; may be called twice."""
        for file in self._files:
            file.close()
