# SPDX-License-Identifier: BSD-3-Clause
"""The exchange within one process: the same messages, signed and checked, without sockets and at any clock's pace."""

from collections import deque

from ncc.host.exchange import SignedExchange
from ncc.host.message import Key, Kind
from ncc.host.peers import Peer
from ncc.host.state import UPPER, StateArray

Boxes = dict[int, deque[bytes]]
"""Messages that wait for the agents of a process, in order and whole, by each agent's first host."""


class MemoryExchange(SignedExchange):
    """An `Exchange` by boxes that all agents of a process share; its clock is the caller's, and nothing takes any time.

    Args:
        boxes: shared by all.
        key: shared by all.
        own: hosts of the agent.
        peers: hosts of the other agents.
        upper: the sender of the uplink's state, by `send_upper` of an exchange of its own.
        late_ns: age from which a state is not used.
    """

    def __init__(
        self,
        boxes: Boxes,
        key: Key,
        own: tuple[Peer, ...],
        peers: tuple[Peer, ...],
        *,
        upper: Peer | None = None,
        late_ns: int,
    ) -> None:
        super().__init__(key, own, peers, upper, now_ns=0, wall_ns=_no_clock, late_ns=late_ns)
        self._boxes, self._name = boxes, own[0].id
        self._box: deque[bytes] = boxes.setdefault(self._name, deque(maxlen=4 * (len(peers) + 1)))

    def send(self, own: StateArray, now_ns: int) -> None:
        self._send(Kind.STATE, own, now_ns)

    def send_upper(self, state: StateArray, now_ns: int) -> None:
        """Send all agents the state of the uplink: a row [1] of `UPPER`."""
        assert state.dtype == UPPER
        self._send(Kind.UPPER, state, now_ns)

    def _send(self, kind: Kind, rows: StateArray, now_ns: int) -> None:
        messages = self._sender.messages(kind, [row.tobytes() for row in rows], now_ns, now_ns)
        for owner, box in self._boxes.items():
            if owner != self._name:
                box.extend(messages)
        self.counters["sent"] += len(messages)

    def receive(self, now_ns: int) -> None:
        while self._box:
            self._listener.take(memoryview(self._box.popleft()), now_ns)

    def close(self) -> None:
        self._boxes.pop(self._name, None)


def _no_clock() -> int:
    """All agents of a process have the same clock."""
    return 0
