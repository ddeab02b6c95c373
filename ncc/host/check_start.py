# SPDX-License-Identifier: BSD-3-Clause
"""The check of a start: all that ``ncc host run`` would refuse with some options, said before anything changes."""

import argparse
import errno
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial

from ncc.core.errors import ConfigError, DatapathError, NccError
from ncc.envs.linux import device, machine
from ncc.envs.linux.netlink import Route
from ncc.envs.linux.objects import congestion_name, require_built
from ncc.harness.atomic import require_writable
from ncc.host import exchange, plan, privileges, reload, run
from ncc.host.record import AgentRecord, alive, records

Step = Callable[[ExitStack], object]
"""Part of a start that may be refused; what it opens is closed by the stack."""


def check_start(options: argparse.Namespace) -> int:
    """Print what a start with these options would refuse, or that it would be possible; return 1 or 0.

    Raises:
        ConfigError: there is no policy file or no interface.
    """
    if options.policy is None or not options.interface:
        raise ConfigError("name the policy file and its --interface (or a --config that has them), or no option at all")
    now_ns, port = time.monotonic_ns(), str(options.port)
    agent = next((one for one in records() if alive(one, now_ns) and one.fixed["--port"] == port), None)
    made, refusals = _planned(options)
    for step in _steps(options, made, agent):
        try:
            with ExitStack() as undo:
                step(undo)
        except NccError as error:
            refusals.append(str(error))
    print(*(f"refused: {refusal}" for refusal in refusals), sep="\n", end="\n" * bool(refusals))
    if made is None or refusals:
        return 1
    print("A start with these options is possible.")
    if agent is not None:
        needs = reload.refusal(agent.fixed, reload.fixed_options(options) | reload.fixed_plan(made))
        needs = needs or _lacks_right(agent, made)
        print(f"The agent that runs (process {agent.pid}) takes them over by a reload." if not needs else f"{needs}.")
    return 0


def _planned(options: argparse.Namespace) -> tuple[plan.Plan | None, list[str]]:
    """Return the plan of options (None if they are invalid), and sentences about what prevents a start."""
    made = None
    try:
        made = plan.planned(options)
        reload.neighbourhood_of(made)
    except NccError as error:
        return made, [str(error)]
    return made, []


def _steps(options: argparse.Namespace, made: plan.Plan | None, agent: AgentRecord | None) -> Iterator[Step]:
    yield lambda _: privileges.check()
    yield lambda _: require_built()
    yield lambda _: machine.check_clock()
    if options.metrics is not None:
        yield lambda _: require_writable(options.metrics)
    if options.realtime:
        yield partial(run.schedule, options)
    if not options.dry_run:
        yield from (partial(_check_queue, name) for name in options.interface)
    if made is None:
        return
    if options.receivers is not None:
        yield partial(run.waker, made)
    if agent is None or agent.alone:
        yield lambda undo: undo.callback(reload.exchange_of(made, options.receivers).close)
    if agent is None:
        yield partial(run.sysctls, options, made)
        yield partial(_check_name, options.name or congestion_name(made.file.header.stack.transport))


def _lacks_right(agent: AgentRecord, made: plan.Plan) -> str:
    """Return why a running agent cannot open the port that a plan needs; empty: it can, has it, or needs none."""
    address = made.own[0].address
    if not agent.alone or made.keys is None or address.port >= int(exchange.UNPRIVILEGED.read_text()):
        return ""
    return str(exchange.refused(address, errno.EACCES))


def _check_queue(interface: str, _: ExitStack) -> None:
    index, *_properties = device.properties(interface)
    with closing(Route()) as route:
        device.check_first(route, index, interface)


def _check_name(name: str, _: ExitStack) -> None:
    if name in run.AVAILABLE.read_text().split():
        raise DatapathError(
            f"The congestion control {name} is registered already: end the process that has it, or take another --name."
        )
