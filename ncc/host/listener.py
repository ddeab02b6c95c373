# SPDX-License-Identifier: BSD-3-Clause
"""The messages that an agent accepts: the newest of each peer, if it is authentic and in time."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from ncc.core.units import NS_PER_S
from ncc.host.message import (
    HEAD,
    MAC_AT,
    VALUES_AT,
    Key,
    Kind,
    misfit,
    sane_state,
    sane_upper,
)
from ncc.host.peers import Peer
from ncc.host.state import STATE, UPPER, StateArray, TimeArray, idle

RECEIVED, RESYNCED = "received", "resynced"
DROPPED = (
    "undersized", "oversized", "foreign", "version", "kind", "own", "unknown_sender", "replayed", "forged", "clock",
    "late", "values",
)  # fmt: skip
"""Reasons for which a message is dropped:

- ``undersized``, ``oversized``, ``foreign``, ``version``, ``kind``: no message of this version;
- ``own``: of a host that this agent speaks for, which multicast returns;
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
STATE_END, UPPER_END = VALUES_AT + STATE.itemsize, VALUES_AT + UPPER.itemsize

HelloHandler = Callable[[int, bytes, int], bool]


class _Sender:
    """Record of one sender's messages of one kind."""

    __slots__ = ("floor_at_ns", "floor_known", "floor_ns", "late_since_ns", "row", "sequence", "session_ns")

    def __init__(self, row: int) -> None:
        self.row = row
        self.session_ns = self.sequence = -1
        self.floor_known, self.floor_ns, self.floor_at_ns = False, 0, 0
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
            self.floor_ns = min(self.floor_ns + (now_ns - self.floor_at_ns) // SLACK, offset_ns)
        self.session_ns, self.sequence, self.floor_at_ns = session_ns, sequence, now_ns
        return offset_ns - self.floor_ns

    def still_late(self, now_ns: int) -> bool:
        """Note that the newest was late; true if all were for so long that the fastest is found anew."""
        if self.late_since_ns is None:
            self.late_since_ns = now_ns
        if now_ns - self.late_since_ns <= RESYNC_NS:
            return False
        self.late_since_ns, self.floor_known = None, False
        return True


class Listener:
    """The newest state of each peer and of the uplink, from messages of any origin.

    A message is dropped, and counted by why (`DROPPED`), unless it is authentic, newer than all before from its sender,
    and in time. How long it took is not known, as clocks of two machines differ; how much longer than the fastest is:
    receipt less sending, less the least of that difference so far. A state is `late` if that and its stated age exceed
    `late_ns` together. Whoever delays everything by the same, for longer than `RESYNC_NS`, is not noticed.

    Attributes:
        heard, heard_ns, upper, upper_ns, counters: as in `ncc.host.state.Exchange`.
        slots: who is in which row of `heard`; None: nobody yet.
    """

    def __init__(
        self,
        key: Key,
        own: Sequence[Peer],
        peers: Sequence[Peer | None],
        upper: Peer | None = None,
        *,
        late_ns: int,
        clock_ns: int = 60 * NS_PER_S,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Begin with no message heard.

        Args:
            key: shared by all.
            own: hosts that this agent speaks for.
            peers: a row of `heard` each; None: to be taken by `join`.
            upper: sender of the uplink's state.
            late_ns: age from which a state is too old.
            clock_ns: by which clocks may differ when a sender is first heard: what was recorded longer ago cannot be
                replayed to an agent that has just started. A sender that was silent for twice as long may begin a
                session that is earlier than its last: its clock was set back.
            wall_ns: this machine's clock, ns since 1970.
        """
        self._key, self._late_ns, self._clock_ns, self._wall_ns = key, late_ns, clock_ns, wall_ns
        self.own = frozenset(peer.id for peer in own)
        self.slots: list[Peer | None] = list(peers)
        self.heard: StateArray = idle(len(peers))
        self.heard_ns: TimeArray = np.zeros(len(peers), dtype=np.int64)
        self.upper: StateArray = np.zeros(1, dtype=UPPER)
        self.upper_ns = 0
        self.counters = dict.fromkeys((RECEIVED, *DROPPED, RESYNCED), 0)
        self.on_hello: HelloHandler | None = None
        """Handler of authentic hellos: sender, values and time; false: ``unknown_sender``."""
        raw = self.heard.view(np.uint8).reshape(len(peers), STATE.itemsize) if len(peers) else ()
        self._rows = [row.data for row in raw]
        self._upper_row = self.upper.view(np.uint8).data
        self._senders = {(Kind.STATE.value, peer.id): _Sender(row) for row, peer in enumerate(peers) if peer}
        self.upper_from = upper
        if upper is not None:
            self._senders[Kind.UPPER.value, upper.id] = _Sender(0)

    def join(self, row: int, peer: Peer) -> None:
        """Give a row to a peer that has not been heard."""
        if (before := self.slots[row]) is not None:
            self._senders.pop((Kind.STATE.value, before.id), None)
            self._senders.pop((Kind.HELLO.value, before.id), None)
        self.slots[row] = peer
        self._senders[Kind.STATE.value, peer.id] = _Sender(row)
        self.heard[row], self.heard_ns[row] = idle(1)[0], 0

    def follow(self, upper: Peer) -> None:
        """Take the uplink's state from this sender from now on."""
        if self.upper_from is not None:
            self._senders.pop((Kind.UPPER.value, self.upper_from.id), None)
            self._senders.pop((Kind.HELLO.value, self.upper_from.id), None)
        self.upper_from = upper
        self._senders[Kind.UPPER.value, upper.id] = _Sender(0)

    def take(self, data: memoryview, now_ns: int) -> None:
        """Accept or drop received bytes, any and of any number, at a time of the monotonic clock."""
        self.counters[self._take(data, now_ns)] += 1

    def _take(self, data: memoryview, now_ns: int) -> str:
        if (why := misfit(data)) is not None:
            return why
        _, _, kind, _, sender, session_ns, sequence, sent_ns, clock_ns, age_ns = HEAD.unpack_from(data)
        known = self._wanted(kind, sender, session_ns, sequence, now_ns)  # before the key is asked, for this costs less
        if isinstance(known, str):
            return known
        if not self._key.signed(data[:MAC_AT], data[MAC_AT:]):
            return "forged"
        if session_ns != known.session_ns and not self._may_begin(session_ns, clock_ns):
            return "clock"
        old_ns = age_ns + known.longer_ns(session_ns, sequence, now_ns - sent_ns, now_ns)
        if old_ns > self._late_ns:
            self.counters[RESYNCED] += known.still_late(now_ns)
            return "late"
        known.late_since_ns = None
        return self._believe(kind, sender, known, data, now_ns - old_ns)

    def _wanted(self, kind: int, sender: int, session_ns: int, sequence: int, now_ns: int) -> _Sender | str:
        """The record of the sender that the message names; or the reason to drop it in any case."""
        if not 1 <= kind <= 3:
            return "kind"
        if sender in self.own:
            return "own"
        known = self._senders.get((kind, sender))
        if known is None:
            return "unknown_sender" if kind != 3 or self.on_hello is None else _Sender(-1)
        if session_ns == known.session_ns and sequence <= known.sequence:
            return "replayed"
        # A sender that began anew after its clock was set back seems older than it was. After such a silence all that
        # was recorded of it until then fails `_may_begin`.
        if session_ns < known.session_ns and now_ns - known.floor_at_ns <= 2 * self._clock_ns:
            return "replayed"
        return known

    def _may_begin(self, session_ns: int, clock_ns: int) -> bool:
        """True if a session may be new: its sender's clock is near ours, and the session began before now by it."""
        wall_ns = self._wall_ns()
        return abs(wall_ns - clock_ns) <= self._clock_ns and session_ns <= wall_ns + self._clock_ns

    def _believe(self, kind: int, sender: int, known: _Sender, data: memoryview, at_ns: int) -> str:
        if kind == 1:
            if not sane_state(data):
                return "values"
            self._rows[known.row][:] = data[VALUES_AT:STATE_END]
            self.heard_ns[known.row] = at_ns
            return RECEIVED
        if kind == 2:
            if not sane_upper(data):
                return "values"
            self._upper_row[:] = data[VALUES_AT:UPPER_END]
            self.upper_ns = at_ns
            return RECEIVED
        if self.on_hello is None or not self.on_hello(sender, bytes(data[VALUES_AT:MAC_AT]), at_ns):
            return "unknown_sender"
        self._senders[kind, sender] = known
        return RECEIVED
