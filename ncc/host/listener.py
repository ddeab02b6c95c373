# SPDX-License-Identifier: BSD-3-Clause
"""The messages that an agent accepts: the newest of each peer, if it is authentic and in time."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from ncc.core.units import NS_PER_S
from ncc.host.keys import ANY, Keys
from ncc.host.message import (
    FLOWS,
    GRANT,
    HEAD,
    MAC_AT,
    TO_ONE,
    UPLINK,
    VALUES_AT,
    Kind,
    StateArray,
    TimeArray,
    idle,
    misfit,
    receiver_of,
    sane_flows,
    sane_grant,
    sane_state,
    sane_uplink,
)
from ncc.host.peers import Peer

RECEIVED, RESYNCED = "received", "resynced"
DROPPED = (
    "undersized", "oversized", "foreign", "version", "kind", "own", "unknown_sender", "replayed", "unknown_key",
    "forged", "clock", "late", "values",
)  # fmt: skip
"""Reasons for which a message is dropped:

- ``undersized``, ``oversized``, ``foreign``, ``version``, ``kind``: no message of this version;
- ``own``: of a host that this agent sends for, which multicast returns;
- ``unknown_sender``: of no peer;
- ``replayed``: not after the last from its sender, by session and sequence, nor by its sender's clock after all before;
  also what was overtaken on its way, and what is for another host;
- ``unknown_key``: signed by a key that is none for its sender;
- ``forged``: not signed by the key that it names, or changed;
- ``clock``: not the next of its session, and its sender's clock and ours differ by more than is tolerated;
- ``late``: its state is too old by the time it comes;
- ``values``: they are not finite, or negative where that cannot be.
"""
SLACK = 2000
"""Clocks of two machines run apart by less than one part in so many (crystals: one in 10,000)."""
JUMP = 1 << 20
"""Messages of a session that may be lost in a row, a quarter of an hour of them at 1 ms."""
RESYNC_NS = 5 * NS_PER_S
"""Time for which all messages of a sender must be late before the fastest is found anew.

Its clock stood still then, as that of a machine that was paused or moved.
"""
_STATE, _UPLINK = Kind.STATE.value, Kind.UPLINK.value
_TO_ONE = frozenset(kind.value for kind in TO_ONE)


class Inbox:
    """The newest states of an agent's peers and of the uplink.

    Attributes:
        states: [n_peers] of `STATE`; `idle` until one has been received.
        states_ns: [n_peers] monotonic time to which `states` belong: receipt less the age they came with; 0: never.
        uplink: [1] of `UPLINK`; zeros until it has been received.
        uplink_ns: [1] monotonic time to which `uplink` belongs; 0: never.
        flows: [n_peers] of `FLOWS`, of each peer's flows to this host; zeros until a message of them has been received.
        flows_ns: [n_peers] monotonic time to which `flows` belong; 0: never.
        grants: [n_peers] of `GRANT`, each peer's last word to this host; zeros until one has been received.
        grants_ns: [n_peers] monotonic time to which `grants` belong; 0: never.
        hears_uplink: true if somebody sends the uplink's state.
        counters: how many messages were received, and dropped, by reason.
    """

    hears_uplink = False

    def __init__(self, n_peers: int = 0) -> None:
        self.states: StateArray = idle(n_peers)
        self.states_ns: TimeArray = np.zeros(n_peers, np.int64)
        self.uplink: StateArray = np.zeros(1, UPLINK)
        self.uplink_ns: TimeArray = np.zeros(1, np.int64)
        self.flows: StateArray = np.zeros(n_peers, FLOWS)
        self.flows_ns: TimeArray = np.zeros(n_peers, np.int64)
        self.grants: StateArray = np.zeros(n_peers, GRANT)
        self.grants_ns: TimeArray = np.zeros(n_peers, np.int64)
        self.counters: dict[str, int] = {}


class _Record:
    """Record of one sender's messages of one kind, and the row of an inbox that they fill."""

    __slots__ = ("_bytes", "_end", "_sane", "_time_ns", "clock_ns", "floor_known", "floor_ns", "host", "late_since_ns",
                 "newest_ns", "sequence", "session_ns")  # fmt: skip

    def __init__(self, host: str, values: StateArray, time_ns: TimeArray, sane: Callable[[memoryview], bool]) -> None:
        self.host = host
        self._bytes, self._time_ns, self._sane = values.view(np.uint8).data, time_ns, sane
        self._end = VALUES_AT + values.dtype.itemsize
        self.session_ns = self.sequence = self.clock_ns = -1
        self.floor_known, self.floor_ns, self.newest_ns = False, 0, 0
        self.late_since_ns: int | None = None

    def put(self, data: memoryview, at_ns: int) -> str:
        """Take over the values of a message, unless they cannot be."""
        if not self._sane(data):
            return "values"
        self._bytes[:] = data[VALUES_AT : self._end]
        self._time_ns[0] = at_ns
        return RECEIVED

    def follows(self, session_ns: int, sequence: int) -> bool:
        """True for what comes after the newest of its session."""
        return session_ns == self.session_ns and 0 < sequence - self.sequence <= JUMP

    def longer_ns(self, session_ns: int, sequence: int, offset_ns: int, now_ns: int, *, follows: bool) -> int:
        """Note the newest message; return by how much longer it took than the fastest that it follows.

        Args:
            session_ns: to which it belongs.
            sequence: within it.
            offset_ns: its receipt by our clock less its sending by the sender's,
            now_ns: at this time.
            follows: whether it comes after the newest of its session.
        """
        if not follows or not self.floor_known:
            self.floor_known, self.floor_ns = True, offset_ns
        else:
            self.floor_ns = min(self.floor_ns + (now_ns - self.newest_ns) // SLACK, offset_ns)
        self.session_ns, self.sequence, self.newest_ns = session_ns, sequence, now_ns
        return offset_ns - self.floor_ns

    def still_late(self, now_ns: int) -> bool:
        """Note that the newest was late; true if all were for so long that the fastest is found anew."""
        if self.late_since_ns is None:
            self.late_since_ns = now_ns
        if now_ns - self.late_since_ns <= RESYNC_NS:
            return False
        self.late_since_ns, self.floor_known = None, False
        return True


class Listener(Inbox):
    """An inbox filled by messages of any origin.

    A message is dropped, and counted by why (`DROPPED`), unless it is authentic, newer than all before from its sender,
    and in time. It is newer if it is one of the next of its session, or else if its sender's clock is later than in all
    before and near ours. So whatever numbers a message has, it keeps nothing out that is sent `clock_ns` later. How
    long it took is not known, as clocks of two machines differ; how much longer than the fastest is:
    receipt less sending, less the least of that difference so far. A state is `late` if that and its stated age exceed
    `late_ns` together. Whoever delays everything by the same, for longer than `RESYNC_NS`, is not noticed.

    Args:
        keys: of the senders, each for its own messages only.
        own: hosts that this agent sends for.
        peers: a row of `states` each.
        uplink: sender of the uplink's state.
        late_ns: age from which a state is too old.
        group: messages come by a group, and are signed for all.
        buffer_bytes: of receivers' ports, for messages of flows to receivers and of grants; None: they are no messages.
        clock_ns: by which clocks may differ when a session is first received: what was recorded longer ago cannot be
            replayed to an agent that has just started.
        wall_ns: this machine's clock, ns since 1970.
    """

    def __init__(
        self,
        keys: Keys,
        own: Sequence[Peer],
        peers: Sequence[Peer],
        uplink: Peer | None = None,
        *,
        group: bool = False,
        late_ns: int,
        buffer_bytes: float | None = None,
        clock_ns: int = 60 * NS_PER_S,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(len(peers))
        self._keys, self._late_ns, self._clock_ns, self._wall_ns = keys, late_ns, clock_ns, wall_ns
        self._own, self._receiver = frozenset(peer.id for peer in own), ANY if group else own[0].address.host
        self.counters = dict.fromkeys((RECEIVED, *DROPPED, RESYNCED), 0)
        self._records = {
            (_STATE, peer.id): _Record(
                peer.address.host, self.states[row : row + 1], self.states_ns[row : row + 1], sane_state
            )
            for row, peer in enumerate(peers)
        }
        self.hears_uplink = uplink is not None
        if uplink is not None:
            self._records[_UPLINK, uplink.id] = _Record(uplink.address.host, self.uplink, self.uplink_ns, sane_uplink)
        self._kinds = {_STATE, _UPLINK}
        if buffer_bytes is not None:
            self._kinds |= _TO_ONE
            for row, peer in enumerate(peers):
                here = slice(row, row + 1)
                self._records[Kind.FLOWS, peer.id] = _Record(
                    peer.address.host, self.flows[here], self.flows_ns[here], sane_flows
                )
                self._records[Kind.GRANT, peer.id] = _Record(
                    peer.address.host,
                    self.grants[here],
                    self.grants_ns[here],
                    lambda data: sane_grant(data, buffer_bytes),
                )
        for record in self._records.values():
            keys.between(record.host, self._receiver)

    def take(self, data: memoryview, now_ns: int) -> None:
        """Accept or drop received bytes, any and of any number, at a time of the monotonic clock."""
        self.counters[self._take(data, now_ns)] += 1

    def _take(self, data: memoryview, now_ns: int) -> str:
        if (why := misfit(data)) is not None:
            return why
        _, _, kind, number, sender, session_ns, sequence, sent_ns, clock_ns, age_ns = HEAD.unpack_from(data)
        record = self._wanted(kind, sender)
        if isinstance(record, str):
            return record
        follows = record.follows(session_ns, sequence)
        if (why := self._doubt(record, data, number, clock_ns, follows=follows)) is not None:
            return why
        if kind in _TO_ONE and receiver_of(data) not in self._own:
            return "replayed"
        old_ns = age_ns + record.longer_ns(session_ns, sequence, now_ns - sent_ns, now_ns, follows=follows)
        if old_ns > self._late_ns:
            self.counters[RESYNCED] += record.still_late(now_ns)
            return "late"
        record.late_since_ns = None
        return record.put(data, now_ns - old_ns)

    def _doubt(self, record: _Record, data: memoryview, number: int, clock_ns: int, *, follows: bool) -> str | None:
        """The reason not to believe a message; None: its sender has just sent it."""
        if not follows and clock_ns <= record.clock_ns:
            return "replayed"  # before a key is asked: this costs less
        key = next((key for key in self._keys.between(record.host, self._receiver) if key.number == number), None)
        if key is None:
            return "unknown_key"
        if not key.signed(data[:MAC_AT], data[MAC_AT:]):
            return "forged"
        wall_ns = self._wall_ns()
        if not follows and abs(wall_ns - clock_ns) > self._clock_ns:
            return "clock"
        record.clock_ns = max(record.clock_ns, min(clock_ns, wall_ns + self._clock_ns))
        return None

    def _wanted(self, kind: int, sender: int) -> _Record | str:
        """The record of the sender that the message names; or the reason to drop it in any case."""
        if kind not in self._kinds:
            return "kind"
        if sender in self._own:
            return "own"
        return self._records.get((kind, sender)) or "unknown_sender"
