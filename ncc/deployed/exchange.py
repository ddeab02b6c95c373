# SPDX-License-Identifier: BSD-3-Clause
"""The exchange of hosts' states by UDP: to peers one by one, or to all of a link at once."""

import socket
import time
from typing import Annotated

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.units import NS_PER_S
from ncc.core.value import Positive, Value
from ncc.deployed.discovery import Discovery
from ncc.deployed.listening import Listener
from ncc.deployed.message import SIZE, Key, Kind
from ncc.deployed.peers import HOSTS_MOST, Address, Peer, parse_agent, parse_one, parse_peers
from ncc.deployed.sockets import drops, join_group, open_socket, speak_to_group
from ncc.deployed.speaking import Pace, Speaker
from ncc.deployed.state import Exchange, NoExchange, StateArray

GROUP = "239.255.71.94"
"""Of administrative scope (RFC 2365 section 6.1); nothing is sent beyond the link."""
SPARE = 16
"""Messages that may come in a period beyond two of each sender."""
DROPS_EVERY = 256
"""Calls of `receive` between two questions of what the kernel dropped."""


class ExchangeSpec(Value, frozen=True):
    """With whom an agent speaks, and how."""

    listen: str
    """The agent itself: ``ADDRESS:PORT*HOSTS`` as in `ncc.deployed.peers.parse_agent`; the address is one of this
    machine, and the one by which its peers know it."""
    period_s: Positive
    """Of decisions: one message of each host in so many seconds."""
    late_s: Positive
    """State that is older when it arrives is not used."""
    peers: tuple[str, ...] = ()
    """The other agents, each with its hosts."""
    discover: Annotated[int, Meta(ge=0, le=HOSTS_MOST)] = 0
    """Instead of naming them: how many hosts of other agents there will be on the link."""
    upper: str | None = None
    """Who tells of the port above the neighbourhood, if anybody does. If peers are discovered, so is it."""
    group: str | None = None
    """A multicast group, ``ADDRESS:PORT``: one message then serves all peers, which must have the same."""
    interface: str | None = None
    """Through which the group is reached."""
    loop: bool = False
    """Whether other agents on this machine are to hear what is sent to the group."""
    clock_s: Positive = 60.0
    """By which clocks of machines may differ."""
    dscp: Annotated[int, Meta(ge=0, le=63)] = 48
    """Of the messages' IP headers; 48 is network control (RFC 4594 section 3.1)."""

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
        """The hosts that the agent speaks for; errors as `parse_agent`."""
        return parse_agent(self.listen, "address to listen on")


def open_exchange(spec: ExchangeSpec, key: Key) -> Exchange:
    """The exchange that a spec describes; without sockets if there is nobody to speak with.

    Raises:
        ConfigError: an address, group or interface that cannot be used, or a port in use.
    """
    if not (spec.peers or spec.discover or spec.upper):
        return NoExchange()
    return UdpExchange(spec, key)


class UdpExchange:
    """An `Exchange` by UDP, as `ExchangeSpec` says; what it takes and drops is counted as in `Listener`.

    `receive` takes at most two messages of each sender and `SPARE`, whatever comes; where more was waiting it counts
    one ``flood``, and the rest waits, in a buffer of the kernel that holds no more than twice as much, until it is
    ``late`` or the kernel has dropped it (``kernel_drops``).
    """

    def __init__(self, spec: ExchangeSpec, key: Key) -> None:
        """Opens the sockets; errors as `open_exchange`."""
        now_ns, self._own = time.monotonic_ns(), spec.own
        rows: tuple[Peer | None, ...] = parse_peers(spec.peers, self._own) if spec.peers else (None,) * spec.discover
        upper = None if spec.upper is None else parse_one(spec.upper, "upper")
        self.n_peers = len(rows)
        self._listener = Listener(
            key,
            self._own,
            rows,
            upper,
            late_ns=round(spec.late_s * NS_PER_S),
            clock_ns=round(spec.clock_s * NS_PER_S),
        )
        self.heard, self.heard_ns, self.upper = self._listener.heard, self._listener.heard_ns, self._listener.upper
        self.counters = self._listener.counters
        self.counters |= dict.fromkeys(
            ("sent", "send_errors", "held_back", "flood", "receive_errors", "kernel_drops"), 0
        )
        self._discovery = Discovery(self._listener, self._own, now_ns) if spec.discover else None
        self._speaker, self._pace = Speaker(key, self._own, now_ns), Pace(round(spec.period_s * NS_PER_S))
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
        self._speaking = open_socket(own, spec.dscp, self._most)
        self._sockets.append(self._speaking)
        if spec.group is None or spec.interface is None:
            if strange := next((address for address in addresses if address.family != own.family), None):
                raise ConfigError(f"{own} cannot speak to {strange}: name IPv4 addresses only, or IPv6 only")
            self._to: list[tuple[str, int] | tuple[str, int, int, int]] = list(dict.fromkeys(addresses))
        else:
            group = parse_one(spec.group, "group").address
            self._sockets.append(join_group(group, spec.interface, self._most))
            self._to = [speak_to_group(self._speaking, group, spec.interface, loop=spec.loop)]

    @property
    def slots(self) -> list[Peer | None]:
        """[n_peers] who is in which row of `heard`; None: nobody yet."""
        return self._listener.slots

    @property
    def upper_ns(self) -> int:
        """As in `Exchange`."""
        return self._listener.upper_ns

    def send(self, own: StateArray, now_ns: int) -> None:
        """As in `Exchange`; what comes before its time is not sent, and counted as ``held_back``."""
        if not self._pace.allows(now_ns):
            self.counters["held_back"] += 1
            return
        sending_ns = max(time.monotonic_ns(), now_ns)
        self._send(self._speaker.say(Kind.STATE, [row.tobytes() for row in own], now_ns, sending_ns))
        if self._discovery is not None and (hellos := self._discovery.due(now_ns)):
            self._send(self._speaker.say(Kind.HELLO, hellos, now_ns, sending_ns))

    def _send(self, messages: list[bytes]) -> None:
        send, sent, errors = self._speaking.sendto, 0, 0
        for address in self._to:
            for message in messages:
                try:
                    send(message, address)
                    sent += 1
                except OSError:  # a full buffer, no route, a firewall: the next period tries again
                    errors += 1
        self.counters["sent"] += sent
        self.counters["send_errors"] += errors

    def receive(self, now_ns: int) -> None:
        """As in `Exchange`; each message is received when it is read, which is not before it came."""
        left = self._most
        for receiving in self._sockets:
            left = self._drain(receiving, left)
        if not left:
            self.counters["flood"] += 1
        self._calls += 1
        if self._calls % DROPS_EVERY == 0 or not left:
            self.counters["kernel_drops"] = sum(drops(receiving) for receiving in self._sockets)

    def _drain(self, receiving: socket.socket, most: int) -> int:
        """Take at most so many messages; how many more might have been taken."""
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
