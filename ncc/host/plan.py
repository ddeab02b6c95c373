# SPDX-License-Identifier: BSD-3-Clause
"""The options of ``ncc host run``, and the plan that is made of them. The host is checked and not changed."""

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import psutil
from msgspec import NODEFAULT, Meta

from ncc.core.errors import ConfigError
from ncc.core.options import typed
from ncc.core.value import Value
from ncc.envs.linux.objects import check_name
from ncc.envs.linux.stack import KERNEL, check_stack
from ncc.host.addresses import Source, local_hosts
from ncc.host.guard import GuardSettings, Seconds
from ncc.host.keys import Keys
from ncc.host.neighbourhood import NeighbourhoodSpec, check_fits, check_trained
from ncc.host.peers import PORT, Address, Peer, check_version, parse_one, parse_peers, peer_at
from ncc.policies.file import PolicyFile, load_policy_file
from ncc.policies.limits import RateBounds

Share = Annotated[float, Meta(gt=0, le=1)]
PortNumber = Annotated[int, Meta(ge=1, le=65535)]
PortBuffer = Annotated[int, Meta(ge=3000, le=2**32 - 1)]
"""Bytes of a switch port's buffer. The least are two packets; no switch has more than the most."""
SendBuffer = Annotated[int, Meta(ge=1 << 14, le=1 << 26)]
"""Bytes of payload in a socket's buffer. The kernel's own choice is above the lower bound; a socket can hold twice the
upper bound, which is what the payload may take in memory."""
SPEED_UNKNOWN = 65535
"""Speed in Mbit/s that psutil may report for an interface of unknown speed."""
LATE_PERIODS = 10.0
"""Age in periods above which an arriving message is dropped."""
HEARTBEATS = 2
"""Shortest timeout of the heartbeat, in periods."""
HEARTBEAT_MOST_S = 60.0
"""Longest timeout of the heartbeat in seconds: a host without decisions keeps its last limits no longer than this."""

NETWORK = {
    "--link-rate": ("link_rate_bps", "bits/s of each host's link (the interface's)"),
    "--uplink-rate": ("uplink_rate_bps", "bits/s of the port that all share"),
    "--uplink-buffer": ("uplink_buffer_bytes", "bytes that its queue holds (%(default)s)"),
    "--base-rtt": ("base_rtt_s", "seconds to a host beyond and back (10 us a link)"),
    "--period": ("period_s", "seconds between decisions (the policy file's)"),
    "--knows": (
        "knows",
        "sizes: applications write each message at once, and send buffers hold it, so that all bytes left of it wait "
        "there (%(default)s: they may not)",
    ),
}
"""Options that set a field of `NeighbourhoodSpec`, each with this field and the help."""
GUARD = {
    "--missed-frac": (
        "missed_frac",
        "share of the last periods; more without a decision suspend the policy (%(default)s)",
    ),
    "--hold-off-s": ("hold_off_s", "seconds for which hosts then have their fair share (%(default)s)"),
}
"""Options that set a field of `GuardSettings`, likewise."""


def _prom(text: str) -> Path:
    """Parse the path of a file that node_exporter's textfile collector reads: its name ends in .prom."""
    if not text.endswith(".prom"):
        raise argparse.ArgumentTypeError(f"must end in .prom, as node_exporter reads no other file, got {text}")
    return Path(text)


def _nested(text: str) -> None:
    """Refuse a file of options that an abbreviated option or another such file names."""
    raise argparse.ArgumentTypeError(f"cannot be shortened, nor be in such a file itself, got {text}")


def _sha256(text: str) -> str:
    """Return the hexadecimal digits of ``sha256:<digits>``."""
    if (match := re.fullmatch(r"sha256:([0-9a-f]{64})", text)) is None:
        raise argparse.ArgumentTypeError(
            f"must be sha256: and 64 hexadecimal digits, as ncc export prints them, got {text}"
        )
    return match[1]


def _add_fields(parser: Any, kind: type[Value], rows: Mapping[str, tuple[str, str]]) -> None:
    """Add an option for each row of `NETWORK` or `GUARD`, with the type and the default of its field in `kind`."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for flag, (name, help_) in rows.items():
        default = None if (given := fields[name].default) is NODEFAULT else given
        if get_origin(type_ := fields[name].type) is Literal:
            parser.add_argument(flag, dest=name, choices=get_args(type_), default=default, help=help_)
        else:
            parser.add_argument(
                flag, dest=name, type=typed(type_), default=default, metavar=flag[2:].upper(), help=help_
            )


def _given(options: argparse.Namespace, rows: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    return {name: value for name, _ in rows.values() if (value := getattr(options, name)) is not None}


def add_options(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """Add the options of ``run``; `needed` is false for a command that can do without policy file and interface."""
    add = parser.add_argument
    add("policy", type=Path, nargs=None if needed else "?", help="a policy file, as `ncc export` writes")
    help_ = "file of further options, as words; SIGHUP has it read again"
    add("--config", type=_nested, metavar="FILE", help=help_)  # `ncc.host.config_file` takes it out
    add("--digest", type=_sha256, metavar="sha256:HEX", help="digest that the file must have (`ncc export` prints it)")
    add(
        "--interface",
        action="append",
        required=needed,
        metavar="NAME",
        help="interface of this host, whose queue limits all packets that leave; one for each local host",
    )
    add(
        "--address",
        action="append",
        metavar="ADDRESS",
        help="local address of the measured connections (all of the interface); one for each interface, in turn",
    )
    add(
        "--netns",
        action="append",
        metavar="NAME|PATH",
        help="network namespace of each --address, as of containers (this one): one for all, or one for each in turn",
    )
    add("--outside-training", action="store_true", help="start on a network unlike those of the policy's training")
    add = parser.add_argument_group("the neighbourhood").add_argument
    add("--peers", metavar="LIST", default="", help="the other agents, with commas: ADDRESS[:PORT][*HOSTS]")
    add("--key", type=Path, metavar="FILE", help="file of the keys (docs/host/messages.md); needed with peers")
    add("--port", type=typed(PortNumber), default=PORT, help="UDP port for messages (%(default)s)")
    add("--uplink", metavar="ADDRESS[:PORT]", help="sender of the uplink's state, if there is one (`uplink`)")
    add(
        "--receivers",
        type=typed(PortBuffer),
        metavar="BYTES",
        help="flows wait for a grant of their receiver, so that the switch's port to it, with a buffer of BYTES, does "
        "not overflow; the same on all peers",
    )
    _add_fields(parser.add_argument_group("the network, which a host cannot measure"), NeighbourhoodSpec, NETWORK)
    add = parser.add_argument_group("bounds of the limits; they narrow the policy file's").add_argument
    add(
        "--floor",
        type=typed(Share),
        default=0.01,
        metavar="FRAC",
        help="of the link's rate: no limit is lower, whatever the policy file says (%(default)s)",
    )
    add("--max-rate-frac", type=typed(Share), metavar="FRAC", help="of the link's rate: no limit is higher")
    _add_fields(parser.add_argument_group("when the policy is suspended"), GuardSettings, GUARD)
    add = parser.add_argument_group("what is done").add_argument
    add(
        "--send-buffer",
        type=typed(SendBuffer),
        metavar="BYTES",
        help="payload that applications can write at once to a new connection, in this network namespace (the kernel's "
        "choice, some 30 KB): of a message that fits, the agent knows the size",
    )
    add("--default", action="store_true", help="set two sysctls: the policy's controller as the default, and its ECN")
    add("--name", metavar="NAME", help="TCP_CONGESTION by which sockets choose the controller (ncc_<controller>)")
    add("--dry-run", action="store_true", help="measure and decide; write no limit or sysctl")
    add("--heartbeat-s", type=typed(Seconds), default=0.1, help="silence that ends all limits (%(default)s)")
    add("--seconds", type=typed(Seconds), metavar="S", help="end after so many seconds")
    add("--realtime", action="store_true", help="SCHED_FIFO, ahead of everything else")
    add("--metrics", type=_prom, metavar="FILE", help="file.prom for node_exporter's textfile collector (none)")
    add(
        "--log-s",
        type=typed(Seconds),
        default=10.0,
        help="seconds between two reports, or files of metrics (%(default)s)",
    )


@dataclass(frozen=True)
class Plan:
    """The checked options of ``run``."""

    file: PolicyFile
    bounds: RateBounds
    addresses: list[str]
    """[k] address of each local host."""
    sources: list[tuple[Source, ...]]
    """[k] local ends of each host's measured connections: all addresses of its interface, or the one of `--address`."""
    network: NeighbourhoodSpec
    own: tuple[Peer, ...]
    """[k] local hosts, as peers know them: all by the first host's address, which is the agent's."""
    peers: tuple[Peer, ...]
    """Hosts of the other agents."""
    uplink: Peer | None
    """Sender of the uplink's state; None: nobody sends it."""
    keys: Keys | None
    """Keys of the messages; None: there are no peers and no uplink."""
    guard: GuardSettings


def planned(options: argparse.Namespace, before: Plan | None = None) -> Plan:
    """Make a plan from options.

    Args:
        options: options of ``run``.
        before: plan of an agent that runs, and goes on with the same local hosts; None: there is none.

    Raises:
        ConfigError: options are invalid, or contradict each other or the policy.
        ResultError: there is no such policy file.
    """
    if options.name is not None:
        check_name(options.name)
    file = load_policy_file(options.policy, options.digest)
    bounds = narrowed(file, options)
    _check_transport(file)
    uplink = None if options.uplink is None else parse_one(options.uplink, "uplink")
    others = (*parse_peers(options.peers, ()), *(() if uplink is None else (uplink,)))
    ipv6 = bool(others) and others[0].address.is_ipv6
    addresses, sources = local_hosts(options, ipv6=ipv6) if before is None else (before.addresses, before.sources)
    own = tuple(peer_at(Address(addresses[0], options.port), which) for which in range(len(addresses)))
    peers = parse_peers(options.peers, own)
    check_version((*own, *others))
    _check_receivers(options, (*own, *peers), sources)
    alone = not peers and uplink is None
    if not alone and options.key is None:
        raise ConfigError("messages are signed: name the file of the agents' keys, --key")
    network = _network(options, file, len(own) + len(peers))
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
        addresses=addresses,
        sources=sources,
        network=network,
        own=own,
        peers=peers,
        uplink=uplink,
        keys=None if alone else Keys.read(options.key),
        guard=GuardSettings(**_given(options, GUARD)),
    )


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
    """Return the policy file's bounds, narrowed by the options. No limit may be below the operator's `--floor`.

    Raises:
        ConfigError: an option is wider than the file's bounds, or the highest limit is below the floor.
    """
    bounds = file.header.limits
    most = bounds.max_rate_frac if options.max_rate_frac is None else options.max_rate_frac
    if most > bounds.max_rate_frac:
        raise ConfigError(
            f"--max-rate-frac {most:g} is wider than the policy file's {bounds.max_rate_frac:g}: bounds may be "
            "narrowed only; export the policy with others (limits.*)"
        )
    if most < options.floor:
        raise ConfigError(
            f"limits may be at most {most:g} of the link's rate, and --floor is {options.floor:g} of it: name a lower "
            "floor, or another policy file"
        )
    return bounds.replace(min_rate_frac=max(bounds.min_rate_frac, options.floor), max_rate_frac=most)


def _network(options: argparse.Namespace, file: PolicyFile, hosts: int) -> NeighbourhoodSpec:
    """Return the network that the options describe; without `--link-rate`, links have the first interface's rate."""
    given = _given(options, NETWORK)
    if "uplink_rate_bps" not in given:
        raise ConfigError("the rate of the port that all hosts share is not known: say --uplink-rate, in bits/s")
    if "link_rate_bps" not in given:
        given["link_rate_bps"] = _speed_bps(options.interface[0])
    network = NeighbourhoodSpec(hosts=hosts, **{"period_s": file.header.period_s, **given})
    network.scenario()
    return network


def _speed_bps(interface: str) -> float:
    speed: int = getattr(psutil.net_if_stats().get(interface), "speed", 0)
    if not 0 < speed < SPEED_UNKNOWN:
        raise ConfigError("the rate of the hosts' links is not known: say --link-rate, in bits/s")
    return speed * 1e6


def _check_receivers(options: argparse.Namespace, hosts: tuple[Peer, ...], sources: list[tuple[Source, ...]]) -> None:
    """Raise `ConfigError` if `--receivers` cannot be used."""
    if options.receivers is None:
        return
    if not options.peers:
        raise ConfigError("--receivers is about flows between this host and its --peers: name them")
    if several := [host for host in hosts if host.id >> 48]:
        raise ConfigError(
            f"--receivers knows a host by its agent's address, and {several[0].address} speaks for several hosts: have "
            "an agent for each"
        )
    if (alike := sum((":" in address) == hosts[0].address.is_ipv6 for address, _ in sources[0])) > 1:
        raise ConfigError(
            f"--receivers knows a host by one address, and the interface has {alike}: name one, --address"
        )
    if options.netns or options.dry_run:
        what = "--netns" if options.netns else "--dry-run"
        raise ConfigError(f"--receivers holds flows of this network namespace back: leave {what} out")
