# SPDX-License-Identifier: BSD-3-Clause
"""The exchange of hosts' states by UDP: to peers one by one, or to all of a link at once."""

import socket
import time
from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.units import to_ns
from ncc.core.value import Positive, Value
from ncc.host.discovery import Discovery
from ncc.host.listener import Listener
from ncc.host.message import SIZE, Key, Kind
from ncc.host.peers import HOSTS_MOST, Address, Peer, parse_agent, parse_one, parse_peers
from ncc.host.sender import Pace, Sender
from ncc.host.sockets import destinations, drops, join_group, open_socket, send_all
from ncc.host.state import Exchange, StateArray

GROUP = "239.255.71.94"
"""Multicast group of administrative scope (RFC 2365 section 6.1); nothing is sent beyond the link."""
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
    late_s: Positive
    """Age in seconds from which a state that arrives is not used."""
    peers: tuple[str, ...] = ()
    """The other agents, each with its hosts."""
    discover: Annotated[int, Meta(ge=0, le=HOSTS_MOST)] = 0
    """Number of hosts of other agents to be found on the link, instead of named peers."""
    upper: str | None = None
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
        if self.discover and self.upper is not None:
            raise ConfigError("ExchangeSpec.upper is discovered where peers are: leave it out")

    @property
    def own(self) -> tuple[Peer, ...]:
        """Hosts of the agent; errors as `parse_agent`."""
        return parse_agent(self.listen, "address to listen on")


def open_exchange(spec: ExchangeSpec, key: Key) -> Exchange:
    """The exchange that a spec describes; without sockets if it names no peers and no uplink.

    Raises:
        ConfigError: an address, group or interface that cannot be used, or a port in use.
    """
    if not (spec.peers or spec.discover or spec.upper):
        return Exchange()
    return UdpExchange(spec, key)


class SignedExchange(Exchange):
    """An `Exchange` by signed messages; `Listener` says what its counters count."""

    def __init__(
        self,
        key: Key,
        own: Sequence[Peer],
        peers: Sequence[Peer | None],
        upper: Peer | None,
        *,
        late_ns: int,
        now_ns: int,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._listener = Listener(key, own, peers, upper, late_ns=late_ns, wall_ns=wall_ns)
        self._sender = Sender(key, own, now_ns, wall_ns=wall_ns)
        self.n_peers = len(peers)
        self.heard, self.heard_ns, self.upper = self._listener.heard, self._listener.heard_ns, self._listener.upper
        self.counters = self._listener.counters
        self.counters["sent"] = 0

    @property
    def upper_ns(self) -> int:
        return self._listener.upper_ns


class UdpExchange(SignedExchange):
    """An `Exchange` by UDP, as `ExchangeSpec` says.

    `receive` takes at most two messages of each sender and `SPARE`, whatever comes; where more was waiting it counts
    one ``flood``, and the rest waits, in a buffer of the kernel that holds no more than twice as much, until it is
    ``late`` or the kernel has dropped it (``kernel_drops``).
    """

    def __init__(self, spec: ExchangeSpec, key: Key) -> None:
        """Opens the sockets; errors as `open_exchange`."""
        now_ns, own = time.monotonic_ns(), spec.own
        rows: tuple[Peer | None, ...] = parse_peers(spec.peers, own) if spec.peers else (None,) * spec.discover
        upper = None if spec.upper is None else parse_one(spec.upper, "upper")
        super().__init__(key, own, rows, upper, late_ns=to_ns(spec.late_s), now_ns=now_ns)
        self.counters |= dict.fromkeys(("send_errors", "held_back", "flood", "receive_errors", "kernel_drops"), 0)
        self._own = own
        self._discovery = Discovery(self._listener, own, now_ns) if spec.discover else None
        self._pace = Pace(to_ns(spec.period_s))
        self._most = 2 * (self.n_peers + 1) + SPARE
        self._buffer = memoryview(bytearray(SIZE + 1))
        self._calls = 0
        self._sockets: list[socket.socket] = []
        try:
            self._open(spec, [peer.address for peer in rows if peer is not None])
        except BaseException:
            self.close()
            raise

    def _open(self, spec: ExchangeSpec, addresses: list[Address]) -> None:
        own = self._own[0].address
        self._socket = open_socket(own, self._most)
        self._sockets.append(self._socket)
        group = None if spec.group is None else parse_one(spec.group, "group").address
        if group is not None and spec.interface is not None:
            self._sockets.append(join_group(group, spec.interface, self._most))
        self._to = destinations(self._socket, own, addresses, group=group, interface=spec.interface, loop=spec.loop)

    @property
    def slots(self) -> list[Peer | None]:
        """[n_peers] The peer of each row of `heard`; None: nobody yet."""
        return self._listener.slots

    def send(self, own: StateArray, now_ns: int) -> None:
        """Send as in `Exchange`; a message before its time is counted as ``held_back`` instead."""
        if not self._pace.allows(now_ns):
            self.counters["held_back"] += 1
            return
        sending_ns = max(time.monotonic_ns(), now_ns)
        self._send(self._sender.messages(Kind.STATE, [row.tobytes() for row in own], now_ns, sending_ns))
        if self._discovery is not None and (hellos := self._discovery.due(now_ns)):
            self._send(self._sender.messages(Kind.HELLO, hellos, now_ns, sending_ns))

    def _send(self, messages: list[bytes]) -> None:
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
