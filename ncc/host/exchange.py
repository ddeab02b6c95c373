# SPDX-License-Identifier: BSD-3-Clause
"""The exchange of hosts' states: with nobody, or by UDP, with peers one by one or with all of a link at once."""

import socket
import time
from typing import Annotated

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.units import NS_PER_S, to_ns
from ncc.core.value import Positive, Value
from ncc.host.listener import Inbox, Listener
from ncc.host.message import HELLO_VALUES, SIZE, Key, Kind, Pace, Sender, StateArray
from ncc.host.peers import HOSTS_MOST, Address, Peer, parse_agent, parse_one, parse_peers
from ncc.host.sockets import destinations, drops, join_group, open_socket, send_all

GROUP = "239.255.71.94"
"""Multicast group of administrative scope (RFC 2365 section 6.1); nothing is sent beyond the link."""
HELLO_NS = NS_PER_S
"""Time between two hellos of an agent that is discovered."""
SPARE = 16
"""Messages that may come in a period beyond two of each sender."""
DROPS_EVERY = 256
"""Calls of `receive` between two readings of the kernel's count of dropped messages."""


class ExchangeSpec(Value, frozen=True):
    """The peers of an agent, and how they are reached."""

    listen: str
    """The agent itself, ``ADDRESS:PORT*HOSTS`` as in `ncc.host.peers.parse_agent`: an address of this machine, by
    which its peers know it."""
    period_s: Positive
    """Seconds between decisions, and so between messages of a host."""
    late_s: Positive = 1.0
    """Age in seconds from which a state that arrives is not used."""
    peers: tuple[str, ...] = ()
    """The other agents, each with its hosts."""
    discover: Annotated[int, Meta(ge=0, le=HOSTS_MOST)] = 0
    """Number of hosts of other agents to be found on the link, instead of named peers."""
    uplink: str | None = None
    """The sender of the uplink's state, if there is one. If peers are discovered, so is it."""
    group: str | None = None
    """A multicast group, ``ADDRESS:PORT``: one message then serves all peers, which must have the same."""
    interface: str | None = None
    """Network interface by which the group is reached."""
    loop: bool = False
    """Let other agents on this machine receive messages to the group."""

    def check(self) -> None:
        if self.peers and self.discover:
            raise ConfigError("ExchangeSpec has both peers and discover: name the peers or have them discovered")
        if self.discover and self.group is None:
            raise ConfigError(f"ExchangeSpec.discover needs a multicast group, for example group={GROUP}")
        if (self.group is None) != (self.interface is None):
            raise ConfigError("ExchangeSpec.group and interface go together: name both or none")
        if self.discover and self.uplink is not None:
            raise ConfigError("ExchangeSpec.uplink is discovered where peers are: leave it out")

    @property
    def own(self) -> tuple[Peer, ...]:
        """Hosts of the agent; errors as `parse_agent`."""
        return parse_agent(self.listen, "address to listen on")


class Exchange:
    """An exchange of hosts' states with peers. This one has none: all hosts are local, and nobody sends the uplink's.

    Attributes:
        inbox: the newest states of the peers, in an order that stays until `close`, and of the uplink.
        counters: how many messages were sent, received, and dropped, by reason.
    """

    def __init__(self) -> None:
        self.inbox = Inbox()

    @property
    def counters(self) -> dict[str, int]:
        """Those of the inbox, and of sending."""
        return self.inbox.counters

    @property
    def n_peers(self) -> int:
        """Hosts of the neighbourhood that are not local."""
        return len(self.inbox.states)

    def send(self, own: StateArray, now_ns: int) -> None:
        """Send all peers the state [k] of the local hosts as it is at `now_ns`: one message per host and period.

        It never blocks, and a message that cannot be sent is counted.
        """

    def receive(self, now_ns: int) -> None:
        """Take in the messages that have come, without waiting, and at most a bounded number of them."""

    def close(self) -> None:
        """Give the sockets back; may be called twice."""


class UdpExchange(Exchange):
    """An `Exchange` by UDP, as `ExchangeSpec` says.

    `receive` takes at most two messages of each sender and `SPARE`, whatever comes; where more was waiting it counts
    one ``flood``, and the rest waits, in a buffer of the kernel that holds no more than twice as much, until it is
    ``late`` or the kernel has dropped it (``kernel_drops``).

    Args:
        spec: the peers.
        key: shared by all.
        kind: of the messages that are sent: states of hosts, or the state of the uplink.

    Raises:
        ConfigError: an address, group or interface that cannot be used, or a port in use.
    """

    def __init__(self, spec: ExchangeSpec, key: Key, kind: Kind = Kind.STATE) -> None:
        now_ns, own = time.monotonic_ns(), spec.own
        peers: tuple[Peer | None, ...] = parse_peers(spec.peers, own) if spec.peers else (None,) * spec.discover
        uplink = None if spec.uplink is None else parse_one(spec.uplink, "uplink")
        self._kind, self._sender, self._pace = kind, Sender(key, own, now_ns), Pace(to_ns(spec.period_s))
        self.inbox = self._listener = Listener(
            key, own, peers, uplink, late_ns=to_ns(spec.late_s), discover=spec.discover > 0
        )
        sending = ("sent", "send_errors", "held_back", "flood", "receive_errors", "kernel_drops")
        self.counters.update(dict.fromkeys(sending, 0))
        discovered = spec.discover > 0 or (kind is Kind.UPLINK and spec.group is not None)
        self._hellos = [hello_values(peer.address, kind) for peer in own] if discovered else []
        self._hello_ns = now_ns
        self._most = 2 * (self.n_peers + 1) + SPARE
        self._buffer = memoryview(bytearray(SIZE + 1))
        self._calls = 0
        self._sockets: list[socket.socket] = []
        try:
            self._open(spec, own[0].address, [peer.address for peer in peers if peer is not None])
        except BaseException:
            self.close()
            raise

    def _open(self, spec: ExchangeSpec, own: Address, addresses: list[Address]) -> None:
        self._socket = open_socket(own, self._most)
        self._sockets.append(self._socket)
        group = None if spec.group is None else parse_one(spec.group, "group").address
        if group is not None and spec.interface is not None:
            self._sockets.append(join_group(group, spec.interface, self._most))
        self._to = destinations(self._socket, own, addresses, group=group, interface=spec.interface, loop=spec.loop)

    @property
    def slots(self) -> list[Peer | None]:
        """[n_peers] The peer of each row of the inbox; None: nobody yet."""
        return self._listener.slots

    def send(self, own: StateArray, now_ns: int) -> None:
        """Send as in `Exchange`; a message before its time is counted as ``held_back`` instead."""
        if not self._pace.allows(now_ns):
            self.counters["held_back"] += 1
            return
        sending_ns = max(time.monotonic_ns(), now_ns)
        messages = self._sender.messages(self._kind, [row.tobytes() for row in own], now_ns, sending_ns)
        if self._hellos and now_ns >= self._hello_ns:
            self._hello_ns = now_ns + HELLO_NS
            messages += self._sender.messages(Kind.HELLO, self._hellos, now_ns, sending_ns)
        sent, errors = send_all(self._socket, messages, self._to)
        self.counters["sent"] += sent
        self.counters["send_errors"] += errors

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
        """Take at most `most` messages; the number of those not used up is returned."""
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

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets.clear()


def hello_values(address: Address, kind: Kind) -> bytes:
    """Values of a hello: the address of its sender and the kind of messages that it sends."""
    return HELLO_VALUES.pack(address.packed(), address.port, kind)
