# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.host upper``: tells hosts of the port that they share, on the machine that has it."""

import argparse
import signal
import time
from contextlib import closing

from ncc.core.errors import ConfigError
from ncc.core.units import NS_PER_S, to_ns
from ncc.deployed.above import Above, AboveSpec
from ncc.deployed.log import Log
from ncc.deployed.message import read_key
from ncc.deployed.notify import Notifier
from ncc.envs.linux.periods import Periods, sleep_until
from ncc.envs.linux.port import Port


def upper(options: argparse.Namespace) -> int:
    """Until it is told to end; 0 then.

    Raises:
        ConfigError: something that cannot be asked.
        DatapathError: the port has gone.
    """
    for name in ("seconds", "log_s"):
        if (value := getattr(options, name)) is not None and not value > 0:
            raise ConfigError(f"--{name.replace('_', '-')} must be above 0, got {value:g}")
    spec = AboveSpec(
        listen=options.listen,
        period_s=options.period,
        agents=tuple(name for name in options.agents.split(",") if name.strip()),
        group=options.group,
        interface=options.through,
    )
    key, log, ending = read_key(options.key), Log(), list[str]()
    with closing(Port(options.interface)) as port, closing(Above(spec, key)) as above, closing(Notifier()) as notifier:
        before = {
            number: signal.signal(number, lambda number, _: ending.append(signal.Signals(number).name))
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        }
        try:
            log.info("started", interface=options.interface, to=spec.to_dict())
            notifier.ready(f"tells of {options.interface}")
            missed = _tell(options, port, above, notifier=notifier, log=log, ending=ending)
            why = f"signal {ending[0]}" if ending else "time is up"
            notifier.stopping(why)
            log.info("ended", why=why, missed_periods=missed, messages=above.counters)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return 0


def _tell(
    options: argparse.Namespace, port: Port, above: Above, *, notifier: Notifier, log: Log, ending: list[str]
) -> int:
    """Until the end; how many periods were missed."""
    periods = Periods(to_ns(options.period))
    began_ns = reported_ns = periods.start_ns = time.monotonic_ns()
    until_ns = None if options.seconds is None else began_ns + round(options.seconds * NS_PER_S)
    while not ending:
        sleep_until(periods.next_end_ns())
        now_ns = time.monotonic_ns()
        if until_ns is not None and now_ns >= until_ns:
            break
        state = port.read()
        above.tell(state.sent_bytes, state.backlog_bytes, now_ns)
        notifier.alive(now_ns)
        if now_ns - reported_ns >= options.log_s * NS_PER_S:
            reported_ns = now_ns
            log.info("report", missed_periods=periods.missed, backlog_bytes=state.backlog_bytes, **above.counters)
    return periods.missed
