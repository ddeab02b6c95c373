# SPDX-License-Identifier: BSD-3-Clause
"""The state that a host sends to its neighbours each period, and the interface of its exchange."""

import numpy as np
import numpy.typing as npt

from ncc.core.signals import Scope, shared

StateArray = npt.NDArray[np.void]
"""Rows of `STATE`, or of `UPPER`."""
TimeArray = npt.NDArray[np.int64]
"""Nanoseconds of the monotonic clock; 0: never."""


def _row(scope: Scope) -> np.dtype[np.void]:
    return np.dtype([(signal.name, "<u4" if signal.count else "<f8") for signal in shared(scope)])


STATE = _row("host")
"""The signals that a host sends, before anything is normalised (`ncc.core.signals`)."""
UPPER = _row("uplink")
"""The signals that are sent of the uplink."""


def idle(n: int) -> StateArray:
    """[n] of `STATE`: hosts with nothing to send and no limit, as a host that was never heard is assumed to be."""
    state = np.zeros(n, dtype=STATE)
    state["rate_limit_bps"] = np.inf
    return state


class Exchange:
    """An exchange of hosts' states with peers. This one has no peers: all hosts are local, and no uplink is heard of.

    Attributes:
        n_peers: hosts of the neighbourhood that are not local. Their order stays as it is until `close`.
        heard: [n_peers] of `STATE`, the newest of each; `idle` until it has been heard.
        heard_ns: [n_peers] monotonic time to which `heard` belongs: its receipt less the age it came with; 0: never.
        upper: a row [1] of `UPPER`, zeros until heard.
        counters: how many messages were sent, received, and dropped, by reason.
    """

    def __init__(self) -> None:
        self.n_peers = 0
        self.heard: StateArray = idle(0)
        self.heard_ns: TimeArray = np.zeros(0, dtype=np.int64)
        self.upper: StateArray = np.zeros(1, dtype=UPPER)
        self.counters: dict[str, int] = {}

    @property
    def upper_ns(self) -> int:
        """Monotonic time to which `upper` belongs; 0: never heard."""
        return 0

    def send(self, own: StateArray, now_ns: int) -> None:
        """Send all peers the state [k] of the local hosts as it is at `now_ns`: one message per host and period.

        It never blocks, and a message that cannot be sent is counted.
        """

    def receive(self, now_ns: int) -> None:
        """Take in the messages that have come, without waiting, and at most a bounded number of them."""

    def close(self) -> None:
        """Give the sockets back; may be called twice."""
