# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.host run``: the agent of a host. Everything is checked before anything is changed, and all undone."""

import argparse
import gc
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ncc import __version__
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.units import NS_PER_S, to_ns
from ncc.deployed.agent import Agent
from ncc.deployed.exchange import GROUP, ExchangeSpec, open_exchange
from ncc.deployed.file import PolicyFile, load_policy_file
from ncc.deployed.guard import Guard, GuardSettings
from ncc.deployed.limits import RateBounds
from ncc.deployed.log import Log
from ncc.deployed.message import Key, read_key
from ncc.deployed.metrics import Endpoint, parse_endpoint
from ncc.deployed.neighbourhood import Neighbourhood, NeighbourhoodSpec, check_fits, limiter_of
from ncc.deployed.notify import Notifier
from ncc.deployed.peers import interface_address, parse_agent, parse_peers
from ncc.deployed.state import NoExchange
from ncc.envs.linux import machine
from ncc.envs.linux.extension import extension
from ncc.envs.linux.live import InterfaceCounter, Live
from ncc.envs.linux.order import WeightsByWait
from ncc.envs.linux.senders import KERNEL, check_stack
from ncc.envs.linux.shim import Shim
from ncc.envs.scales import scales_of
from ncc.host.loop import Loop
from ncc.host.telling import metrics_of

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
ECN = Path("/proc/sys/net/ipv4/tcp_ecn")
SPEED = "/sys/class/net/{}/speed"
GROUP_PORT = 9473
LATE_PERIODS = 10.0
"""A message that tells of longer ago when it comes is dropped."""


def run(options: argparse.Namespace) -> int:
    """Until it is told to end; 0 then, and 1 where the policy was given up.

    Raises:
        ConfigError: something that cannot be asked; nothing has been changed.
        DatapathError: the kernel refuses; what was changed is as before.
    """
    file = load_policy_file(options.policy)
    bounds = narrowed(file, options)
    check_stack(file.header.stack)
    if file.header.stack.transport.startswith(KERNEL):
        raise ConfigError(f"policy {file.header.name!r} is for {file.header.stack.transport}, which takes no limit")
    interfaces, addresses = _hosts(options)
    exchange_spec, key = _exchange(options, file, addresses, interfaces)
    n_peers = len(parse_peers(exchange_spec.peers, exchange_spec.own)) or exchange_spec.discover
    spec = neighbourhood_of(options, file, len(addresses) + n_peers, interfaces)
    check_fits(file, spec)
    settings = _guard(options)
    if options.heartbeat_s < 2 * spec.period_s:
        raise ConfigError(
            f"--heartbeat-s must be at least two periods, {2 * spec.period_s:g} s, got {options.heartbeat_s:g}"
        )
    local = range(len(addresses))
    neighbourhood = Neighbourhood(
        limiter_of(file), spec.scenario(), list(local), list(range(len(addresses), spec.hosts))
    )
    endpoint = parse_endpoint(options.metrics) if options.metrics else None
    log = Log()
    with ExitStack() as undo:
        ending = undo.enter_context(_signals())
        notifier = Notifier()
        undo.callback(notifier.close)
        exchange = open_exchange(exchange_spec, key) if key is not None else NoExchange()
        undo.callback(exchange.close)
        guard = Guard(settings, bounds, neighbourhood.link_bps, lambda said: log.warning("guard", said=said))
        agent = Agent(neighbourhood, guard, exchange, stale_periods=options.stale_periods, in_force=not options.dry_run)
        counters = [InterfaceCounter(name) for name in interfaces]
        for counter in counters:
            undo.callback(counter.close)
        sysctls = _sysctls(options, file)
        _scheduling(options, undo)
        undo.callback(os.close, machine.take_machine(shared=True))
        stack = file.header.stack
        shim = undo.enter_context(Shim(stack.transport, stack.params, timeout_s=options.heartbeat_s, name=options.name))
        order = WeightsByWait(stack.order, stack.order_params) if stack.order != "fifo" else None
        live = Live(
            shim,
            addresses,
            scales_of(neighbourhood.scenario).base_rtt_s[: len(addresses)],
            counters=counters or None,
            order=order,
            writes=not options.dry_run,
        )
        loop = Loop(agent, live, to_ns(spec.period_s))
        serving = None
        if endpoint is not None:
            serving = Endpoint(metrics_of(loop, file), endpoint)
            undo.callback(serving.close)
        undo.callback(live.lift)
        undo.enter_context(_set(sysctls, shim.name))
        log.info(
            "started",
            version=__version__,
            policy=file.header.name,
            sha256=file.sha256,
            congestion=shim.name,
            addresses=addresses,
            network=spec.to_dict(),
            limits=bounds.to_dict(),
            dry_run=options.dry_run,
            default=options.default,
        )
        notifier.ready(f"{file.header.name} decides for {', '.join(addresses)}")
        _serve(options, loop, log=log, notifier=notifier, serving=serving, ending=ending)
        said = "given up" if guard.given_up else f"signal {ending[0].name}" if ending else "time is up"
        notifier.stopping(said)
        log.info("ended", why=said, **loop.summary(), guard=guard.counters, messages=exchange.counters)
        if guard.given_up:
            log.error("given_up", reason=guard.reason)
        return int(guard.given_up)


def _serve(
    options: argparse.Namespace,
    loop: Loop,
    *,
    log: Log,
    notifier: Notifier,
    serving: Endpoint | None,
    ending: list[signal.Signals],
) -> None:
    began_ns = reported_ns = time.monotonic_ns()
    until_ns = began_ns + round(options.seconds * NS_PER_S) if options.seconds else None
    name = loop.live.shim.name

    def goes_on(now_ns: int) -> bool:
        nonlocal reported_ns
        if ending or (until_ns is not None and now_ns >= until_ns):
            return False
        notifier.alive(now_ns)
        if serving is not None:
            serving.tick(now_ns)
        if now_ns - reported_ns >= options.log_s * NS_PER_S:
            reported_ns = now_ns
            log.info("report", **loop.summary())
        return True

    def check() -> str | None:
        if name in AVAILABLE.read_text().split():
            return None
        return f"congestion control {name} is no longer registered"

    gc.collect()
    gc.freeze()
    try:
        loop.run(goes_on, check)
    finally:
        gc.unfreeze()


def narrowed(file: PolicyFile, options: argparse.Namespace) -> RateBounds:
    """The file's bounds, narrowed by what was asked.

    Raises:
        ConfigError: they would be wider.
    """
    bounds = file.header.limits
    changes: dict[str, Any] = {}
    for name, wider in (
        ("min_rate_frac", lambda asked, own: asked < own),
        ("max_rate_frac", lambda asked, own: asked > own),
        ("rise_ratio", lambda asked, own: own is not None and asked > own),
        ("fall_ratio", lambda asked, own: own is not None and asked > own),
    ):
        asked, own = getattr(options, name), getattr(bounds, name)
        if asked is None:
            continue
        if wider(asked, own):
            raise ConfigError(
                f"--{name.replace('_', '-')} {asked:g} is wider than the policy file's {own:g}: bounds may be narrowed "
                "only; export the policy with others (limits.*)"
            )
        changes[name] = asked
    return bounds.replace(**changes) if changes else bounds


def neighbourhood_of(
    options: argparse.Namespace, file: PolicyFile, hosts: int, interfaces: list[str]
) -> NeighbourhoodSpec:
    """What was said of the network, and what the interface says where nothing was."""
    return NeighbourhoodSpec(
        hosts=hosts,
        link_rate_bps=options.link_rate if options.link_rate is not None else _speed_bps(interfaces),
        upper_rate_bps=options.upper_rate,
        upper_buffer_bytes=options.upper_buffer,
        base_rtt_s=options.base_rtt,
        period_s=file.header.period_s if options.period is None else options.period,
    )


def _speed_bps(interfaces: list[str]) -> float:
    for name in interfaces[:1]:
        try:
            if (speed := int(Path(SPEED.format(name)).read_text())) > 0:
                return speed * 1e6
        except (OSError, ValueError):  # a device without a speed says EINVAL
            break
    raise ConfigError("the rate of the hosts' links is not known: say --link-rate, in bits/s")


def _hosts(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Interfaces and addresses of the local hosts."""
    interfaces: list[str] = options.interface or []
    found = [interface_address(name) for name in interfaces]
    addresses = options.address or found
    if not addresses:
        raise ConfigError("name the host: --interface, or --address of its connections")
    if options.address and interfaces and len(addresses) != len(interfaces):
        raise ConfigError(
            f"{len(interfaces)} interfaces and {len(addresses)} addresses were named: each host has one of either"
        )
    if len(set(addresses)) < len(addresses):
        raise ConfigError(f"each host needs an address of its own, got {', '.join(addresses)}")
    for address in addresses:
        if parse_agent(address, "address")[0].address.host != address or ":" in address:
            raise ConfigError(f"a host's address must be an IPv4 address, got {address!r}")
    return interfaces, addresses


def _exchange(
    options: argparse.Namespace, file: PolicyFile, addresses: list[str], interfaces: list[str]
) -> tuple[ExchangeSpec, Key | None]:
    period_s = file.header.period_s if options.period is None else options.period
    if options.discover and not interfaces:
        raise ConfigError("--discover needs --interface, on whose link peers are to be found")
    group = options.group or f"{GROUP}:{GROUP_PORT}"
    spec = ExchangeSpec(
        listen=f"{addresses[0]}:{options.port}*{len(addresses)}",
        period_s=period_s,
        late_s=LATE_PERIODS * period_s,
        peers=tuple(name for name in options.peers.split(",") if name.strip()),
        discover=options.discover,
        upper=options.upper,
        group=group if options.discover else None,
        interface=interfaces[0] if options.discover else None,
    )
    alone = not (spec.peers or spec.discover or spec.upper)
    if not alone and options.key is None:
        raise ConfigError("messages are signed: name the file of the key that all agents share, --key")
    return spec, None if alone else read_key(options.key)


def _guard(options: argparse.Namespace) -> GuardSettings:
    return GuardSettings(
        bad_periods=options.bad_periods,
        missed_frac=options.missed_frac,
        silent_s=options.silent_s,
        hold_off_s=options.hold_off_s,
        tries=options.tries,
    )


def _sysctls(options: argparse.Namespace, file: PolicyFile) -> list[Path]:
    """Those that are to be set; whether they can be."""
    if not options.default or options.dry_run:
        return []
    found = [DEFAULT, *([ECN] if extension().ecn(file.header.stack.transport) else [])]
    for path in found:
        if not os.access(path, os.W_OK):
            raise DatapathError(f"--default writes {path}, and this process may not: it takes root (sudo).")
    return found


@contextmanager
def _set(paths: list[Path], congestion: str) -> Iterator[None]:
    """Settings as `--default` has them, and afterwards as they were, unless somebody else changed them meanwhile."""
    values = {DEFAULT: congestion, ECN: "1"}
    before = {path: path.read_text().strip() for path in paths}
    try:
        for path in paths:
            try:
                path.write_text(values[path])
            except OSError as error:
                raise DatapathError(f"Cannot set {path} to {values[path]}: {error.strerror}.") from None
        yield
    finally:
        for path in paths:
            if path.read_text().strip() == values[path]:
                path.write_text(before[path])


def _scheduling(options: argparse.Namespace, undo: ExitStack) -> None:
    if options.core is not None:
        if options.core not in (cores := sorted(os.sched_getaffinity(0))):
            raise ConfigError(f"--core {options.core} is none that this process may use: {', '.join(map(str, cores))}")
        pinned = machine.Cores((options.core,))
        undo.callback(pinned.leave)
        pinned.enter()
    if options.realtime:
        realtime = machine.Realtime()
        undo.callback(realtime.leave)
        realtime.enter()


@contextmanager
def _signals() -> Iterator[list[signal.Signals]]:
    """A list that gets the first signal that asks for the end."""
    asked: list[signal.Signals] = []

    def note(number: int, _: object) -> None:
        asked.append(signal.Signals(number))

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
