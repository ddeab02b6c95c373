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
from ncc.core.units import to_ns
from ncc.envs.linux import machine
from ncc.envs.linux.check import CAPABILITIES, capabilities
from ncc.envs.linux.extension import extension
from ncc.envs.linux.live import InterfaceCounter, Live
from ncc.envs.linux.objects import require_built
from ncc.envs.linux.order import WeightsByWait
from ncc.envs.linux.shim import Shim
from ncc.harness.signals import StopRequest
from ncc.host.agent import Agent, Silence
from ncc.host.exchange import Exchange, UdpExchange
from ncc.host.guard import Guard
from ncc.host.log import Log, Notifier, reading
from ncc.host.loop import Loop
from ncc.host.metrics import AgentCollector, peak_rss_bytes, served
from ncc.host.neighbourhood import Neighbourhood, limiter_of
from ncc.host.plan import Plan, planned
from ncc.host.sysctls import changed, settable

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
NEEDED = ("CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN")


def command(options: argparse.Namespace) -> int:
    """Run until a signal or `--seconds`; 0 then, and 1 if the policy was given up.

    Raises:
        ConfigError: options that cannot be; nothing has been changed.
        DatapathError: the kernel refuses; all changes have been undone.
    """
    plan = planned(options)
    header, network, log = plan.file.header, plan.network, Log()
    k, sysctls = len(plan.addresses), list[Path]()
    neighbourhood = Neighbourhood(limiter_of(plan.file), network.scenario(), range(k), range(k, network.hosts))
    with ExitStack() as undo:
        stop = StopRequest(None if plan.keys is None else reading(plan.keys, log))
        undo.enter_context(stop.noted())
        notifier = Notifier()
        undo.callback(notifier.close)
        exchange = Exchange() if plan.keys is None else UdpExchange(plan.exchange, plan.keys)
        undo.callback(exchange.close)
        guard = Guard(plan.guard, plan.bounds, neighbourhood.link_bps, lambda said: log.warning("guard", said=said))
        agent = Agent(neighbourhood, guard, exchange, stale_periods=options.stale_periods, in_force=not options.dry_run)
        shows = None if plan.endpoint is None else undo.enter_context(served(plan.endpoint))
        _check_privileges()
        require_built()
        if options.default and not options.dry_run:
            sysctls = settable(ecn=bool(extension().ecn(header.stack.transport)))
        _schedule(options, undo)
        undo.callback(os.close, machine.take_machine(shared=True))
        live = _live(options, plan, neighbourhood, undo)
        loop = Loop(agent, live, to_ns(network.period_s))
        if shows is not None:
            shows(AgentCollector(loop, plan.file, log))
        undo.callback(live.lift)
        undo.enter_context(changed(sysctls, live.shim.name))
        undo.enter_context(stop.insisted())
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
        say, why = log.info, "time is up"
        try:
            cost = _serve(options, loop, log=log, notifier=notifier, stop=stop)
            if guard.given_up or stop.name:
                why = "given up" if guard.given_up else f"signal {stop.name}"
        except BaseException as error:
            say, why = log.error, str(error) or type(error).__name__
            raise
        finally:
            notifier.stopping(why)
            say(
                "ended",
                why=why,
                **loop.summary(),
                guard=guard.counters,
                messages=exchange.counters,
                stale=agent.counters,
                duration_us={"took": loop.took.quantiles_us(), "late": loop.late.quantiles_us()},
                **cost,
                peak_rss_bytes=peak_rss_bytes(),
                log_lost=log.lost,
            )
        if guard.given_up:
            log.error("given_up", reason=guard.reason)
        return int(guard.given_up)


def _live(options: argparse.Namespace, plan: Plan, neighbourhood: Neighbourhood, undo: ExitStack) -> Live:
    """Register the shim, and measure and limit by it from now on."""
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
    stop: StopRequest,
) -> dict[str, float]:
    """Decide until the end; return the share of a core that it took, and the seconds spent waiting for one."""
    began_ns = reported_ns = time.monotonic_ns()
    until_ns = began_ns + to_ns(options.seconds) if options.seconds is not None else None
    name, silence = loop.live.shim.name, Silence(loop.agent, began_ns)

    def ends(now_ns: int) -> bool:
        return stop.name is not None or (until_ns is not None and now_ns >= until_ns)

    def between(now_ns: int) -> None:
        nonlocal reported_ns
        notifier.alive(now_ns)
        stop.read_again()
        if (said := silence.notice(now_ns)) is not None:
            log.warning("silence", said=said)
        if now_ns - reported_ns >= to_ns(options.log_s):
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


def _check_privileges() -> None:
    """Raise `DatapathError` if this process lacks a capability."""
    held = capabilities()
    lacking = [name for name in NEEDED if not held >> CAPABILITIES[name][0] & 1]
    if lacking:
        which = "all of them" if len(lacking) == len(NEEDED) else " and ".join(lacking)
        raise DatapathError(
            f"The agent of a host needs {', '.join(NEEDED[:-1])} and {NEEDED[-1]} and lacks {which}: run it as root "
            "(sudo), or by the systemd unit."
        )


def _schedule(options: argparse.Namespace, undo: ExitStack) -> None:
    if options.core is not None:
        machine.stay_on((options.core,), undo)
    if options.realtime:
        try:
            machine.go_first(undo)
        except DatapathError:
            raise DatapathError(
                "--realtime is refused: it takes CAP_SYS_NICE and a control group that allows SCHED_FIFO; leave it out "
                "and expect missed periods on a machine with other work."
            ) from None
