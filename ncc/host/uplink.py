# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host upper``: sends hosts the state of their uplink, from the machine that has that port."""

import argparse
import time
from contextlib import ExitStack, closing

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.units import BITS_PER_BYTE, NS_PER_S, to_ns
from ncc.core.value import Positive, Value
from ncc.envs.linux.periods import Periods, sleep_until
from ncc.envs.linux.port import Port
from ncc.harness.signals import StopRequest
from ncc.host.discovery import HELLO_NS, hello_values
from ncc.host.log import Log
from ncc.host.message import UPPER_VALUES, Key, Kind, read_key
from ncc.host.notify import Notifier
from ncc.host.options import check_within, listed
from ncc.host.peers import parse_one, parse_peers
from ncc.host.sender import Pace, Sender
from ncc.host.sockets import destinations, open_socket, send_all

PERIOD_LEAST_S, PERIOD_MOST_S = 1e-4, 10.0
"""Periods that neither flood hosts with messages nor leave them with a state of long ago."""


class UplinkSpec(Value, frozen=True):
    """The agents that are sent the uplink's state, and how often."""

    listen: str
    """``ADDRESS:PORT`` of this machine, which agents know as `ExchangeSpec.upper`."""
    period_s: Positive
    """Seconds between decisions of the agents."""
    agents: tuple[str, ...] = ()
    """Agents that get a message each; or else"""
    group: str | None = None
    """a multicast group, on which agents discover the sender,"""
    interface: str | None = None
    """reached by this network interface."""
    loop: bool = False
    """Let agents on this machine receive messages to the group."""

    def check(self) -> None:
        if bool(self.agents) == (self.group is not None):
            raise ConfigError("UplinkSpec needs agents or a group: name the agents that are told, or the group")
        if (self.group is None) != (self.interface is None):
            raise ConfigError("UplinkSpec.group and interface go together: name both or none")


class UplinkSender:
    """Sends agents the uplink's state, at most once a period.

    Attributes:
        counters: messages `sent`, `send_errors`, and `held_back` as too early.
    """

    def __init__(self, spec: UplinkSpec, key: Key) -> None:
        """Opens its socket.

        Raises:
            ConfigError: an address, group or interface that cannot be used, or a port in use.
        """
        now_ns, own = time.monotonic_ns(), parse_one(spec.listen, "address to listen on")
        to = [agent.address for agent in parse_peers(spec.agents, (own,))]
        self._sender, self._pace = Sender(key, (own,), now_ns), Pace(to_ns(spec.period_s))
        self.counters = dict.fromkeys(("sent", "send_errors", "held_back"), 0)
        self._hello = hello_values(own.address, Kind.UPPER)
        self._hello_ns = now_ns if spec.group is not None else None
        self._last: tuple[int, int] | None = None
        self._socket = open_socket(own.address, 1)
        try:
            group = None if spec.group is None else parse_one(spec.group, "group").address
            self._to = destinations(
                self._socket, own.address, to, group=group, interface=spec.interface, loop=spec.loop
            )
        except BaseException:
            self.close()
            raise

    def send(self, sent_bytes: int, backlog_bytes: int, now_ns: int) -> None:
        """Send the port's total of sent bytes as a throughput, and its backlog, at a time of the monotonic clock.

        The throughput is that since the last call; nothing is sent at the first, and after a count began anew.
        """
        last, self._last = self._last, (sent_bytes, now_ns)
        if last is None or now_ns <= last[1] or sent_bytes < last[0]:
            return
        if not self._pace.allows(now_ns):
            self.counters["held_back"] += 1
            return
        throughput_bps = (sent_bytes - last[0]) * BITS_PER_BYTE * NS_PER_S / (now_ns - last[1])
        self._send(Kind.UPPER, UPPER_VALUES.pack(throughput_bps, backlog_bytes), now_ns)
        if self._hello_ns is not None and now_ns >= self._hello_ns:
            self._hello_ns = now_ns + HELLO_NS
            self._send(Kind.HELLO, self._hello, now_ns)

    def _send(self, kind: Kind, values: bytes, at_ns: int) -> None:
        (message,) = self._sender.messages(kind, [values], at_ns, max(time.monotonic_ns(), at_ns))
        sent, errors = send_all(self._socket, [message], self._to)
        self.counters["sent"] += sent
        self.counters["send_errors"] += errors

    def close(self) -> None:
        """Give the socket back; may be called twice."""
        self._socket.close()


def command(options: argparse.Namespace) -> int:
    """Send until a signal or `--seconds`; 0 then.

    Raises:
        ConfigError: options that cannot be.
        DatapathError: the port or its queue has gone.
    """
    check_within(options, "seconds", "log_s")
    check_within(options, "period", least=PERIOD_LEAST_S, most=PERIOD_MOST_S)
    spec = UplinkSpec(
        listen=options.listen,
        period_s=options.period,
        agents=listed(options.agents),
        group=options.group,
        interface=options.through,
    )
    key, log, stop = read_key(options.key), Log(), StopRequest()
    with ExitStack() as undo:
        port = undo.enter_context(closing(Port(options.interface)))
        sender = undo.enter_context(closing(UplinkSender(spec, key)))
        notifier = undo.enter_context(closing(Notifier()))
        undo.enter_context(stop.noted())
        undo.enter_context(stop.insisted())
        log.info("started", interface=options.interface, to=spec.to_dict())
        notifier.ready(f"tells of {options.interface}")
        try:
            missed = _serve(options, port, sender, notifier=notifier, log=log, stop=stop)
        except DatapathError as error:
            notifier.stopping(str(error))
            log.error("ended", why=str(error), messages=sender.counters, log_lost=log.lost)
            raise
        why = f"signal {stop.name}" if stop.name else "time is up"
        notifier.stopping(why)
        log.info("ended", why=why, missed_periods=missed, messages=sender.counters, log_lost=log.lost)
    return 0


def _serve(
    options: argparse.Namespace, port: Port, sender: UplinkSender, *, notifier: Notifier, log: Log, stop: StopRequest
) -> int:
    """Send every period until the end; the number of periods missed."""
    periods = Periods(to_ns(options.period))
    began_ns = reported_ns = periods.start_ns = time.monotonic_ns()
    until_ns = None if options.seconds is None else began_ns + to_ns(options.seconds)
    while stop.name is None:
        sleep_until(periods.next_end_ns())
        now_ns = time.monotonic_ns()
        if until_ns is not None and now_ns >= until_ns:
            break
        state = port.read()
        sender.send(state.sent_bytes, state.backlog_bytes, now_ns)
        notifier.alive(now_ns)
        if now_ns - reported_ns >= to_ns(options.log_s):
            reported_ns = now_ns
            log.info("report", missed_periods=periods.missed, backlog_bytes=state.backlog_bytes, **sender.counters)
    return periods.missed
