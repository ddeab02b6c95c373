# SPDX-License-Identifier: BSD-3-Clause
"""Who else is on the link: agents say hello to a multicast group, and whoever has the key joins."""

from collections.abc import Sequence

from ncc.core.units import NS_PER_S
from ncc.deployed.listening import Listener
from ncc.deployed.message import HELLO_VALUES, Kind
from ncc.deployed.peers import Address, Peer, address_from, peer_at

HELLO_NS = NS_PER_S
"""Between two hellos of a host."""
FORGET_NS = 30 * NS_PER_S
"""A row whose host has been silent for so long may be taken by another."""


def hello_values(address: Address, speaks: Kind) -> bytes:
    """The values of a hello: where its sender is found and which kind of messages it sends."""
    return HELLO_VALUES.pack(address.packed(), address.port, speaks)


class Discovery:
    """Fills the rows of a `Listener` with hosts in the order in which they are first heard of, and keeps them there.

    A row is given to another host only if its own has been silent for `FORGET_NS` and no row is empty.
    """

    def __init__(self, listener: Listener, own: Sequence[Peer], now_ns: int) -> None:
        """All rows that are None are to be filled."""
        self._listener = listener
        self._values = [hello_values(peer.address, Kind.STATE) for peer in own]
        self._hello_ns = [now_ns] * len(listener.slots)
        self._upper_hello_ns = now_ns
        self._due_ns = now_ns
        listener.counters |= {"joined": 0, "replaced": 0, "surplus": 0}
        listener.on_hello = self._hear

    def due(self, now_ns: int) -> Sequence[bytes]:
        """What the agent's hosts are to say hello with now; empty: nothing yet."""
        if now_ns < self._due_ns:
            return ()
        self._due_ns = now_ns + HELLO_NS
        return self._values

    def _hear(self, sender: int, values: bytes, now_ns: int) -> bool:
        packed, port, speaks = HELLO_VALUES.unpack_from(values)
        peer = peer_at(address_from(packed, port), sender >> 48)
        if peer.id != sender or not port:
            return False
        if speaks == Kind.UPPER:
            return self._hear_upper(peer, now_ns)
        return speaks == Kind.STATE and self._hear_host(peer, now_ns)

    def _hear_upper(self, peer: Peer, now_ns: int) -> bool:
        before, heard_ns = self._listener.upper_from, max(self._listener.upper_ns, self._upper_hello_ns)
        if before is None or (before.id != peer.id and now_ns - heard_ns > FORGET_NS):
            self._listener.follow(peer)
        elif before.id != peer.id:
            self._listener.counters["surplus"] += 1
            return False
        self._upper_hello_ns = now_ns
        return True

    def _hear_host(self, peer: Peer, now_ns: int) -> bool:
        row = self._row_for(peer, now_ns)
        if row is None:
            self._listener.counters["surplus"] += 1
            return False
        self._hello_ns[row] = now_ns
        return True

    def _row_for(self, peer: Peer, now_ns: int) -> int | None:
        """The row that a host has, or now gets."""
        slots, counters = self._listener.slots, self._listener.counters
        for row, slot in enumerate(slots):
            if slot is not None and slot.id == peer.id:
                return row
        if None in slots:
            row = slots.index(None)
            counters["joined"] += 1
        else:
            heard_ns = [max(int(ns), hello) for ns, hello in zip(self._listener.heard_ns, self._hello_ns, strict=True)]
            row = min(range(len(slots)), key=heard_ns.__getitem__, default=-1)
            if row < 0 or now_ns - heard_ns[row] <= FORGET_NS:
                return None
            counters["replaced"] += 1
        self._listener.join(row, peer)
        return row
