# SPDX-License-Identifier: BSD-3-Clause
"""The messages that an agent sends: numbered, signed, and not too many."""

import time
from collections.abc import Callable, Sequence

from ncc.host.message import Key, Kind, encode
from ncc.host.peers import Peer


class Sender:
    """Numbers and signs the messages of an agent's hosts, in a session that begins with it.

    Args:
        key: shared by all hosts of the neighbourhood.
        own: hosts of the agent.
        now_ns: monotonic time at which the session begins.
        wall_ns: the machine's clock, ns since 1970.
    """

    def __init__(
        self, key: Key, own: Sequence[Peer], now_ns: int, *, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._key, self._own, self._began_ns, self._wall_ns = key, tuple(own), now_ns, wall_ns
        self._session_ns = wall_ns()
        self._sequence = dict.fromkeys(Kind, 0)

    def messages(self, kind: Kind, values: Sequence[bytes], at_ns: int, now_ns: int) -> list[bytes]:
        """A message of each of the agent's hosts, with values as of `at_ns`, sent at `now_ns`."""
        self._sequence[kind] += 1
        sequence, sent_ns, age_ns = self._sequence[kind], max(now_ns - self._began_ns, 0), max(now_ns - at_ns, 0)
        clock_ns = self._wall_ns()
        return [
            encode(
                self._key,
                kind,
                row,
                sender=peer.id,
                session_ns=self._session_ns,
                sequence=sequence,
                sent_ns=sent_ns,
                clock_ns=clock_ns,
                age_ns=age_ns,
            )
            for peer, row in zip(self._own, values, strict=True)
        ]


class Pace:
    """One turn per period on average, two at once at most (GCRA, ITU-T I.371 annex A).

    A turn that is late by less than a period costs no other.
    """

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._due_ns: int | None = None

    def allows(self, now_ns: int) -> bool:
        """Take a turn, if one is left; false: none is."""
        due_ns = now_ns if self._due_ns is None else self._due_ns
        if due_ns - now_ns > self._period_ns:
            return False
        self._due_ns = max(due_ns, now_ns) + self._period_ns
        return True
