# SPDX-License-Identifier: BSD-3-Clause
"""The messages that an agent accepts: the newest of each peer, if it is authentic and in time."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from ncc.core.units import NS_PER_S
from ncc.host.message import (
    HEAD,
    HELLO_VALUES,
    MAC_AT,
    UPLINK,
    VALUES_AT,
    Key,
    Kind,
    StateArray,
    TimeArray,
    idle,
    misfit,
    sane_state,
    sane_uplink,
)
from ncc.host.peers import Peer, address_from, peer_at

RECEIVED, RESYNCED = "received", "resynced"
DROPPED = (
    "undersized", "oversized", "foreign", "version", "kind", "own", "unknown_sender", "replayed", "forged", "clock",
    "late", "values",
)  # fmt: skip
"""Reasons for which a message is dropped:

- ``undersized``, ``oversized``, ``foreign``, ``version``, ``kind``: no message of this version;
- ``own``: of a host that this agent sends for, which multicast returns;
- ``unknown_sender``: of no peer;
- ``replayed``: not after the last from its sender, by session and sequence; also what was overtaken on its way, and an
  earlier session unless its sender was silent for twice what clocks may differ by;
- ``forged``: signed by another key, or changed;
- ``clock``: the first of a session, and its sender's clock and ours differ by more than is tolerated;
- ``late``: its state is too old by the time it comes;
- ``values``: they are not finite, or negative where that cannot be.
"""
DISCOVERED = ("joined", "replaced", "surplus")
"""Fates of hosts and uplinks that send hellos: given an empty row, given the row of a silent one, or without a row."""
SLACK = 2000
"""Clocks of two machines run apart by less than one part in so many (crystals: one in 10,000)."""
RESYNC_NS = 5 * NS_PER_S
"""Time for which all messages of a sender must be late before the fastest is found anew.

Its clock stood still then, as that of a machine that was paused or moved.
"""
FORGET_NS = 30 * NS_PER_S
"""Silence of a host after which another that is discovered may take its row."""
_STATE, _UPLINK, _HELLO = (kind.value for kind in (Kind.STATE, Kind.UPLINK, Kind.HELLO))


class Inbox:
    """The newest states of an agent's peers and of the uplink.

    Attributes:
        states: [n_peers] of `STATE`; `idle` until one has been received.
        states_ns: [n_peers] monotonic time to which `states` belong: receipt less the age they came with; 0: never.
        uplink: [1] of `UPLINK`; zeros until it has been received.
        uplink_ns: [1] monotonic time to which `uplink` belongs; 0: never.
        counters: how many messages were received, and dropped, by reason.
    """

    def __init__(self, n_peers: int = 0) -> None:
        self.states: StateArray = idle(n_peers)
        self.states_ns: TimeArray = np.zeros(n_peers, np.int64)
        self.uplink: StateArray = np.zeros(1, UPLINK)
        self.uplink_ns: TimeArray = np.zeros(1, np.int64)
        self.counters: dict[str, int] = {}


class _Record:
    """Record of one sender's messages of one kind."""

    __slots__ = ("floor_known", "floor_ns", "late_since_ns", "newest_ns", "row", "sequence", "session_ns")

    def __init__(self, row: int) -> None:
        self.row = row
        self.session_ns = self.sequence = -1
        self.floor_known, self.floor_ns, self.newest_ns = False, 0, 0
        self.late_since_ns: int | None = None

    def longer_ns(self, session_ns: int, sequence: int, offset_ns: int, now_ns: int) -> int:
        """Note the newest message; return by how much longer it took than the fastest of its session.

        Args:
            session_ns: to which it belongs.
            sequence: within it.
            offset_ns: its receipt by our clock less its sending by the sender's,
            now_ns: at this time.
        """
        if session_ns != self.session_ns or not self.floor_known:
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


class _Rows:
    """The rows of an inbox that messages of one kind fill."""

    def __init__(
        self, peers: Sequence[Peer | None], states: StateArray, times_ns: TimeArray, sane: Callable[[memoryview], bool]
    ) -> None:
        self.slots, self.states, self.times_ns = list(peers), states, times_ns
        self._bytes = [states[row : row + 1].view(np.uint8).data for row in range(len(states))]
        self._sane, self._end = sane, VALUES_AT + states.dtype.itemsize

    def put(self, row: int, data: memoryview, at_ns: int) -> str:
        """Take over the values of a message, unless they cannot be."""
        if not self._sane(data):
            return "values"
        self._bytes[row][:] = data[VALUES_AT : self._end]
        self.times_ns[row] = at_ns
        return RECEIVED


class Listener(Inbox):
    """An inbox filled by messages of any origin.

    A message is dropped, and counted by why (`DROPPED`), unless it is authentic, newer than all before from its sender,
    and in time. How long it took is not known, as clocks of two machines differ; how much longer than the fastest is:
    receipt less sending, less the least of that difference so far. A state is `late` if that and its stated age exceed
    `late_ns` together. Whoever delays everything by the same, for longer than `RESYNC_NS`, is not noticed.

    Args:
        key: shared by all.
        own: hosts that this agent sends for.
        peers: a row of `states` each; None: to be discovered.
        uplink: sender of the uplink's state.
        late_ns: age from which a state is too old.
        discover: give empty rows, and the uplink's, to whoever sends a hello, in the order in which they come. Rows are
            kept: another gets one only if it has been silent for `FORGET_NS` and none is empty.
        clock_ns: by which clocks may differ when a sender is first received: what was recorded longer ago cannot be
            replayed to an agent that has just started. A sender that was silent for twice as long may begin a session
            that is earlier than its last: its clock was set back.
        wall_ns: this machine's clock, ns since 1970.
    """

    def __init__(
        self,
        key: Key,
        own: Sequence[Peer],
        peers: Sequence[Peer | None],
        uplink: Peer | None = None,
        *,
        late_ns: int,
        discover: bool = False,
        clock_ns: int = 60 * NS_PER_S,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(len(peers))
        self._key, self._late_ns, self._clock_ns, self._wall_ns = key, late_ns, clock_ns, wall_ns
        self._own, self._discover = frozenset(peer.id for peer in own), discover
        self.counters = dict.fromkeys((RECEIVED, *DROPPED, RESYNCED, *DISCOVERED), 0)
        self._rows = {
            _STATE: _Rows(peers, self.states, self.states_ns, sane_state),
            _UPLINK: _Rows([uplink] if uplink or discover else [], self.uplink, self.uplink_ns, sane_uplink),
        }
        self._records = {
            (kind, peer.id): _Record(row)
            for kind, rows in self._rows.items()
            for row, peer in enumerate(rows.slots)
            if peer
        }

    @property
    def slots(self) -> list[Peer | None]:
        """[n_peers] The peer of each row of `states`; None: nobody yet."""
        return self._rows[_STATE].slots

    def take(self, data: memoryview, now_ns: int) -> None:
        """Accept or drop received bytes, any and of any number, at a time of the monotonic clock."""
        self.counters[self._take(data, now_ns)] += 1

    def _take(self, data: memoryview, now_ns: int) -> str:
        if (why := misfit(data)) is not None:
            return why
        _, _, kind, _, sender, session_ns, sequence, sent_ns, clock_ns, age_ns = HEAD.unpack_from(data)
        record = self._wanted(kind, sender, session_ns, sequence, now_ns)  # before the key is asked: this costs less
        if isinstance(record, str):
            return record
        if not self._key.signed(data[:MAC_AT], data[MAC_AT:]):
            return "forged"
        if session_ns != record.session_ns and not self._may_begin(session_ns, clock_ns):
            return "clock"
        old_ns = age_ns + record.longer_ns(session_ns, sequence, now_ns - sent_ns, now_ns)
        if old_ns > self._late_ns:
            self.counters[RESYNCED] += record.still_late(now_ns)
            return "late"
        record.late_since_ns = None
        return self._believe(kind, sender, record, data, now_ns - old_ns)

    def _wanted(self, kind: int, sender: int, session_ns: int, sequence: int, now_ns: int) -> _Record | str:
        """The record of the sender that the message names; or the reason to drop it in any case."""
        if not _STATE <= kind <= _HELLO:
            return "kind"
        if sender in self._own:
            return "own"
        record = self._records.get((kind, sender))
        if record is None:
            return _Record(-1) if kind == _HELLO and self._discover else "unknown_sender"
        if session_ns == record.session_ns and sequence <= record.sequence:
            return "replayed"
        # A sender that began anew after its clock was set back seems older than it was. After such a silence all that
        # was recorded of it until then fails `_may_begin`.
        if session_ns < record.session_ns and now_ns - record.newest_ns <= 2 * self._clock_ns:
            return "replayed"
        return record

    def _may_begin(self, session_ns: int, clock_ns: int) -> bool:
        """True if a session may be new: its sender's clock is near ours, and the session began before now by it."""
        wall_ns = self._wall_ns()
        return abs(wall_ns - clock_ns) <= self._clock_ns and session_ns <= wall_ns + self._clock_ns

    def _believe(self, kind: int, sender: int, record: _Record, data: memoryview, at_ns: int) -> str:
        if kind != _HELLO:
            return self._rows[kind].put(record.row, data, at_ns)
        if not self._meet(sender, data, at_ns):
            return "unknown_sender"
        self._records[kind, sender] = record
        return RECEIVED

    def _meet(self, sender: int, data: memoryview, now_ns: int) -> bool:
        """Give the sender of an authentic hello a row, unless it has one; false: it gets none."""
        packed, port, kind = HELLO_VALUES.unpack_from(data, VALUES_AT)
        peer = peer_at(address_from(packed, port), sender >> 48)
        if peer.id != sender or not port or kind not in self._rows:
            return False
        slots = self._rows[kind].slots
        if any(slot is not None and slot.id == sender for slot in slots):
            return True
        if None in slots:
            self._join(kind, slots.index(None), peer)
            self.counters["joined"] += 1
            return True
        newest_ns = [self._newest_ns(kind, slot) for slot in slots]
        if not slots or now_ns - min(newest_ns) <= FORGET_NS:
            self.counters["surplus"] += 1
            return False
        self._join(kind, newest_ns.index(min(newest_ns)), peer)
        self.counters["replaced"] += 1
        return True

    def _newest_ns(self, kind: int, peer: Peer | None) -> int:
        """Time of the newest message of a peer."""
        found = (self._records.get((which, peer.id)) for which in (kind, _HELLO)) if peer else ()
        return max((record.newest_ns for record in found if record), default=0)

    def _join(self, kind: int, row: int, peer: Peer) -> None:
        """Give a row to a sender of this kind that has none, and nothing of the one before."""
        rows = self._rows[kind]
        if (before := rows.slots[row]) is not None:
            for which in (kind, _HELLO):
                self._records.pop((which, before.id), None)
        rows.slots[row] = peer
        self._records[kind, peer.id] = _Record(row)
        if kind == _STATE:
            rows.states[row], rows.times_ns[row] = idle(1)[0], 0
