# SPDX-License-Identifier: BSD-3-Clause
"""Exchange of messages with an agent's peers by UDP, and one for agents without peers. Sockets never block."""

import socket
import struct
import time
from collections.abc import Sequence

from ncc.host.keys import Keys
from ncc.host.listener import Inbox, Listener
from ncc.host.message import SIZE, TO_ONE, Kind, Sender, StateArray
from ncc.host.peers import Peer
from ncc.host.sockets import opened, take_from

SPARE = 16
"""Number of messages that `receive` takes in addition to two of each sender and kind."""
DROPS_EVERY = 256
"""Number of calls of `receive` after which the kernel's count of dropped messages is read again."""
_MEMORY, _DROPS, _FIELDS = 55, 8, struct.Struct("9I")
"""Socket option SO_MEMINFO, the place of its field SK_MEMINFO_DROPS (linux/sock_diag.h), and the layout of all."""


class Exchange:
    """An exchange of messages with peers. This base class has no peers and no sender of the uplink's state.

    Attributes:
        inbox: newest messages of the peers, one peer per row, and of the uplink.
        counters: numbers of messages sent and received, and of those dropped, by reason.
    """

    alone = True
    """True if there is nobody to send to."""

    def __init__(self) -> None:
        self.inbox = Inbox()

    @property
    def counters(self) -> dict[str, int]:
        """Numbers of messages sent and received, and of those dropped, by reason."""
        return self.inbox.counters

    @property
    def n_peers(self) -> int:
        """Number of hosts of the neighbourhood that are not local."""
        return len(self.inbox.states)

    def send(self, own: StateArray, now_ns: int) -> None:
        """Send all peers the states [k] of the local hosts as they are at `now_ns`, one message per host.

        This never blocks, and a message that cannot be sent is counted.
        """

    def tell(self, kind: Kind, row: int, values: bytes, now_ns: int) -> None:
        """Send one peer a message of the kind `FLOWS` or `GRANT`.

        This never blocks, and a message that cannot be sent is counted.

        Args:
            kind: kind of the message.
            row: row of the peer in the inbox.
            values: a row of this kind as bytes.
            now_ns: monotonic time of the values.
        """

    def receive(self, now_ns: int) -> None:
        """Move the messages that have arrived into the inbox, up to a fixed number and without waiting."""

    def prioritise(self, priority: int) -> None:
        """Give messages this SO_PRIORITY from now on; one above 6 takes CAP_NET_ADMIN or CAP_NET_RAW."""

    def close(self) -> None:
        """Close the sockets; may be called twice."""


class UdpExchange(Exchange):
    """An `Exchange` by UDP.

    A call of `receive` takes at most two messages of each sender and kind, and `SPARE` more. If more are waiting, it
    counts one ``flood``. The rest waits in the socket's buffer, which has room for about twice as many messages. A
    message that waits too long counts as ``late``, one that the kernel drops as ``kernel_drops``. The kernel also
    drops, and counts there, packets without the size and version of a message, and packets from an address or port
    that is no sender's.

    Args:
        keys: keys of the messages.
        own: hosts of this agent. Their address must be one of this machine that the peers can reach.
        peers: hosts of the other agents.
        uplink: sender of the uplink's state; None: nobody sends it.
        kind: kind of the messages that `send` sends. With `UPLINK`, nothing is accepted from the peers.
        late_ns: age in ns above which an arriving message is dropped.
        buffer_bytes: as in `Listener`.
        before: exchange of the same host that ends now. Its socket goes on, and so do the messages that wait there.

    Raises:
        ConfigError: an address that cannot be used, or a peer without a key.
        DatapathError: a port in use.
    """

    alone = False

    def __init__(
        self,
        keys: Keys,
        own: Sequence[Peer],
        peers: Sequence[Peer] = (),
        *,
        uplink: Peer | None = None,
        kind: Kind = Kind.STATE,
        late_ns: int,
        buffer_bytes: int | None = None,
        before: "UdpExchange | None" = None,
    ) -> None:
        self._to = list(dict.fromkeys(peer.address for peer in peers))
        self._place = [self._to.index(peer.address) for peer in peers]
        state_peers = peers if kind == Kind.STATE else ()
        senders = [peer.address for peer in (*state_peers, *([uplink] if uplink else []))]
        to = [address.host for address in self._to]
        self._kind, self._sender = kind, Sender(keys, own, time.monotonic_ns(), to=to)
        self.inbox = self._listener = Listener(
            keys, own, state_peers, uplink, late_ns=late_ns, buffer_bytes=buffer_bytes
        )
        self.counters.update(dict.fromkeys(("sent", "send_errors", "flood", "receive_errors", "kernel_drops"), 0))
        kinds = 1 if buffer_bytes is None else 1 + len(TO_ONE)
        self._most = 2 * (kinds * self.n_peers + 1) + SPARE
        self._buffer = memoryview(bytearray(SIZE + 1))
        self._calls = 0
        if before is None:
            self._socket = opened(own[0].address, self._most, senders)
        else:
            self._socket = before._socket
            take_from(self._socket, self._most, senders)

    def send(self, own: StateArray, now_ns: int) -> None:
        sending_ns, errors = max(time.monotonic_ns(), now_ns), 0
        batches = self._sender.messages(self._kind, [row.tobytes() for row in own], now_ns, sending_ns)
        send = self._socket.sendto
        for address, messages in zip(self._to, batches, strict=True):
            for message in messages:
                try:
                    send(message, address)
                except OSError:  # a full buffer, no route, a firewall: the next period sends anew
                    errors += 1
        self.counters["sent"] += len(self._to) * len(own) - errors
        self.counters["send_errors"] += errors

    def tell(self, kind: Kind, row: int, values: bytes, now_ns: int) -> None:
        place = self._place[row]
        message = self._sender.message_to(kind, place, values, max(time.monotonic_ns(), now_ns))
        try:
            self._socket.sendto(message, self._to[place])
        except OSError:  # as in `send`; the message is repeated later
            self.counters["send_errors"] += 1
        else:
            self.counters["sent"] += 1

    def receive(self, now_ns: int) -> None:
        """Receive as in `Exchange`; a message counts as received when it is read."""
        drained = self._drain()
        self.counters["flood"] += not drained
        self._calls += 1
        if self._calls % DROPS_EVERY == 0 or not drained:
            self.counters["kernel_drops"] = self.kernel_drops()

    def _drain(self) -> bool:
        """Take at most `_most` messages from the socket; return False if more may be waiting."""
        buffer, receive, take, clock_ns = self._buffer, self._socket.recv_into, self._listener.take, time.monotonic_ns
        for _ in range(self._most):
            try:
                size = receive(buffer)
            except BlockingIOError:
                return True
            except OSError:
                self.counters["receive_errors"] += 1
                return True
            take(buffer[:size], clock_ns())
        return False

    def kernel_drops(self) -> int:
        """Return the number of messages that the kernel has dropped, by the filter or for lack of room."""
        fields: tuple[int, ...] = _FIELDS.unpack(self._socket.getsockopt(socket.SOL_SOCKET, _MEMORY, _FIELDS.size))
        return fields[_DROPS]

    def prioritise(self, priority: int) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)

    def close(self) -> None:
        self._socket.close()
