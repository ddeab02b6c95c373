# SPDX-License-Identifier: BSD-3-Clause
"""The exchange within one process: the same messages, signed and checked, without sockets and at any clock's pace."""

from collections import deque

from ncc.deployed.listening import Listener
from ncc.deployed.message import Key, Kind
from ncc.deployed.peers import Peer
from ncc.deployed.speaking import Speaker
from ncc.deployed.state import UPPER, StateArray


class Post:
    """Carries messages between the agents of one process, in order and whole."""

    def __init__(self) -> None:
        self.boxes: dict[int, deque[bytes]] = {}
        """What waits for each agent, by its first host."""

    def carry(self, messages: list[bytes], sender: int) -> None:
        """Put messages into the boxes of all agents but the sender."""
        for owner, box in self.boxes.items():
            if owner != sender:
                box.extend(messages)


class MemoryExchange:
    """An `Exchange` by a `Post`; its clock is the caller's, and nothing takes any time.

    `own` and `peers` are as of `ncc.deployed.peers.parse_agent`; `upper` is who tells of the upper port, by
    `send_upper` of an exchange of its own.
    """

    def __init__(
        self,
        post: Post,
        key: Key,
        own: tuple[Peer, ...],
        peers: tuple[Peer, ...],
        *,
        upper: Peer | None = None,
        late_ns: int,
    ) -> None:
        """An agent that begins at time 0."""
        self.n_peers, self._post, self._name = len(peers), post, own[0].id
        self._box: deque[bytes] = post.boxes.setdefault(self._name, deque(maxlen=4 * (len(peers) + 1)))
        self._listener = Listener(key, own, peers, upper, late_ns=late_ns, wall_ns=_no_clock)
        self._speaker = Speaker(key, own, 0, wall_ns=_no_clock)
        self.heard, self.heard_ns, self.upper = self._listener.heard, self._listener.heard_ns, self._listener.upper
        self.counters = self._listener.counters
        self.counters["sent"] = 0

    @property
    def upper_ns(self) -> int:
        """As in `Exchange`."""
        return self._listener.upper_ns

    def send(self, own: StateArray, now_ns: int) -> None:
        self._send(Kind.STATE, own, now_ns)

    def send_upper(self, state: StateArray, now_ns: int) -> None:
        """Tell all agents of the upper port: a row [1] of `UPPER`."""
        assert state.dtype == UPPER
        self._send(Kind.UPPER, state, now_ns)

    def _send(self, kind: Kind, rows: StateArray, now_ns: int) -> None:
        messages = self._speaker.say(kind, [row.tobytes() for row in rows], now_ns, now_ns)
        self._post.carry(messages, self._name)
        self.counters["sent"] += len(messages)

    def receive(self, now_ns: int) -> None:
        while self._box:
            self._listener.take(memoryview(self._box.popleft()), now_ns)

    def close(self) -> None:
        self._post.boxes.pop(self._name, None)


def _no_clock() -> int:
    """All agents of a process have the same clock."""
    return 0
