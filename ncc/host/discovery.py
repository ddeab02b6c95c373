# SPDX-License-Identifier: BSD-3-Clause
"""Discovery of peers on the link: agents send hellos to a multicast group, and any that has the key joins."""

from collections.abc import Sequence

from ncc.core.units import NS_PER_S
from ncc.host.listener import Listener
from ncc.host.message import HELLO_VALUES, Kind
from ncc.host.peers import Address, Peer, address_from, peer_at

HELLO_NS = NS_PER_S
"""Time between two hellos of a host."""
FORGET_NS = 30 * NS_PER_S
"""Silence of a host after which another may take its row."""


def hello_values(address: Address, speaks: Kind) -> bytes:
    """Values of a hello: the address of its sender and the kind of messages that it sends."""
    return HELLO_VALUES.pack(address.packed(), address.port, speaks)


class Discovery:
    """Fills the rows of a `Listener` with hosts in the order in which they are first heard of, and keeps them there.

    A row is given to another host only if its own has been silent for `FORGET_NS` and no row is empty.
    """

    def __init__(self, listener: Listener, own: Sequence[Peer], now_ns: int) -> None:
        """Fill all rows that are None."""
        self._listener = listener
        self._values = [hello_values(peer.address, Kind.STATE) for peer in own]
        self._hello_ns = [now_ns] * len(listener.slots)
        self._upper_hello_ns = now_ns
        self._due_ns = now_ns
        listener.counters |= {"joined": 0, "replaced": 0, "surplus": 0}
        listener.on_hello = self._hear

    def due(self, now_ns: int) -> Sequence[bytes]:
        """Values of the hellos to be sent now; empty: none yet."""
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
        """The row that a host has, or gets now; None: all are taken."""
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
