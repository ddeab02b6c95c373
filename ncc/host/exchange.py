# SPDX-License-Identifier: BSD-3-Clause
"""The exchange of hosts' states by UDP, with each peer singly or with a multicast group; or with nobody."""

import socket
import time
from typing import Annotated

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.units import to_ns
from ncc.core.value import Positive, Value
from ncc.host.keys import ANY, Keys
from ncc.host.listener import Inbox, Listener
from ncc.host.message import SIZE, TO_ONE, Kind, Sender, StateArray
from ncc.host.peers import Peer, parse_agent, parse_one, parse_peers
from ncc.host.sockets import drops, join_group, open_socket

SPARE = 16
"""Messages that `receive` takes beyond two of each sender and kind."""
BUFFER_BYTES = 3000, 2**32 - 1
"""Least and most buffer of a receiver's port: two packets, and more than any switch has."""
DROPS_EVERY = 256
"""Calls of `receive` between two readings of the kernel's count of dropped messages."""


class ExchangeSpec(Value, frozen=True):
    """The peers of an agent, and how they are reached."""

    listen: str
    """The agent itself, ``ADDRESS:PORT*HOSTS`` as in `ncc.host.peers.parse_agent`: the address of this machine that its
    peers use."""
    late_s: Positive = 1.0
    """Age in seconds above which an arriving state is dropped."""
    peers: tuple[str, ...] = ()
    """The other agents, each with its hosts."""
    uplink: str | None = None
    """The sender of the uplink's state, if there is one."""
    group: str | None = None
    """A multicast group, ``ADDRESS:PORT``: one message then serves all peers, which must name the same group."""
    interface: str | None = None
    """Network interface by which the group is reached."""
    buffer_bytes: Annotated[int, Meta(ge=BUFFER_BYTES[0], le=BUFFER_BYTES[1])] | None = None
    """Buffer of the switch's port to each host, for receivers that grant starts to their senders; None: no receiver
    does."""
    loop: bool = False
    """Let other agents on this machine receive messages to the group."""

    def check(self) -> None:
        if (self.group is None) != (self.interface is None):
            raise ConfigError("ExchangeSpec.group and interface go together: name both or none")
        if self.buffer_bytes is not None and self.group is not None:
            raise ConfigError("receivers tell each sender something else, and a group is told one: leave --group out")

    @property
    def own(self) -> tuple[Peer, ...]:
        """Hosts of the agent; errors as `parse_agent`."""
        return parse_agent(self.listen, "address to listen on")


class Exchange:
    """An exchange of hosts' states with peers. This base class has no peers and no sender of the uplink's state.

    Attributes:
        inbox: newest states of the peers, in a fixed order, and of the uplink.
        counters: numbers of messages sent, received, and dropped by reason.
    """

    alone = True
    """True if there is nobody to send to."""

    def __init__(self) -> None:
        self.inbox = Inbox()

    @property
    def counters(self) -> dict[str, int]:
        """Counters of the inbox and of sending."""
        return self.inbox.counters

    @property
    def n_peers(self) -> int:
        """Number of hosts of the neighbourhood that are not local."""
        return len(self.inbox.states)

    def send(self, own: StateArray, now_ns: int) -> None:
        """Send all peers the state [k] of the local hosts as it is at `now_ns`: one message per host and period.

        It never blocks, and a message that cannot be sent is counted.
        """

    def tell(self, kind: Kind, row: int, values: bytes, now_ns: int) -> None:
        """Send one peer (a row of the inbox) a row of `FLOWS` or `GRANT`, as it is at `now_ns`.

        It never blocks, and a message that cannot be sent is counted.
        """

    def receive(self, now_ns: int) -> None:
        """Take in the messages that have come, without waiting and up to a fixed number."""

    def prioritise(self, priority: int) -> None:
        """Send with this SO_PRIORITY from now on; above 6 it takes CAP_NET_ADMIN or CAP_NET_RAW."""

    def close(self) -> None:
        """Give the sockets back; may be called twice."""


class UdpExchange(Exchange):
    """An `Exchange` by UDP, as `ExchangeSpec` says.

    A call of `receive` takes at most two messages of each sender and kind, and `SPARE` more. If more are waiting, it
    counts one ``flood``. The rest waits in a kernel buffer for about twice that number, until it is ``late`` or the
    kernel drops it (``kernel_drops``). The kernel also drops, and counts there, packets without the size and version of
    a message, and packets from an address or port that is no sender's.

    Raises:
        ConfigError: an address, group or interface that cannot be used, a port in use, or a peer without a key.
    """

    alone = False

    def __init__(self, spec: ExchangeSpec, keys: Keys, kind: Kind = Kind.STATE) -> None:
        own, peers = spec.own, parse_peers(spec.peers, spec.own)
        uplink = None if spec.uplink is None else parse_one(spec.uplink, "uplink")
        self._to = list(dict.fromkeys(peer.address for peer in peers))
        self._place = [self._to.index(peer.address) for peer in peers]
        state_peers = peers if kind == Kind.STATE else ()
        senders = [peer.address for peer in (*state_peers, *([uplink] if uplink else []))]
        group = None if spec.group is None else parse_one(spec.group, "group").address
        to = [ANY] if group else [address.host for address in self._to]
        self._kind, self._sender = kind, Sender(keys, own, time.monotonic_ns(), to=to)
        self.inbox = self._listener = Listener(
            keys,
            own,
            state_peers,
            uplink,
            group=group is not None,
            late_ns=to_ns(spec.late_s),
            buffer_bytes=spec.buffer_bytes,
        )
        self.counters.update(dict.fromkeys(("sent", "send_errors", "flood", "receive_errors", "kernel_drops"), 0))
        kinds = 1 if spec.buffer_bytes is None else 1 + len(TO_ONE)
        self._most = 2 * (kinds * self.n_peers + 1) + SPARE
        self._buffer = memoryview(bytearray(SIZE + 1))
        self._calls = 0
        self._socket = open_socket(own[0].address, self._most, senders)
        self._sockets = [self._socket]
        try:
            if group is not None and spec.interface is not None:
                self._to = [group]
                self._sockets.append(
                    join_group(self._socket, group, spec.interface, self._most, senders, loop=spec.loop)
                )
        except BaseException:
            self.close()
            raise

    def send(self, own: StateArray, now_ns: int) -> None:
        sending_ns, errors = max(time.monotonic_ns(), now_ns), 0
        batches = self._sender.messages(self._kind, [row.tobytes() for row in own], now_ns, sending_ns)
        send = self._socket.sendto
        for address, messages in zip(self._to, batches, strict=True):
            for message in messages:
                try:
                    send(message, address)
                except OSError:  # a full buffer, no route, a firewall: the next period tries again
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
        left = self._most
        for receiving in self._sockets:
            left = self._drain(receiving, left)
        if not left:
            self.counters["flood"] += 1
        self._calls += 1
        if self._calls % DROPS_EVERY == 0 or not left:
            self.counters["kernel_drops"] = sum(drops(receiving) for receiving in self._sockets)

    def _drain(self, receiving: socket.socket, most: int) -> int:
        """Take at most `most` messages; return how many more could have been taken."""
        buffer, receive, take, clock_ns = self._buffer, receiving.recv_into, self._listener.take, time.monotonic_ns
        for taken in range(most):
            try:
                size = receive(buffer)
            except BlockingIOError:
                return most - taken
            except OSError:
                self.counters["receive_errors"] += 1
                return most - taken
            take(buffer[:size], clock_ns())
        return 0

    def prioritise(self, priority: int) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)

    def close(self) -> None:
        for opened in self._sockets:
            opened.close()
        self._sockets.clear()
