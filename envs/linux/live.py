# SPDX-License-Identifier: BSD-3-Clause
"""`Live`: measures and limits hosts that carry real traffic. The shim reports their connections.

Columns are those of `ncc.core.signals`, except where the kernel knows less than a simulator:

- Sizes of flows are unknown. `queued_bytes` are the bytes that applications have written and that have not left the
  host; connections whose receivers take nothing more do not count. A flow is queued if it has such bytes, and
  `next_bytes` is the least of them over flows. Data that an application has not written yet, because the send buffer
  is full, does not count.
- `wait_s` counts from the end of the period in which new bytes of the flow last left. If none have, it counts from the
  flow's beginning.
- All values are as of a connection's last ACK; a connection is unknown until its first data is acknowledged.
- A limit holds for all packets that leave a host's interface, including those to its neighbours.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.signals import SIGNALS, names
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux import device
from ncc.envs.linux.extension import LIVE_COLUMNS, extension, reports_of
from ncc.envs.linux.queue import Queues
from ncc.envs.linux.shim import Shim

Counter = Callable[[], int]
"""Function that returns the bytes of IP packets that have left a host's interface since an arbitrary time."""
ON_HOSTS = tuple(signal.name for signal in SIGNALS.values() if signal.on_hosts)
"""Signals that are measured here."""
_REALS, _COUNTS = names("host", count=False), names("host", count=True)


class HostColumns(NamedTuple):
    """Measurement of some hosts in a period."""

    columns: dict[str, FloatArray | IntArray]
    """Columns [k] of `ON_HOSTS`, by name; the next measurement overwrites them."""
    reported: int
    """Number of connections with a new report."""
    connections: int
    """Number of live connections."""


class Live:
    """The k hosts of this machine for which an agent decides. They are rows 0 to k - 1 of `shim.hosts`.

    Args:
        shim: the shim, to which this class adds the hosts.
        sources: addresses of each host [k], each with the cookie of its network namespace.
        base_rtt_s: RTT [k] of each host before its first sample.
        counters: counter [k] of each host's interface.
        queues: queues of the interfaces; None: measure only.

    Attributes:
        queues: as given.
        sent_bytes: [k] bytes of IP packets that had left each interface at the last measurement.
        torn: number of reports that were left to the next period, because the kernel was writing them.
    """

    def __init__(
        self,
        shim: Shim,
        sources: Sequence[Sequence[tuple[str, int]]],
        base_rtt_s: FloatArray,
        *,
        counters: Sequence[Counter],
        queues: Queues | None = None,
    ) -> None:
        self.shim, self.torn, self._n = shim, 0, len(sources)
        self._counters, self.queues = counters, queues
        reports = shim.reports
        self._columns = np.zeros((len(LIVE_COLUMNS), len(reports)), np.int64)
        reals, counts = np.zeros((len(_REALS), self._n)), np.zeros((len(_COUNTS), self._n), np.int64)
        self._connections = extension().Connections(
            reports=reports_of(reports),
            columns=self._columns,
            rtt_s=np.array(base_rtt_s, np.float64),
            reals=reals,
            counts=counts,
        )
        by_name = dict(zip((*_REALS, *_COUNTS), (*reals, *counts), strict=True))
        self._hosts: dict[str, FloatArray | IntArray] = {name: by_name[name] for name in ON_HOSTS}
        self._throughput_bps = self._hosts["throughput_bps"]
        self.sent_bytes = self._count()
        self._read_ns = self._n_live = 0
        for row, host_sources in enumerate(sources):
            for address, cookie in host_sources:
                shim.add_host(row, address, cookie)

    def measure(self, now_ns: int) -> HostColumns:
        """Measure the time since the last call; `now_ns` is `time.monotonic_ns()`."""
        interval_s = (now_ns - self._read_ns) / NS_PER_S if self._read_ns else 0.0
        self._read_ns = now_ns
        reported, self._n_live, ended, torn = self._connections.measure(self.shim.used(), now_ns, interval_s)
        self.torn += torn
        if ended:
            self.shim.give_back(ended)
        before, self.sent_bytes = self.sent_bytes, self._count()
        bits_per_s = BITS_PER_BYTE / interval_s if interval_s > 0 else 0.0
        for row, sent_bytes in enumerate(self.sent_bytes):
            self._throughput_bps[row] = (sent_bytes - before[row]) * bits_per_s
        return HostColumns(self._hosts, reported=reported, connections=self._n_live)

    def put(self, limits_bps: FloatArray, now_ns: int) -> None:
        """Put limits [k] (bits/s, inf: none) into force, and renew the heartbeat."""
        if self.queues is not None:
            self.shim.beat(now_ns)
            self.queues.decide(limits_bps, now_ns, self.shim)

    def lift(self) -> None:
        """Lift all limits now. Orders end too, unless `put` is called again before the heartbeat times out."""
        if self.queues is not None:
            with suppress(DatapathError):  # an interface or its queue has gone, and with it the limit
                self.queues.decide(np.full(self._n, np.inf), time.monotonic_ns(), self.shim)

    @property
    def fallen(self) -> tuple[int, int]:
        """Numbers of connections that stopped obeying, and of packets that left outside the limits, for want of a beat.

        Both are since the beginning.
        """
        return self.shim.fallbacks, 0 if self.queues is None else self.queues.silent_pkts

    @property
    def listed(self) -> IntArray:
        """Columns (`LIVE_COLUMNS`) of the connections that lived at the last measurement."""
        return self._columns[:, : self._n_live]

    def _count(self) -> list[int]:
        return [counter() for counter in self._counters]


class InterfaceCounter:
    """A `Counter` of an interface of the calling thread's network namespace, open until `close`."""

    def __init__(self, name: str) -> None:
        self._name, self._files = name, list[int]()
        _, _, self._header_bytes = device.properties(name)
        try:
            for what in ("tx_bytes", "tx_packets"):
                self._files.append(os.open(f"/sys/class/net/{name}/statistics/{what}", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            self.close()
            raise DatapathError(
                f"Interface {name} cannot be read ({error.strerror}); `ip link` lists those that are here."
            ) from None

    def __call__(self) -> int:
        """Return the bytes sent since the interface came up."""
        try:
            sent_bytes, sent_pkts = (int(os.pread(file, 32, 0)) for file in self._files)
        except (OSError, ValueError) as error:  # ValueError: nothing was read
            raise DatapathError(
                f"Interface {self._name} has gone ({error}): start the agent again when it is back."
            ) from None
        return sent_bytes - sent_pkts * self._header_bytes

    def close(self) -> None:
        """Close the counters; may be called twice."""
        files, self._files = self._files, []
        for file in files:
            os.close(file)
