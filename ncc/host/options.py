# SPDX-License-Identifier: BSD-3-Clause
"""Options of the commands of ``ncc host``."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from ncc.core.scenario import Knows
from ncc.host.exchange import BUFFER_BYTES
from ncc.host.guard import GuardSettings
from ncc.host.neighbourhood import NeighbourhoodSpec
from ncc.host.peers import PORT

LONGEST_S = 1e9
"""Longest time, thirty years: longer ones are mistakes, or too long for a clock."""

SEND_BUFFER_BYTES = (1 << 14, 1 << 26)
"""Bounds of `--send-buffer`: the kernel's own buffer is larger than the least, and a socket can hold twice the most."""
FLOOR_FRAC = 0.01
"""Default of `--floor`: least limit over the link's rate."""


def number(least: float = 0.0, most: float = LONGEST_S) -> Callable[[str], float]:
    """Return an option type: numbers above 0 that are from `least` to `most`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not (value > 0 and least <= value <= most):
            range_ = f"from {least:g} to {most:g}" if least else f"above 0 and at most {most:g}"
            raise argparse.ArgumentTypeError(f"must be {range_}, got {text}")
        return value

    return parse


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return an option type: whole numbers from `least` to `most`."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}, got {text}")
        return int(text)

    return parse


def listed(text: str) -> tuple[str, ...]:
    """Split a list with commas; leave empty entries out."""
    return tuple(entry for entry in text.split(",") if entry.strip())


def prom(text: str) -> Path:
    """Parse a path that node_exporter's textfile collector reads."""
    if not text.endswith(".prom"):
        raise argparse.ArgumentTypeError(f"must end in .prom, as node_exporter reads no other file, got {text}")
    return Path(text)


def sha256(text: str) -> str:
    """Return the hexadecimal digits of ``sha256:<digits>``."""
    if (match := re.fullmatch(r"sha256:([0-9a-f]{64})", text)) is None:
        raise argparse.ArgumentTypeError(
            f"must be sha256: and 64 hexadecimal digits, as ncc export prints them, got {text}"
        )
    return match[1]


def network_options(parser: argparse.ArgumentParser) -> None:
    """Add the facts of the network."""
    group = parser.add_argument_group("the network, which a host cannot measure")
    rate = number(1e3, 1e13)
    buffer_bytes = NeighbourhoodSpec(hosts=1, link_rate_bps=1e9, uplink_rate_bps=1e9).uplink_buffer_bytes
    add = group.add_argument
    add("--link-rate", type=rate, metavar="BPS", help="bits/s of each host's link (the interface's)")
    add("--uplink-rate", type=rate, required=True, metavar="BPS", help="bits/s of the port that all share")
    add(
        "--uplink-buffer",
        type=int,
        default=buffer_bytes,
        metavar="BYTES",
        help="bytes that its queue holds (%(default)s)",
    )
    add("--base-rtt", type=number(most=1), metavar="S", help="seconds to a host beyond and back (10 us a link)")
    add("--period", type=number(1e-4, 10), metavar="S", help="seconds between decisions (the policy file's)")
    add(
        "--knows",
        choices=get_args(Knows),
        default="backlog",
        help="sizes: applications write each message at once, and send buffers hold it, so that all bytes left of it "
        "wait there (backlog: they may not)",
    )


def bound_options(parser: argparse.ArgumentParser) -> None:
    """Add the bounds that may narrow the policy file's."""
    group = parser.add_argument_group("bounds of the limits; they may narrow the policy file's, never widen them")
    group.add_argument(
        "--floor",
        type=number(most=1),
        default=FLOOR_FRAC,
        metavar="FRAC",
        help="of the link's rate: no limit is lower, whatever the policy file says (%(default)s)",
    )
    group.add_argument("--max-rate-frac", type=float, metavar="FRAC", help="of the link's rate: no limit is higher")
    group.add_argument("--rise-ratio", type=float, metavar="RATIO", help="a limit is at most so many times the last")
    group.add_argument("--fall-ratio", type=float, metavar="RATIO", help="a limit is at least the last over this")


def guard_options(parser: argparse.ArgumentParser) -> None:
    """Add the conditions for handing hosts back."""
    group, default = parser.add_argument_group("when hosts are handed back to their controller"), GuardSettings()
    for name, kind, what in (
        ("bad-periods", int, "periods in a row for which the last good limits hold without a decision"),
        ("missed-frac", float, "share of the last periods; more without a decision hand back"),
        ("silent-s", float, "seconds without a report, while data is queued, before handing back"),
        ("hold-off-s", float, "seconds for which the controller then has the host"),
        ("tries", int, "times that the policy is started again; then this ends with status 1"),
    ):
        group.add_argument(
            f"--{name}", type=kind, default=getattr(default, name.replace("-", "_")), help=f"{what} (%(default)s)"
        )


def run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run``."""
    add = parser.add_argument
    add("policy", type=Path, help="a policy file, as `ncc export` writes")
    add("--digest", type=sha256, metavar="sha256:HEX", help="digest that the file must have, as `ncc export` prints it")
    add(
        "--interface",
        action="append",
        required=True,
        metavar="NAME",
        help="interface of this host, whose queue limits all packets that leave; one for each local host",
    )
    add(
        "--address",
        action="append",
        metavar="IPV4",
        help="local address of the measured connections (all of the interface); one for each interface, in turn",
    )
    add(
        "--netns",
        action="append",
        metavar="NAME|PATH",
        help="network namespace of each --address, as of containers (this one): one for all, or one for each in turn",
    )
    add(
        "--outside-training", action="store_true", help="start on a network unlike those that the policy was trained on"
    )
    add = parser.add_argument_group("the neighbourhood").add_argument
    add("--peers", metavar="LIST", default="", help="the other agents, with commas: ADDRESS[:PORT][*HOSTS]")
    add("--group", metavar="ADDRESS:PORT", help="multicast: one message serves all peers")
    add("--key", type=Path, metavar="FILE", help="file of the keys (docs/host/messages.md); needed with peers")
    add("--port", type=int, default=PORT, help="UDP port for messages (%(default)s)")
    add("--uplink", metavar="ADDRESS[:PORT]", help="sender of the uplink's state, if there is one (`uplink`)")
    add(
        "--receivers",
        type=whole(*BUFFER_BYTES),
        metavar="BYTES",
        help="flows wait for a grant of their receiver, so that the switch's port to it, with a buffer of BYTES, does "
        "not overflow; the same on all peers",
    )
    periods = number(most=1e6)
    add(
        "--stale-periods",
        type=periods,
        default=20.0,
        metavar="N",
        help="periods after which a state is stale (%(default)s); a stale peer counts as it was last for 5 s, then as "
        "idle",
    )
    network_options(parser)
    bound_options(parser)
    guard_options(parser)
    add = parser.add_argument_group("what is done").add_argument
    add(
        "--send-buffer",
        type=whole(*SEND_BUFFER_BYTES),
        metavar="BYTES",
        help="payload that applications can write at once to a new connection, in this network namespace (the kernel's "
        "choice, some 30 KB): of a message that fits, the agent knows the size",
    )
    add("--default", action="store_true", help="set two sysctls: the policy's controller as the default, and its ECN")
    add("--name", metavar="NAME", help="TCP_CONGESTION by which sockets choose the controller (ncc_<controller>)")
    add("--dry-run", action="store_true", help="measure and decide; write no limit or sysctl")
    add("--heartbeat-s", type=float, default=0.1, help="seconds without a decision that end all limits (%(default)s)")
    add("--seconds", type=number(), metavar="S", help="end after so many seconds")
    add("--realtime", action="store_true", help="SCHED_FIFO, ahead of everything else")
    add("--core", type=int, metavar="N", help="stay on this core")
    add("--metrics", type=prom, metavar="FILE", help="file.prom for node_exporter's textfile collector (none)")
    add(
        "--log-s",
        type=number(),
        default=10.0,
        metavar="S",
        help="seconds between two reports, and two files of metrics (%(default)s)",
    )


def uplink_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``uplink``."""
    add = parser.add_argument
    add("interface", help="interface whose queue the hosts share: the switch's port to the outside")
    add("--listen", required=True, metavar="ADDRESS[:PORT]", help=f"address of this machine (port {PORT})")
    add("--key", type=Path, required=True, metavar="FILE", help="file of the keys (docs/host/messages.md)")
    add("--agents", default="", metavar="LIST", help="agents to send the state to, with commas: ADDRESS[:PORT]")
    add("--group", metavar="ADDRESS:PORT", help="multicast group of the agents, instead of --agents")
    add("--through", metavar="NAME", help="interface by which the group is reached")
    # Shorter periods would flood hosts with messages, longer ones leave them with an old state.
    add("--period", type=number(1e-4, 10), default=1e-3, metavar="S", help="seconds, of the agents (%(default)s)")
    add("--seconds", type=number(), metavar="S", help="end after so many seconds")
    add("--log-s", type=number(), default=10.0, metavar="S", help="seconds between two reports (%(default)s)")


def no_options(_: argparse.ArgumentParser) -> None:
    """Add no options: for the other commands."""
