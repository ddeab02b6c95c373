# SPDX-License-Identifier: BSD-3-Clause
"""The messages that an agent sends, in order and not too many."""

import time
from collections.abc import Callable, Sequence

from ncc.deployed.message import Key, Kind, encode
from ncc.deployed.peers import Peer


class Speaker:
    """Numbers and signs what the hosts of an agent say. A session begins with it."""

    def __init__(
        self, key: Key, own: Sequence[Peer], now_ns: int, *, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        """A session that begins at `now_ns` of the monotonic clock, which is `wall_ns()` of the machine's."""
        self._key, self._own, self._began_ns, self._wall_ns = key, tuple(own), now_ns, wall_ns
        self._session_ns = wall_ns()
        self._sequence = dict.fromkeys(Kind, 0)

    def say(self, kind: Kind, values: Sequence[bytes], at_ns: int, now_ns: int) -> list[bytes]:
        """A message for each of the agent's hosts, of what was so at `at_ns` and is sent at `now_ns`."""
        self._sequence[kind] += 1
        sequence, sent_ns, age_ns = self._sequence[kind], max(now_ns - self._began_ns, 0), max(now_ns - at_ns, 0)
        clock_ns = self._wall_ns()
        return [
            encode(
                self._key,
                kind,
                told,
                sender=peer.id,
                session_ns=self._session_ns,
                sequence=sequence,
                sent_ns=sent_ns,
                clock_ns=clock_ns,
                age_ns=age_ns,
            )
            for peer, told in zip(self._own, values, strict=True)
        ]


class Pace:
    """One turn per period on average, two at once at most (GCRA, ITU-T I.371 annex A).

    A turn that is late by less than a period costs no other.
    """

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._due_ns: int | None = None

    def allows(self, now_ns: int) -> bool:
        """Whether this turn may be taken; if so, it is."""
        due_ns = now_ns if self._due_ns is None else self._due_ns
        if due_ns - now_ns > self._period_ns:
            return False
        self._due_ns = max(due_ns, now_ns) + self._period_ns
        return True
