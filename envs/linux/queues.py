# SPDX-License-Identifier: BSD-3-Clause
"""`Queues`: the queues of some hosts, which enforce limits and an order among flows."""

import math
from collections.abc import Sequence

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray
from ncc.envs.linux.order_program import OrderProgram
from ncc.envs.linux.queue import HostQueue
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.stack import HELD_BYTES

GROWING = ("limited_bytes", "open_bytes", "dropped_pkts")


class Queues:
    """Queues of hosts 0 to k - 1 that enforce limits and an order.

    Attributes:
        counts: bytes sent under the limits and outside them, with link-layer headers, and packets dropped, as of the
            last `check`.
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
        if self._silent_pkts is None:  # packets before the first decision do not count
            self._silent_pkts = self.program.counters()["silent_pkts"]
        self.program.beat(now_ns)
        limits = limits_bps.tolist()
        windows = [HELD_BYTES if limit < math.inf else 0 for limit in limits]
        if shim is not None and windows != self._windows:
            shim.hold(windows)
            self._windows = windows
        for queue, limit_bps in zip(self._queues, limits, strict=True):
            queue.limit(limit_bps, now_ns)

    def counters(self) -> dict[str, int]:
        """Return counts of the program since the first decision, and of all queues."""
        counts = self.program.counters()
        counts["silent_pkts"] -= self._silent_pkts or 0
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
