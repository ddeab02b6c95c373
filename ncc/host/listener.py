# SPDX-License-Identifier: BSD-3-Clause
"""The messages that an agent accepts: the newest of each peer, if it is authentic and in time."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from ncc.core.units import NS_PER_S
from ncc.host.message import (
    HEAD,
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
from ncc.host.peers import Peer

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
SLACK = 2000
"""Clocks of two machines run apart by less than one part in so many (crystals: one in 10,000)."""
RESYNC_NS = 5 * NS_PER_S
"""Time for which all messages of a sender must be late before the fastest is found anew.

Its clock stood still then, as that of a machine that was paused or moved.
"""
_STATE, _UPLINK = Kind.STATE.value, Kind.UPLINK.value


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
    """Record of one sender's messages of one kind, and the row of an inbox that they fill."""

    __slots__ = ("_bytes", "_end", "_sane", "_time_ns", "floor_known", "floor_ns", "late_since_ns", "newest_ns",
                 "sequence", "session_ns")  # fmt: skip

    def __init__(self, values: StateArray, time_ns: TimeArray, sane: Callable[[memoryview], bool]) -> None:
        self._bytes, self._time_ns, self._sane = values.view(np.uint8).data, time_ns, sane
        self._end = VALUES_AT + values.dtype.itemsize
        self.session_ns = self.sequence = -1
        self.floor_known, self.floor_ns, self.newest_ns = False, 0, 0
        self.late_since_ns: int | None = None

    def put(self, data: memoryview, at_ns: int) -> str:
        """Take over the values of a message, unless they cannot be."""
        if not self._sane(data):
            return "values"
        self._bytes[:] = data[VALUES_AT : self._end]
        self._time_ns[0] = at_ns
        return RECEIVED

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


class Listener(Inbox):
    """An inbox filled by messages of any origin.

    A message is dropped, and counted by why (`DROPPED`), unless it is authentic, newer than all before from its sender,
    and in time. How long it took is not known, as clocks of two machines differ; how much longer than the fastest is:
    receipt less sending, less the least of that difference so far. A state is `late` if that and its stated age exceed
    `late_ns` together. Whoever delays everything by the same, for longer than `RESYNC_NS`, is not noticed.

    Args:
        key: shared by all.
        own: hosts that this agent sends for.
        peers: a row of `states` each.
        uplink: sender of the uplink's state.
        late_ns: age from which a state is too old.
        clock_ns: by which clocks may differ when a sender is first received: what was recorded longer ago cannot be
            replayed to an agent that has just started. A sender that was silent for twice as long may begin a session
            that is earlier than its last: its clock was set back.
        wall_ns: this machine's clock, ns since 1970.
    """

    def __init__(
        self,
        key: Key,
        own: Sequence[Peer],
        peers: Sequence[Peer],
        uplink: Peer | None = None,
        *,
        late_ns: int,
        clock_ns: int = 60 * NS_PER_S,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(len(peers))
        self._key, self._late_ns, self._clock_ns, self._wall_ns = key, late_ns, clock_ns, wall_ns
        self._own = frozenset(peer.id for peer in own)
        self.counters = dict.fromkeys((RECEIVED, *DROPPED, RESYNCED), 0)
        self._records = {
            (_STATE, peer.id): _Record(self.states[row : row + 1], self.states_ns[row : row + 1], sane_state)
            for row, peer in enumerate(peers)
        }
        if uplink is not None:
            self._records[_UPLINK, uplink.id] = _Record(self.uplink, self.uplink_ns, sane_uplink)

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
        return record.put(data, now_ns - old_ns)

    def _wanted(self, kind: int, sender: int, session_ns: int, sequence: int, now_ns: int) -> _Record | str:
        """The record of the sender that the message names; or the reason to drop it in any case."""
        if kind not in (_STATE, _UPLINK):
            return "kind"
        if sender in self._own:
            return "own"
        record = self._records.get((kind, sender))
        if record is None:
            return "unknown_sender"
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
