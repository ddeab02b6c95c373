# SPDX-License-Identifier: BSD-3-Clause
"""The messages that an agent accepts: those that are authentic, in time, and newer than all before of their sender."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from ncc.core.units import NS_PER_S
from ncc.host.keys import Keys
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
    "undersized", "oversized", "foreign", "version", "kind", "unknown_sender", "replayed", "unknown_key", "forged",
    "clock", "late", "values",
)  # fmt: skip
"""Reasons for dropping a message:

- ``undersized``, ``oversized``, ``foreign``, ``version``, ``kind``: it is no message of this version;
- ``unknown_sender``: its sender is no peer;
- ``replayed``: by its number in the session and by the sender's clock, it is no newer than the last message of its
  sender, because it was sent again or overtaken on its way; or it is for another host;
- ``unknown_key``: its key is not valid for its sender;
- ``forged``: its signature is wrong;
- ``clock``: it does not follow in the session, and its sender's clock differs too much from this machine's;
- ``late``: its values are too old when it arrives;
- ``values``: a value is not finite, too large, or negative where that is impossible.
"""
SLACK = 2000
"""Bound of clock drift: two machines' clocks drift apart by less than one part in `SLACK` (crystals: one in 10,000)."""
JUMP = 1 << 20
"""Most messages of a session that may be lost in a row: a quarter of an hour at one each ms."""
RESYNC_NS = 5 * NS_PER_S
"""Time for which all messages of a sender must be late before the sender's least delay is measured anew.

The sender's clock has then stood still, because its machine was paused or moved.
"""
_STATE, _UPLINK = Kind.STATE.value, Kind.UPLINK.value
_TO_ONE = frozenset(kind.value for kind in TO_ONE)


class Inbox:
    """The newest states of an agent's peers and of the uplink.

    Attributes:
        states: [n_peers] rows of `STATE`; `idle` until one has been received.
        states_ns: [n_peers] monotonic time at which `states` were measured: receipt minus age; 0: none was received.
        uplink: [1] row of `UPLINK`; zeros until one has been received.
        uplink_ns: [1] the same time of `uplink`.
        flows: [n_peers] rows of `FLOWS`, each peer's flows to this host; zeros until one has been received.
        flows_ns: [n_peers] the same time of `flows`.
        grants: [n_peers] rows of `GRANT`, each peer's last grant to this host; zeros until one has been received.
        grants_ns: [n_peers] the same time of `grants`.
        hears_uplink: true if somebody sends the uplink's state.
        counters: numbers of messages received, and of those dropped, by reason.
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
    """The state of one sender's messages of one kind: their newest numbers, least delay, and row in the inbox."""

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
        """Store the values of a message if they are possible; return `RECEIVED` or the reason to drop it."""
        if not self._sane(data):
            return "values"
        self._bytes[:] = data[VALUES_AT : self._end]
        self._time_ns[0] = at_ns
        return RECEIVED

    def follows(self, session_ns: int, sequence: int) -> bool:
        """Return True for a message that follows the newest one in the same session."""
        return session_ns == self.session_ns and 0 < sequence - self.sequence <= JUMP

    def longer_ns(self, session_ns: int, sequence: int, offset_ns: int, now_ns: int, *, follows: bool) -> int:
        """Note a message as the newest; return its delay in ns beyond the least delay so far.

        Args:
            session_ns: session of the message.
            sequence: its number in the session.
            offset_ns: its receipt by this machine's clock minus its sending by the sender's clock.
            now_ns: monotonic time of receipt.
            follows: result of `follows` for the message.
        """
        if not follows or not self.floor_known:
            self.floor_known, self.floor_ns = True, offset_ns
        else:
            self.floor_ns = min(self.floor_ns + (now_ns - self.newest_ns) // SLACK, offset_ns)
        self.session_ns, self.sequence, self.newest_ns = session_ns, sequence, now_ns
        return offset_ns - self.floor_ns

    def still_late(self, now_ns: int) -> bool:
        """Note that the newest message was late; return True if the least delay must be measured anew."""
        if self.late_since_ns is None:
            self.late_since_ns = now_ns
        if now_ns - self.late_since_ns <= RESYNC_NS:
            return False
        self.late_since_ns, self.floor_known = None, False
        return True


class Listener(Inbox):
    """An inbox that is filled from datagrams, whoever has sent them.

    A message is accepted if it is authentic, in time, and newer than all before from its sender. Otherwise it is
    dropped and counted by reason (`DROPPED`). It is newer if it follows in its session (at most `JUMP` messages
    later), or if its sender's clock is later than in all messages before and near this machine's. Whatever numbers a
    message has, it cannot keep out messages that are sent `clock_ns` later.

    The delay of a message is not known, because the clocks of two machines differ. But its delay beyond the least one
    is: receipt minus sending, minus the least such difference so far. A message is `late` if this delay and its stated
    age together exceed `late_ns`. A delay that all messages share for longer than `RESYNC_NS` is not noticed any more.

    Args:
        keys: keys of the senders, each for its own messages only.
        own: hosts of this agent.
        peers: senders of states; peer i fills row i of `states`.
        uplink: sender of the uplink's state; None: nobody sends it.
        late_ns: age in ns above which a message is too old.
        buffer_bytes: buffer of receivers' ports, which a granted window must not exceed; None: drop messages of the
            kinds `FLOWS` and `GRANT`.
        clock_ns: largest difference in ns between the sender's clock and this machine's when a session begins. A
            recording that is older cannot be replayed to an agent that has just started.
        wall_ns: function that returns this machine's clock, ns since 1970.
    """

    def __init__(
        self,
        keys: Keys,
        own: Sequence[Peer],
        peers: Sequence[Peer],
        uplink: Peer | None = None,
        *,
        late_ns: int,
        buffer_bytes: float | None = None,
        clock_ns: int = 60 * NS_PER_S,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(len(peers))
        self._keys, self._late_ns, self._clock_ns, self._wall_ns = keys, late_ns, clock_ns, wall_ns
        self._own, self._receiver = frozenset(peer.id for peer in own), own[0].address.host
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
        """Check a received datagram, which may be any bytes, and store or drop it; `now_ns` is monotonic."""
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
        """Return the reason to drop a message; None: it is authentic and newer than all before from its sender."""
        wall_ns = self._wall_ns()
        if record.clock_ns > wall_ns + self._clock_ns:
            record.clock_ns = -1  # our clock was ahead then
        if not follows and clock_ns <= record.clock_ns:
            return "replayed"  # before the signature is checked, which costs more
        key = next((key for key in self._keys.between(record.host, self._receiver) if key.number == number), None)
        if key is None:
            return "unknown_key"
        if not key.signed(data[:MAC_AT], data[MAC_AT:]):
            return "forged"
        if not follows and abs(wall_ns - clock_ns) > self._clock_ns:
            return "clock"
        record.clock_ns = max(record.clock_ns, min(clock_ns, wall_ns + self._clock_ns))
        return None

    def _wanted(self, kind: int, sender: int) -> _Record | str:
        """Return the record of the sender that a message names, or the reason to drop the message unchecked."""
        if kind not in self._kinds:
            return "kind"
        return self._records.get((kind, sender)) or "unknown_sender"
