# SPDX-License-Identifier: BSD-3-Clause
"""The command ``ncc host uplink``: the machine that has the uplink's port sends the hosts its state."""

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.options import typed
from ncc.core.units import BITS_PER_BYTE, NS_PER_S, to_ns
from ncc.envs.linux import netlink
from ncc.envs.linux.device import interface_index
from ncc.envs.linux.machine import Periods, sleep_until
from ncc.envs.linux.netlink import Route, request
from ncc.harness.signals import StopRequest
from ncc.host.exchange import UdpExchange
from ncc.host.guard import Seconds
from ncc.host.keys import Keys, reader
from ncc.host.log import Log, Notifier
from ncc.host.message import UPLINK, Kind
from ncc.host.neighbourhood import Period
from ncc.host.peers import PORT, Peer, parse_one, parse_peers


class PortState(NamedTuple):
    """The counters of a port's queue at one moment."""

    sent_bytes: int
    """Bytes sent since the queue was set up, with link-layer headers."""
    backlog_bytes: int
    """Bytes that wait in the queue, with link-layer headers."""


class Port:
    """A network device, whose queue's counters can be read: those of the root, which include everything below it.

    ``tc -s qdisc show dev ...`` shows the same. Reading takes one request to the kernel and no privileges.
    """

    def __init__(self, interface: str) -> None:
        """Find the device in the calling thread's network namespace.

        Raises:
            ConfigError: there is no such device, or it has no queue that counts.
        """
        index = interface_index(interface)
        # Without NLM_F_ECHO the kernel does not answer; an ACK comes even without a queue.
        self._question = request(netlink.GET_QDISC, netlink.ECHO, index, parent=netlink.ROOT)
        self.interface = interface
        self._route = Route()
        try:
            self.read()
        except DatapathError as error:
            self.close()
            raise ConfigError(str(error)) from None

    def read(self) -> PortState:
        """Read the counters.

        Raises:
            DatapathError: the kernel does not report them, or the device or its queue is gone.
        """
        try:
            queues = list(self._route.ask(self._question))
        except TimeoutError as error:
            raise DatapathError(f"the kernel does not tell the queue of {self.interface}: {error}") from None
        except OSError as error:
            raise DatapathError(
                f"the queue of {self.interface} cannot be read: {os.strerror(error.errno or 0)}; is the interface "
                "still there?"
            ) from None
        counts = queues[-1].counts if queues and queues[-1].kind != "noqueue" else None
        if counts is None:
            raise DatapathError(
                f"{self.interface} has no queue that counts (noqueue); name the port at which packets wait, or give it "
                f"a queue: tc qdisc add dev {self.interface} root ..."
            )
        return PortState(*counts[:2])

    def close(self) -> None:
        """Close the socket to the kernel; may be called twice."""
        self._route.close()


class UplinkSender:
    """A sender of the uplink's state to agents.

    Args:
        keys: keys for this machine's messages.
        own: this machine, under the address that agents know.
        agents: hosts of the agents to send the state to.

    Raises:
        ConfigError: an address that cannot be used.
        DatapathError: a port in use.
    """

    def __init__(self, keys: Keys, own: Peer, agents: Sequence[Peer]) -> None:
        self.exchange = UdpExchange(keys, (own,), agents, kind=Kind.UPLINK, late_ns=NS_PER_S)
        self._last: tuple[int, int] | None = None

    def send(self, sent_bytes: int, backlog_bytes: int, now_ns: int) -> None:
        """Send the port's throughput since the last call, and its backlog.

        Nothing is sent at the first call, or if `sent_bytes` is less than before because the queue is another.

        Args:
            sent_bytes: bytes sent since the queue was set up.
            backlog_bytes: bytes that wait in the queue.
            now_ns: monotonic time at which the two were read.
        """
        last, self._last = self._last, (sent_bytes, now_ns)
        if last is None or now_ns <= last[1] or sent_bytes < last[0]:
            return
        throughput_bps = (sent_bytes - last[0]) * BITS_PER_BYTE * NS_PER_S / (now_ns - last[1])
        self.exchange.send(np.array([(throughput_bps, backlog_bytes)], UPLINK), now_ns)

    @property
    def counters(self) -> dict[str, int]:
        """Numbers of messages sent, and of failures to send."""
        return {name: self.exchange.counters[name] for name in ("sent", "send_errors")}

    def close(self) -> None:
        """Close the socket; may be called twice."""
        self.exchange.close()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``uplink``."""
    add = parser.add_argument
    add("interface", help="interface whose queue the hosts share: the switch's port to the outside")
    add("--listen", required=True, metavar="ADDRESS[:PORT]", help=f"address of this machine (port {PORT})")
    add("--key", type=Path, required=True, metavar="FILE", help="file of the keys (docs/host/messages.md)")
    add("--agents", required=True, metavar="LIST", help="agents to send the state to, with commas: ADDRESS[:PORT]")
    # Shorter periods would flood hosts with messages, longer ones leave them with an old state.
    add("--period", type=typed(Period), default=1e-3, metavar="S", help="seconds, of the agents (%(default)s)")
    add("--seconds", type=typed(Seconds), metavar="S", help="end after so many seconds")
    add("--log-s", type=typed(Seconds), default=10.0, metavar="S", help="seconds between two reports (%(default)s)")


def command(options: argparse.Namespace) -> int:
    """Send the state until a signal comes or `--seconds` are over, and return 0.

    Raises:
        ConfigError: invalid options.
        DatapathError: the port or its queue is gone.
    """
    own = parse_one(options.listen, "address to listen on")
    agents = parse_peers(options.agents, [own])
    keys, log = Keys.read(options.key), Log()
    stop = StopRequest(reader(keys, log))
    with ExitStack() as undo:
        port = undo.enter_context(closing(Port(options.interface)))
        sender = undo.enter_context(closing(UplinkSender(keys, own, agents)))
        notifier = undo.enter_context(closing(Notifier()))
        undo.enter_context(stop.noted())
        undo.enter_context(stop.exits_on_second())
        log.info("started", interface=options.interface, to=[str(agent) for agent in agents])
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
    """Send the state every period until the end; return the number of missed periods."""
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
        stop.read_again()
        if now_ns - reported_ns >= to_ns(options.log_s):
            reported_ns = now_ns
            log.info("report", missed_periods=periods.missed, backlog_bytes=state.backlog_bytes, **sender.counters)
    return periods.missed
