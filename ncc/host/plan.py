# SPDX-License-Identifier: BSD-3-Clause
"""The plan of an agent: its options, checked as far as possible without changing the host."""

import argparse
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

import psutil

from ncc.core.errors import ConfigError
from ncc.envs.linux.device import interface_index, occupied
from ncc.envs.linux.enter import in_namespace
from ncc.envs.linux.machine import namespace_cookie
from ncc.envs.linux.objects import check_name
from ncc.envs.linux.senders import KERNEL, check_stack
from ncc.host.exchange import ExchangeSpec
from ncc.host.guard import GuardSettings
from ncc.host.keys import Keys
from ncc.host.neighbourhood import NeighbourhoodSpec, check_fits, check_trained
from ncc.host.options import listed
from ncc.host.peers import parse_peers
from ncc.policies.file import PolicyFile, load_policy_file
from ncc.policies.limits import RateBounds

SPEED_UNKNOWN = 65535
"""Speed in Mbit/s that psutil may report for an interface of unknown speed."""
GUARDED = ("bad_periods", "missed_frac", "silent_s", "hold_off_s", "tries")
"""Fields of `GuardSettings` that are options."""
BROADCAST = IPv4Address("255.255.255.255")
LATE_PERIODS = 10.0
"""Age in periods above which an arriving message is dropped."""
HEARTBEATS = 2
"""Least timeout of the heartbeat in periods."""
HEARTBEAT_MOST_S = 60.0
"""Longest timeout of the heartbeat: without decisions, a host keeps its last limits no longer than this."""


NAMED = Path("/run/netns")
"""Folder of the network namespaces that have a name."""
Source = tuple[str, int]
"""Local end of connections: an IPv4 address, and the cookie of a network namespace."""


@dataclass(frozen=True)
class Plan:
    """The checked options of ``run``."""

    file: PolicyFile
    bounds: RateBounds
    interfaces: list[str]
    addresses: list[str]
    """[k] Addresses of the local hosts, as peers use them."""
    sources: list[tuple[Source, ...]]
    """[k] Local ends of the measured connections: all addresses of an interface, or the named ones."""
    network: NeighbourhoodSpec
    exchange: ExchangeSpec
    keys: Keys | None
    """Keys of the messages; None: there are no peers and no uplink."""
    guard: GuardSettings


def planned(options: argparse.Namespace) -> Plan:
    """Make a plan of options.

    Raises:
        ConfigError: options are invalid, or contradict each other or the policy.
        ResultError: there is no such policy file.
    """
    cores = sorted(os.sched_getaffinity(0))
    if options.core is not None and options.core not in cores:
        raise ConfigError(f"--core {options.core} is none that this process may use: {', '.join(map(str, cores))}")
    if options.name is not None:
        check_name(options.name)
    file = load_policy_file(options.policy, options.digest)
    bounds = narrowed(file, options)
    _check_transport(file)
    addresses, sources = _hosts(options)
    exchange, keys = _exchange(options, file, addresses)
    if options.receivers is not None and len(sources[0]) > 1:
        raise ConfigError(
            f"--receivers knows a host by one address, and the interface has {len(sources[0])}: name one, --address"
        )
    n_peers = len(parse_peers(exchange.peers, exchange.own))
    network = neighbourhood_of(options, file, len(addresses) + n_peers)
    check_fits(file, network)
    if not (least_s := HEARTBEATS * network.period_s) <= options.heartbeat_s <= HEARTBEAT_MOST_S:
        raise ConfigError(
            f"--heartbeat-s must be at least two periods, {least_s:g} s, and at most {HEARTBEAT_MOST_S:g} s, got "
            f"{options.heartbeat_s:g}"
        )
    if not options.outside_training:
        check_trained(file, network)
    return Plan(
        file=file,
        bounds=bounds,
        interfaces=options.interface,
        addresses=addresses,
        sources=sources,
        network=network,
        exchange=exchange,
        keys=keys,
        guard=_guard(options),
    )


def _guard(options: argparse.Namespace) -> GuardSettings:
    try:
        return GuardSettings(**{name: getattr(options, name) for name in GUARDED})
    except ConfigError as error:
        field, rest = str(error).split(" ", 1)
        raise ConfigError(f"--{field.rpartition('.')[2].replace('_', '-')} {rest}") from None


def _check_transport(file: PolicyFile) -> None:
    """Raise `ConfigError` for a policy whose transport, or whose fallback, this agent cannot run."""
    header = file.header
    own, fallback = header.stack, header.fallback.stack
    check_stack(own)
    try:
        check_stack(fallback)
    except ConfigError as error:
        raise ConfigError(f"the fallback of policy {header.name!r} is not to be had here: {error}") from None
    if fallback.transport != own.transport:
        raise ConfigError(
            f"the fallback of policy {header.name!r} runs {fallback.transport} and the policy {own.transport}: "
            "connections keep their congestion control, so a host can only be handed back to the policy's own; export "
            f"it with fallback={own.transport}"
        )
    if own.transport.startswith(KERNEL):
        raise ConfigError(
            f"policy {header.name!r} is for {own.transport}, the kernel's own, which takes no rate limit: export a "
            "policy for a transport of ours"
        )


def narrowed(file: PolicyFile, options: argparse.Namespace) -> RateBounds:
    """Return the file's bounds, narrowed by options and never below the operator's floor."""
    bounds = file.header.limits
    changes: dict[str, float] = {}
    for name in ("max_rate_frac", "rise_ratio", "fall_ratio"):
        asked, own = getattr(options, name), getattr(bounds, name)
        if asked is None:
            continue
        if own is not None and asked > own:
            raise ConfigError(
                f"--{name.replace('_', '-')} {asked:g} is wider than the policy file's {own:g}: bounds may be narrowed "
                "only; export the policy with others (limits.*)"
            )
        changes[name] = asked
    if (most := changes.get("max_rate_frac", bounds.max_rate_frac)) < options.floor:
        raise ConfigError(
            f"limits may be at most {most:g} of the link's rate, and --floor is {options.floor:g} of it: name a lower "
            "floor, or another policy file"
        )
    return bounds.replace(min_rate_frac=max(bounds.min_rate_frac, options.floor), **changes)


def neighbourhood_of(options: argparse.Namespace, file: PolicyFile, hosts: int) -> NeighbourhoodSpec:
    """Return the network as options say; without `--link-rate`, the rate is the interface's."""
    network = NeighbourhoodSpec(
        hosts=hosts,
        link_rate_bps=options.link_rate or _speed_bps(options.interface[0]),
        uplink_rate_bps=options.uplink_rate,
        uplink_buffer_bytes=options.uplink_buffer,
        base_rtt_s=options.base_rtt,
        period_s=options.period or file.header.period_s,
        knows=options.knows,
    )
    network.scenario()
    return network


def _speed_bps(interface: str) -> float:
    speed: int = psutil.net_if_stats()[interface].speed
    if not 0 < speed < SPEED_UNKNOWN:
        raise ConfigError("the rate of the hosts' links is not known: say --link-rate, in bits/s")
    return speed * 1e6


def _hosts(options: argparse.Namespace) -> tuple[list[str], list[tuple[Source, ...]]]:
    """Return the addresses of the local hosts, and `Plan.sources`; raise `ConfigError` if they cannot be used."""
    interfaces: list[str] = options.interface
    named: list[str] = options.netns or []
    host_addresses = [tuple(dict.fromkeys(_addresses(name, socket.AF_INET))) for name in interfaces]
    for name in () if options.dry_run else interfaces:
        if queue := occupied(name):
            raise ConfigError(
                f"the interface {name} has a queue that somebody set up ({queue}): remove it (tc qdisc del dev {name} "
                "root), or take another interface"
            )
    if options.address:
        if len(options.address) != len(interfaces):
            raise ConfigError(
                f"{len(interfaces)} interfaces and {len(options.address)} addresses were named: each host has one of "
                "either"
            )
        host_addresses = [(address,) for address in options.address]
    elif lacking := [name for name, own in zip(interfaces, host_addresses, strict=True) if not own]:
        raise ConfigError(f"the interface {lacking[0]} has no IPv4 address: give it one, or name the host's, --address")
    if named and (not options.address or len(named) not in (1, len(host_addresses))):
        raise ConfigError("--netns is of an --address: name one for all addresses, or one for each in turn")
    namespaces = named * len(host_addresses) if len(named) == 1 else named or [""] * len(host_addresses)
    sources = []
    for own, name in zip(host_addresses, namespaces, strict=True):
        if name:
            cookie = in_namespace(NAMED / name, partial(_checked, own[0], f"in {name}"))
        else:
            cookie = _checked(own[0], "here")
        sources.append(tuple((address, cookie) for address in own))
    every = [source for own in sources for source in own]
    if twice := [address for address, cookie in every if every.count((address, cookie)) > 1]:
        raise ConfigError(
            f"each host needs an address of its own, and {twice[0]} is that of two: say --address of each"
        )
    return [own[0] for own in host_addresses], sources


def _checked(address: str, where: str) -> int:
    """Return the cookie of the calling thread's network namespace; raise `ConfigError` if it lacks the address."""
    if not _begins_here(address):
        raise ConfigError(
            f"no connection begins at {address} {where}: name one that `ip address` shows there, or by --netns the "
            "network namespace that has it"
        )
    return namespace_cookie()


def _addresses(interface: str, family: socket.AddressFamily) -> Iterator[str]:
    """Return the addresses of an interface of the calling thread's network namespace."""
    interface_index(interface)
    return (one.address for one in psutil.net_if_addrs().get(interface, ()) if one.family == family)


def _begins_here(address: str) -> bool:
    """Return True if connections of this namespace may begin at an IPv4 address."""
    try:
        parsed = IPv4Address(address)
    except ValueError:
        raise ConfigError(f"a host's address must be an IPv4 address, got {address!r}") from None
    if parsed.is_multicast or parsed.is_unspecified or parsed == BROADCAST:
        return False  # bind() takes these, but no connection begins there
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _check_receivers(options: argparse.Namespace, spec: ExchangeSpec) -> None:
    """Raise `ConfigError` if `--receivers` cannot be used."""
    if options.receivers is None:
        return
    if not spec.peers:
        raise ConfigError("--receivers is about flows between this host and its --peers: name them")
    hosts = [*spec.own, *parse_peers(spec.peers, spec.own)]
    if several := [host for host in hosts if host.id >> 48]:
        raise ConfigError(
            f"--receivers knows a host by its agent's address, and {several[0].address} speaks for several hosts: have "
            "an agent for each"
        )
    if options.netns or options.dry_run:
        what = "--netns" if options.netns else "--dry-run"
        raise ConfigError(f"--receivers holds flows of this network namespace back: leave {what} out")


def _exchange(options: argparse.Namespace, file: PolicyFile, addresses: list[str]) -> tuple[ExchangeSpec, Keys | None]:
    period_s = options.period or file.header.period_s
    spec = ExchangeSpec(
        listen=f"{addresses[0]}:{options.port}*{len(addresses)}",
        late_s=LATE_PERIODS * period_s,
        peers=listed(options.peers),
        uplink=options.uplink,
        group=options.group,
        interface=options.interface[0] if options.group else None,
        buffer_bytes=options.receivers,
    )
    _check_receivers(options, spec)
    alone = not (spec.peers or spec.uplink)
    if not alone and options.key is None:
        raise ConfigError("messages are signed: name the file of the agents' keys, --key")
    return spec, None if alone else Keys.read(options.key)
