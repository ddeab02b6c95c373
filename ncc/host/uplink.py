# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host uplink``: sends hosts the state of their uplink, from the machine that has this port."""

import argparse
import time
from contextlib import ExitStack, closing

import numpy as np

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.units import BITS_PER_BYTE, NS_PER_S, to_ns
from ncc.envs.linux.periods import Periods, sleep_until
from ncc.envs.linux.port import Port
from ncc.harness.signals import StopRequest
from ncc.host.exchange import ExchangeSpec, UdpExchange
from ncc.host.keys import Keys, reader
from ncc.host.log import Log, Notifier
from ncc.host.message import UPLINK, Kind
from ncc.host.options import listed
from ncc.host.peers import parse_one


class UplinkSender:
    """Sends agents the uplink's state.

    Args:
        spec: this machine, and the agents as its peers, or the agents' multicast group.
        keys: keys for this machine's messages.

    Raises:
        ConfigError: an address, group or interface that cannot be used, or a port in use.
    """

    def __init__(self, spec: ExchangeSpec, keys: Keys) -> None:
        parse_one(spec.listen, "address to listen on")
        self.exchange = UdpExchange(spec, keys, Kind.UPLINK)
        self._last: tuple[int, int] | None = None

    def send(self, sent_bytes: int, backlog_bytes: int, now_ns: int) -> None:
        """Send the port's throughput since the last call, and its backlog; `now_ns` is monotonic.

        `sent_bytes` is a total. Nothing is sent at the first call, or if the total has begun anew.
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
        """Give the socket back; may be called twice."""
        self.exchange.close()


def command(options: argparse.Namespace) -> int:
    """Send until a signal or `--seconds`; return 0 then.

    Raises:
        ConfigError: invalid options.
        DatapathError: the port or its queue has gone.
    """
    if bool(options.agents) == (options.group is not None):
        raise ConfigError("name who is sent the uplink's state: --agents, or else the --group on which they listen")
    spec = ExchangeSpec(
        listen=options.listen,
        peers=listed(options.agents),
        group=options.group,
        interface=options.through,
    )
    keys, log = Keys.read(options.key), Log()
    stop = StopRequest(reader(keys, log))
    with ExitStack() as undo:
        port = undo.enter_context(closing(Port(options.interface)))
        sender = undo.enter_context(closing(UplinkSender(spec, keys)))
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
    """Send every period until the end; return the number of missed periods."""
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
