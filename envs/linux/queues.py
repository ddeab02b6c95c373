# SPDX-License-Identifier: BSD-3-Clause
"""`LiveQueues`: queues of hosts that share their interfaces with other programs of the machine."""

from collections.abc import Sequence

from ncc.core.errors import DatapathError
from ncc.envs.linux.order_program import OrderProgram
from ncc.envs.linux.queue import HostQueue
from ncc.envs.linux.senders import Queues

GROWING = ("limited_bytes", "open_bytes", "dropped_pkts")


class LiveQueues(Queues):
    """`Queues` that notice if another program replaces one.

    Attributes:
        takes_sizes: as `OrderProgram.takes_sizes`.
        counts: bytes sent under the limits and outside them, with link-layer headers, and packets dropped, as of the
            last `count`.
    """

    def __init__(self, program: OrderProgram, queues: Sequence[HostQueue]) -> None:
        super().__init__(program, queues)
        self.takes_sizes = program.takes_sizes
        self.counts = dict.fromkeys(GROWING, 0)
        self._names = [queue.interface for queue in queues]

    def count(self) -> None:
        """Bring `counts` up to date, from the thread that limits.

        Raises:
            DatapathError: another program has replaced a queue, or comes before ours (`HostQueue.check`).
        """
        found = self.counters()
        counts = {name: found[name] for name in GROWING}
        if any(counts[name] < self.counts[name] for name in GROWING):
            raise DatapathError(
                f"Another program has replaced the queue of {', '.join(self._names)}: nothing limits what leaves."
            )
        self.counts = counts
        for queue in self._queues:
            queue.check()
