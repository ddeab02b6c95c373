# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host run``: the agent of a host. It checks everything before it changes anything, and undoes all changes."""

import argparse
import gc
import math
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

from ncc import __version__
from ncc.baselines.registry import controller
from ncc.core.errors import DatapathError
from ncc.core.memory import memory_bytes
from ncc.core.units import NS_PER_S, to_ns
from ncc.envs.linux import layout, machine
from ncc.envs.linux.device import ETHERNET_BYTES
from ncc.envs.linux.live import InterfaceCounter, Live
from ncc.envs.linux.objects import require_built
from ncc.envs.linux.order_program import OrderProgram
from ncc.envs.linux.queue import OPEN, HostQueue, Queues
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.stack import mode_of
from ncc.envs.linux.wake import Waker
from ncc.harness.signals import StopRequest
from ncc.host import privileges
from ncc.host.agent import Agent, Silence
from ncc.host.exchange import Exchange
from ncc.host.log import Log, Notifier
from ncc.host.loop import Loop
from ncc.host.metrics import AgentCollector, MetricsFile
from ncc.host.neighbourhood import Neighbourhood
from ncc.host.plan import Plan, planned
from ncc.host.receivers import Receivers, receiver_scenario
from ncc.host.record import Recorder
from ncc.host.reload import InForce, exchange_of, guard_of, neighbourhood_of
from ncc.host.restore import AUTOCORKING, DEFAULT, ECN, SEND_BUFFER, alone, changed, check_settable, first_send_buffer

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
SWITCH_S = 1e-4
"""Longest time in seconds for which another thread holds the interpreter while a decision is due."""
LOCKS = "the unit has LimitMEMLOCK=infinity (prlimit --memlock=unlimited)"
USER_SLOTS = layout.FLOWS_MAX // 2
"""Largest number of slots, each for a connection, that one user of the machine may hold: half of all."""


def command(options: argparse.Namespace) -> int:
    """Run the agent until a signal comes or `--seconds` are over, and return 0.

    Raises:
        ConfigError: invalid options; nothing has been changed.
        DatapathError: the kernel refuses; all changes have been undone.
    """
    plan = planned(options)
    header, network, log = plan.file.header, plan.network, Log()
    neighbourhood = neighbourhood_of(plan)
    with ExitStack() as undo:
        now = InForce(options, plan, log, undo)
        stop = StopRequest(now.read_again)
        undo.enter_context(stop.noted())
        notifier = undo.enter_context(closing(Notifier()))
        exchange = exchange_of(plan, options.receivers)
        undo.callback(exchange.close)
        agent = Agent(neighbourhood, guard_of(plan, neighbourhood, log), exchange, in_force=not options.dry_run)
        privileges.check()
        require_built()
        settings = sysctls(options, plan, undo)
        swaps = schedule(options, undo)
        undo.enter_context(machine.taken(shared=True))
        queues = _queues(options, plan, neighbourhood, exchange, undo)
        live = _live(options, plan, neighbourhood, queues, undo)
        receivers = _receivers(options, plan, exchange, live, undo)
        privileges.drop()  # before any message is read
        loop = Loop(agent, live, to_ns(network.period_s), receivers)
        shown = None
        if options.metrics is not None:
            shown = MetricsFile(options.metrics, options.log_s, AgentCollector(loop, now, log))
            undo.callback(shown.close)
        recorder = Recorder(loop, now, log)
        undo.callback(recorder.close)
        undo.callback(live.lift)
        undo.enter_context(changed({path: value or live.shim.name for path, value in settings.items()}))
        undo.enter_context(stop.exits_on_second())
        recorder.write(time.monotonic_ns())
        log.info(
            "started",
            version=__version__,
            policy=header.name,
            sha256=plan.file.sha256,
            congestion=live.shim.name,
            addresses=[[address for address, _ in own] for own in plan.sources],
            network=network.to_dict(),
            limits=plan.bounds.to_dict(),
            dry_run=options.dry_run,
            default=options.default,
            order=header.stack.order,
            takes_sizes=queues is not None and queues.program.takes_sizes,
            receivers_bytes=options.receivers,
        )
        if swaps:
            log.warning("memory", said=f"memory is not locked, so decisions may wait for a disk: {swaps}; {LOCKS}")
        now.look()
        notifier.ready(f"{header.name} decides for {', '.join(plan.addresses)}")
        cost: dict[str, float] = {}
        say, why = log.info, "time is up"
        try:
            cost = _serve(now, loop, recorder, log=log, notifier=notifier, stop=stop)
            if stop.name:
                why = f"signal {stop.name}"
        except BaseException as error:
            say, why = log.error, str(error) or type(error).__name__
            raise
        finally:
            notifier.stopping(why)
            say(
                "ended",
                why=why,
                **loop.summary(),
                guard=loop.agent.guard.counters,
                messages=loop.agent.exchange.counters,
                stale=agent.counters,
                duration_us={"took": loop.took.quantiles_us(), "late": loop.late.quantiles_us()},
                **cost,
                peak_rss_bytes=memory_bytes("VmHWM"),
                log_lost=log.lost,
                metrics_lost=0 if shown is None else shown.lost,
            )
        return 0


def _queues(
    options: argparse.Namespace,
    plan: Plan,
    neighbourhood: Neighbourhood,
    exchange: Exchange,
    undo: ExitStack,
) -> Queues | None:
    """Set up queues that limit the interfaces, and let the agent's messages pass them; None with `--dry-run`."""
    if options.dry_run:
        return None
    stack = plan.file.header.stack
    undo.callback((program := OrderProgram(options.heartbeat_s, mode_of(stack.order), stack.order_params)).close)
    overhead_bytes = neighbourhood.scenario.transport.frame_overhead_bytes - ETHERNET_BYTES
    queues = [
        undo.enter_context(HostQueue(name, rate_bps, program=program, overhead_bytes=overhead_bytes))
        for name, rate_bps in zip(options.interface, neighbourhood.link_bps.tolist(), strict=True)
    ]
    exchange.prioritise(OPEN)
    return Queues(program, queues)


def _live(
    options: argparse.Namespace, plan: Plan, neighbourhood: Neighbourhood, queues: Queues | None, undo: ExitStack
) -> Live:
    """Register the shim, the kernel's program for connections, and return the local hosts, measured from now on."""
    counters = []
    for name in options.interface:
        counters.append(counter := InterfaceCounter(name))
        undo.callback(counter.close)
    stack = plan.file.header.stack
    shim = Shim(stack.transport, stack.params, timeout_s=options.heartbeat_s, name=options.name, user_slots=USER_SLOTS)
    undo.callback(shim.close)
    return Live(
        shim,
        plan.sources,
        neighbourhood.base_rtt_s,
        counters=counters,
        queues=queues,
    )


def _receivers(
    options: argparse.Namespace, plan: Plan, exchange: Exchange, live: Live, undo: ExitStack
) -> Receivers | None:
    """Make flows to peers wait for grants, and send grants to this host's senders; None without `--receivers`."""
    if options.receivers is None:
        return None
    network = plan.network
    scenario = receiver_scenario(len(plan.peers), network.link_rate_bps, options.receivers, network.period_s)
    receivers = Receivers(scenario, exchange, plan.peers, live.shim, waker(plan, undo))
    undo.callback(lambda: receivers.lift(time.monotonic_ns()))
    return receivers


def waker(plan: Plan, undo: ExitStack) -> Waker:
    """Return a waker of flows that wait, open until `undo` is closed; raise `DatapathError` without CAP_NET_RAW."""
    try:
        opened = Waker(plan.addresses[0])
    except PermissionError:
        raise DatapathError(
            "--receivers takes CAP_NET_RAW, to wake flows that wait: run the agent as root, or add it to the unit."
        ) from None
    undo.callback(opened.close)
    return opened


def sysctls(options: argparse.Namespace, plan: Plan, undo: ExitStack) -> dict[Path, str]:
    """Return the sysctls that the agent changes, with their new values; an empty value stands for the shim's name.

    The lock on them is held until `undo` is closed.

    Raises:
        DatapathError: this process may not write one of them, or another agent has the lock.
    """
    if options.dry_run:
        return {}
    values = {AUTOCORKING: "0"}
    if options.default:
        values[DEFAULT] = ""
        if controller(plan.file.header.stack.transport).ecn:
            values[ECN] = "1"
    if options.send_buffer is not None:
        values[SEND_BUFFER] = first_send_buffer(options.send_buffer)
    check_settable(values)
    undo.enter_context(alone())
    return values


def _serve(
    now: InForce,
    loop: Loop,
    recorder: Recorder,
    *,
    log: Log,
    notifier: Notifier,
    stop: StopRequest,
) -> dict[str, float]:
    """Run the periods until the end; return the share of a core that was used, and the seconds of waiting for one."""
    options, queues, name = now.options, loop.live.queues, loop.live.shim.name
    gc.collect()
    gc.freeze()
    cpu_s, wall_s, waited_s = time.process_time(), time.monotonic(), machine.waited_s()
    loop.begin()
    checked_ns, began_ns = 0, time.monotonic_ns()
    reported_ns = began_ns
    until_ns = math.inf if options.seconds is None else began_ns + to_ns(options.seconds)
    silence = Silence(loop.agent, began_ns)
    try:
        while True:
            now_ns, missed = loop.wait()
            if stop.name is not None or now_ns >= until_ns:
                break
            loop.period(now_ns, missed)
            notifier.alive(now_ns)
            if not now.reads:  # a signal that comes meanwhile waits: what it is about may have been read already
                stop.read_again()
            if now.take(loop):
                silence = Silence(loop.agent, now_ns)
            if (sentence := silence.notice(now_ns)) is not None:
                log.warning("silence", said=sentence)
            reports = now_ns - reported_ns >= to_ns(options.log_s)
            checks = now_ns - checked_ns >= NS_PER_S
            if queues is not None and (reports or checks):
                queues.check()
            if reports:
                reported_ns = now_ns
                log.info("report", **loop.summary(), log_lost=log.lost)
            if checks:
                checked_ns = now_ns
                recorder.write(now_ns)
                if name not in AVAILABLE.read_text().split():
                    loop.agent.guard.suspend(f"congestion control {name} is no longer registered", now_ns)
    finally:
        gc.unfreeze()
    cpu_frac = (time.process_time() - cpu_s) / (time.monotonic() - wall_s)
    return {"cpu_frac": round(cpu_frac, 4), "waited_s": round(machine.waited_s() - waited_s, 6)}


def schedule(options: argparse.Namespace, undo: ExitStack) -> str:
    """Put this thread before the process's others until `undo` is closed, and give it SCHED_FIFO if the options say so.

    With SCHED_FIFO all pages of this process also stay in memory, where its limits allow that, as those of the unit do.

    Returns:
        Reason for which they do not stay there; empty: they do, or the options ask for no SCHED_FIFO.

    Raises:
        DatapathError: this process may not have SCHED_FIFO.
    """
    undo.callback(sys.setswitchinterval, sys.getswitchinterval())
    sys.setswitchinterval(SWITCH_S)
    if not options.realtime:
        return ""
    try:
        machine.go_first(undo, inherited=True)
    except DatapathError:
        raise DatapathError(
            "--realtime is refused: it takes CAP_SYS_NICE and a control group that allows SCHED_FIFO; leave it out "
            "and expect missed periods on a machine with other work."
        ) from None
    return machine.stay_in_memory(undo)
