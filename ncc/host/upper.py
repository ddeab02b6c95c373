# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host upper``: tells hosts of the port that they share, on the machine that has it."""

import argparse
import time
from contextlib import ExitStack, closing

from ncc.core.errors import DatapathError
from ncc.core.units import NS_PER_S, to_ns
from ncc.deployed.above import Above, AboveSpec
from ncc.deployed.log import Log
from ncc.deployed.message import read_key
from ncc.deployed.notify import Notifier
from ncc.envs.linux.periods import Periods, sleep_until
from ncc.envs.linux.port import Port
from ncc.host.ending import Ending
from ncc.host.options import check_within

PERIOD_LEAST_S, PERIOD_MOST_S = 1e-4, 10.0
"""What neither floods hosts with messages nor leaves them with what is long past."""


def upper(options: argparse.Namespace) -> int:
    """Until it is told to end; 0 then.

    Raises:
        ConfigError: something that cannot be asked.
        DatapathError: the port or its queue has gone.
    """
    check_within(options, "seconds", "log_s")
    check_within(options, "period", least=PERIOD_LEAST_S, most=PERIOD_MOST_S)
    spec = AboveSpec(
        listen=options.listen,
        period_s=options.period,
        agents=tuple(name for name in options.agents.split(",") if name.strip()),
        group=options.group,
        interface=options.through,
    )
    key, log, ending = read_key(options.key), Log(), Ending()
    with ExitStack() as undo:
        port = undo.enter_context(closing(Port(options.interface)))
        above = undo.enter_context(closing(Above(spec, key)))
        notifier = undo.enter_context(closing(Notifier()))
        undo.enter_context(ending.noted())
        undo.enter_context(ending.insisted())
        log.info("started", interface=options.interface, to=spec.to_dict())
        notifier.ready(f"tells of {options.interface}")
        try:
            missed = _tell(options, port, above, notifier=notifier, log=log, ending=ending)
        except DatapathError as error:
            notifier.stopping(str(error))
            log.error("ended", why=str(error), messages=above.counters, log_lost=log.lost)
            raise
        why = f"signal {ending.asked}" if ending.asked else "time is up"
        notifier.stopping(why)
        log.info("ended", why=why, missed_periods=missed, messages=above.counters, log_lost=log.lost)
    return 0


def _tell(
    options: argparse.Namespace, port: Port, above: Above, *, notifier: Notifier, log: Log, ending: Ending
) -> int:
    """Until the end; how many periods were missed."""
    periods = Periods(to_ns(options.period))
    began_ns = reported_ns = periods.start_ns = time.monotonic_ns()
    until_ns = None if options.seconds is None else began_ns + round(options.seconds * NS_PER_S)
    while ending.asked is None:
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
