# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host run``: the agent of a host. Everything is checked before anything is changed, and all undone."""

import argparse
import gc
import os
import time
from contextlib import ExitStack
from pathlib import Path

from ncc import __version__
from ncc.core.errors import DatapathError
from ncc.core.units import NS_PER_S, to_ns
from ncc.deployed.agent import Agent
from ncc.deployed.exchange import open_exchange
from ncc.deployed.guard import Guard
from ncc.deployed.log import Log
from ncc.deployed.metrics import Endpoint, Metrics
from ncc.deployed.neighbourhood import Neighbourhood, limiter_of
from ncc.deployed.notify import Notifier
from ncc.deployed.state import NoExchange
from ncc.envs.linux import machine
from ncc.envs.linux.check import CAPABILITIES, capabilities
from ncc.envs.linux.extension import extension
from ncc.envs.linux.live import InterfaceCounter, Live
from ncc.envs.linux.objects import require_built
from ncc.envs.linux.order import WeightsByWait
from ncc.envs.linux.shim import Shim
from ncc.host.ending import Ending
from ncc.host.hearing import Silence
from ncc.host.loop import Loop
from ncc.host.plan import Plan, planned
from ncc.host.settings import changed, settable
from ncc.host.telling import peak_rss_bytes, tell

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
NEEDED = ("CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN")


def run(options: argparse.Namespace) -> int:
    """Until it is told to end; 0 then, and 1 where the policy was given up.

    Raises:
        ConfigError: something that cannot be asked; nothing has been changed.
        DatapathError: the kernel refuses; what was changed is as before.
    """
    plan = planned(options)
    header, network, log = plan.file.header, plan.network, Log()
    k, sysctls = len(plan.addresses), []
    neighbourhood = Neighbourhood(limiter_of(plan.file), network.scenario(), range(k), range(k, network.hosts))
    with ExitStack() as undo:
        undo.enter_context((ending := Ending()).noted())
        notifier = Notifier()
        undo.callback(notifier.close)
        exchange = NoExchange() if plan.key is None else open_exchange(plan.exchange, plan.key)
        undo.callback(exchange.close)
        guard = Guard(plan.guard, plan.bounds, neighbourhood.link_bps, lambda said: log.warning("guard", said=said))
        agent = Agent(neighbourhood, guard, exchange, stale_periods=options.stale_periods, in_force=not options.dry_run)
        numbers = Metrics()
        serving = None if plan.endpoint is None else Endpoint(numbers, plan.endpoint)
        if serving is not None:
            undo.callback(serving.close)
        _privileges()
        require_built()
        if options.default and not options.dry_run:
            sysctls = settable(ecn=bool(extension().ecn(header.stack.transport)))
        _scheduling(options, undo)
        undo.callback(os.close, machine.take_machine(shared=True))
        live = _live(options, plan, neighbourhood, undo)
        loop = Loop(agent, live, to_ns(network.period_s))
        tell(numbers, loop, plan.file, log)
        undo.callback(live.lift)
        undo.enter_context(changed(sysctls, live.shim.name))
        undo.enter_context(ending.insisted())
        log.info(
            "started",
            version=__version__,
            policy=header.name,
            sha256=plan.file.sha256,
            congestion=live.shim.name,
            addresses=plan.limited,
            network=network.to_dict(),
            limits=plan.bounds.to_dict(),
            dry_run=options.dry_run,
            default=options.default,
        )
        if plan.ipv6:
            log.warning("ipv6", said="connections over IPv6 are not limited", addresses=plan.ipv6)
        notifier.ready(f"{header.name} decides for {', '.join(plan.addresses)}")
        cost: dict[str, float] = {}
        say, said = log.info, "time is up"
        try:
            cost = _serve(options, loop, log=log, notifier=notifier, serving=serving, ending=ending)
            if guard.given_up or ending.asked:
                said = "given up" if guard.given_up else f"signal {ending.asked}"
        except BaseException as error:
            say, said = log.error, str(error) or type(error).__name__
            raise
        finally:
            notifier.stopping(said)
            say(
                "ended",
                why=said,
                **loop.summary(),
                guard=guard.counters,
                messages=exchange.counters,
                stale=agent.counters,
                duration_us=loop.durations_us(),
                **cost,
                peak_rss_bytes=peak_rss_bytes(),
                log_lost=log.lost,
            )
        if guard.given_up:
            log.error("given_up", reason=guard.reason)
        return int(guard.given_up)


def _live(options: argparse.Namespace, plan: Plan, neighbourhood: Neighbourhood, undo: ExitStack) -> Live:
    """The shim, registered from now on, and what measures by it."""
    counters = []
    for name in plan.interfaces:
        counters.append(counter := InterfaceCounter(name))
        undo.callback(counter.close)
    stack = plan.file.header.stack
    shim = Shim(stack.transport, stack.params, timeout_s=options.heartbeat_s, name=options.name)
    undo.callback(shim.close)
    return Live(
        shim,
        plan.limited,
        neighbourhood.base_rtt_s,
        counters=counters or None,
        order=WeightsByWait(stack.order, stack.order_params) if stack.order != "fifo" else None,
        writes=not options.dry_run,
    )


def _serve(
    options: argparse.Namespace,
    loop: Loop,
    *,
    log: Log,
    notifier: Notifier,
    serving: Endpoint | None,
    ending: Ending,
) -> dict[str, float]:
    """What it took: share of a core, and seconds in which it was ready and another task ran."""
    began_ns = reported_ns = time.monotonic_ns()
    until_ns = began_ns + round(options.seconds * NS_PER_S) if options.seconds is not None else None
    name, silence = loop.live.shim.name, Silence(loop.agent, began_ns)

    def ends(now_ns: int) -> bool:
        return ending.asked is not None or (until_ns is not None and now_ns >= until_ns)

    def between(now_ns: int) -> None:
        nonlocal reported_ns
        notifier.alive(now_ns)
        if serving is not None:
            serving.tick(now_ns)
        if (silence_said := silence.notice(now_ns)) is not None:
            log.warning("silence", said=silence_said)
        if now_ns - reported_ns >= options.log_s * NS_PER_S:
            reported_ns = now_ns
            log.info("report", **loop.summary(), log_lost=log.lost)

    def check() -> str | None:
        if name in AVAILABLE.read_text().split():
            return None
        return f"congestion control {name} is no longer registered"

    gc.collect()
    gc.freeze()
    cpu_s, wall_s, waited_s = time.process_time(), time.monotonic(), machine.waited_s()
    try:
        loop.run(ends, between, check)
    finally:
        gc.unfreeze()
    cpu_frac = (time.process_time() - cpu_s) / (time.monotonic() - wall_s)
    return {"cpu_frac": round(cpu_frac, 4), "waited_s": round(machine.waited_s() - waited_s, 6)}


def _privileges() -> None:
    """Raise `DatapathError` for what this process may not."""
    held = capabilities()
    lacking = [name for name in NEEDED if not held >> CAPABILITIES[name][0] & 1]
    if lacking:
        which = "all of them" if len(lacking) == len(NEEDED) else " and ".join(lacking)
        raise DatapathError(
            f"The agent of a host needs {', '.join(NEEDED[:-1])} and {NEEDED[-1]} and lacks {which}: run it as root "
            "(sudo), or by the systemd unit."
        )


def _scheduling(options: argparse.Namespace, undo: ExitStack) -> None:
    if options.core is not None:
        pinned = machine.Cores((options.core,))
        undo.callback(pinned.leave)
        pinned.enter()
    if options.realtime:
        realtime = machine.Realtime()
        undo.callback(realtime.leave)
        try:
            realtime.enter()
        except DatapathError:
            raise DatapathError(
                "--realtime is refused: it takes CAP_SYS_NICE and a control group that allows SCHED_FIFO; leave it out "
                "and expect missed periods on a machine with other work."
            ) from None
