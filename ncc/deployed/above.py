# SPDX-License-Identifier: BSD-3-Clause
"""Who tells hosts of the port above them: what it carries and what waits there, by the messages of an agent."""

import time

from ncc.core.errors import ConfigError
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.core.value import Positive, Value
from ncc.deployed.discovery import HELLO_NS, hello_values
from ncc.deployed.message import UPPER_VALUES, Key, Kind
from ncc.deployed.peers import parse_one, parse_peers
from ncc.deployed.sockets import open_socket, speak_to_group
from ncc.deployed.speaking import Pace, Speaker


class AboveSpec(Value, frozen=True):
    """Who is told, and how often."""

    listen: str
    """``ADDRESS:PORT`` of this machine, which agents know as `ExchangeSpec.upper`."""
    period_s: Positive
    """Of their decisions."""
    agents: tuple[str, ...] = ()
    """Those who are told, each by a message of its own, or"""
    group: str | None = None
    """a multicast group, on which agents discover whoever tells them,"""
    interface: str | None = None
    """reached by this interface."""
    loop: bool = False
    """Whether agents on this machine are to hear what is sent to the group."""
    dscp: int = 48
    """As in `ExchangeSpec`."""

    def check(self) -> None:
        if bool(self.agents) == (self.group is not None):
            raise ConfigError("AboveSpec needs agents or a group: name those who are told, or the group")
        if (self.group is None) != (self.interface is None):
            raise ConfigError("AboveSpec.group and interface go together: name both or none")


class Above:
    """Tells agents of the upper port, at most once a period.

    Attributes:
        counters: messages `sent`, `send_errors`, and `held_back` as too early.
    """

    def __init__(self, spec: AboveSpec, key: Key) -> None:
        """Opens its socket.

        Raises:
            ConfigError: an address, group or interface that cannot be used, or a port in use.
        """
        now_ns, own = time.monotonic_ns(), parse_one(spec.listen, "address to listen on")
        to = [agent.address for agent in parse_peers(spec.agents, (own,))]
        self._speaker, self._pace = Speaker(key, (own,), now_ns), Pace(round(spec.period_s * NS_PER_S))
        self.counters = dict.fromkeys(("sent", "send_errors", "held_back"), 0)
        self._hello = hello_values(own.address, Kind.UPPER)
        self._hello_ns = now_ns if spec.group is not None else None
        self._last: tuple[int, int] | None = None
        self._socket = open_socket(own.address, spec.dscp, 1)
        try:
            if strange := next((address for address in to if address.family != own.address.family), None):
                raise ConfigError(f"{own} cannot speak to {strange}: name IPv4 addresses only, or IPv6 only")
            self._to: list[tuple[str, int] | tuple[str, int, int, int]] = list(dict.fromkeys(to))
            if spec.group is not None and spec.interface is not None:
                group = parse_one(spec.group, "group").address
                self._to = [speak_to_group(self._socket, group, spec.interface, loop=spec.loop)]
        except BaseException:
            self.close()
            raise

    def tell(self, sent_bytes: int, backlog_bytes: int, now_ns: int) -> None:
        """Tell what the port has sent in all, and what waits there, at a time of the monotonic clock.

        The throughput is that since the last call; the first tells nothing, and so does one after a count began anew.
        """
        last, self._last = self._last, (sent_bytes, now_ns)
        if last is None or now_ns <= last[1] or sent_bytes < last[0]:
            return
        if not self._pace.allows(now_ns):
            self.counters["held_back"] += 1
            return
        throughput_bps = (sent_bytes - last[0]) * BITS_PER_BYTE * NS_PER_S / (now_ns - last[1])
        self._say(Kind.UPPER, UPPER_VALUES.pack(throughput_bps, backlog_bytes), now_ns)
        if self._hello_ns is not None and now_ns >= self._hello_ns:
            self._hello_ns = now_ns + HELLO_NS
            self._say(Kind.HELLO, self._hello, now_ns)

    def _say(self, kind: Kind, values: bytes, at_ns: int) -> None:
        (message,) = self._speaker.say(kind, [values], at_ns, max(time.monotonic_ns(), at_ns))
        for address in self._to:
            try:
                self._socket.sendto(message, address)
                self.counters["sent"] += 1
            except OSError:  # as in UdpExchange: the next period tries again
                self.counters["send_errors"] += 1

    def close(self) -> None:
        """Give the socket back; may be called twice."""
        self._socket.close()
