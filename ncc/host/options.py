# SPDX-License-Identifier: BSD-3-Clause
"""Options of the commands of ``ncc host``."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ncc.core.errors import ConfigError
from ncc.host.guard import GuardSettings
from ncc.host.neighbourhood import NeighbourhoodSpec
from ncc.host.peers import PORT

LONGEST_S = 1e9
"""Thirty years: longer times are mistakes, or too long for a clock."""
_FIELDS = {
    "NeighbourhoodSpec.hosts": "the number of the neighbourhood's hosts",
    "NeighbourhoodSpec.link_rate_bps": "--link-rate",
    "NeighbourhoodSpec.upper_rate_bps": "--upper-rate",
    "NeighbourhoodSpec.upper_buffer_bytes": "--upper-buffer",
    "NeighbourhoodSpec.base_rtt_s": "--base-rtt",
    "NeighbourhoodSpec.period_s": "--period",
}


def check_within(options: argparse.Namespace, *names: str, least: float = 0.0, most: float = LONGEST_S) -> None:
    """Check that options that are given are from `least` to `most`, and above 0.

    Raises:
        ConfigError: one is not.
    """
    for name in names:
        if (value := getattr(options, name)) is not None and not (value > 0 and least <= value <= most):
            range_ = f"from {least:g} to {most:g}" if least else f"above 0 and at most {most:g}"
            raise ConfigError(f"--{name.replace('_', '-')} must be {range_}, got {value:g}")


def listed(text: str) -> tuple[str, ...]:
    """Entries of a list with commas, without empty ones."""
    return tuple(entry for entry in text.split(",") if entry.strip())


@contextmanager
def named_by_option() -> Iterator[None]:
    """Errors inside name the option that was given, not the field that it became."""
    try:
        yield
    except ConfigError as error:
        text = str(error)
        for field, option in _FIELDS.items():
            text = text.replace(field, option)
        raise ConfigError(text) from None


def network_options(parser: argparse.ArgumentParser, link_rate: str) -> None:
    """Facts of the network; `link_rate` says where the rate of the host's link comes from if it is not given."""
    group = parser.add_argument_group("the network, which a host cannot measure")
    group.add_argument("--link-rate", type=float, metavar="BPS", help=f"of each host's link ({link_rate})")
    group.add_argument("--upper-rate", type=float, required=True, metavar="BPS", help="of the port that all share")
    group.add_argument(
        "--upper-buffer",
        type=int,
        default=NeighbourhoodSpec(hosts=1, link_rate_bps=1e9, upper_rate_bps=1e9).upper_buffer_bytes,
        metavar="BYTES",
        help="the longest that its queue may get (%(default)s)",
    )
    group.add_argument(
        "--base-rtt", type=float, metavar="S", help="to a host beyond, where nobody else sends (links of 10 us)"
    )
    group.add_argument("--period", type=float, metavar="S", help="of decisions (the policy file's)")


def bound_options(parser: argparse.ArgumentParser) -> None:
    """Bounds that may narrow the policy file's."""
    group = parser.add_argument_group("bounds of the limits; they may narrow the policy file's, never widen them")
    group.add_argument("--min-rate-frac", type=float, metavar="FRAC", help="of the link's rate: no limit is lower")
    group.add_argument("--max-rate-frac", type=float, metavar="FRAC", help="of the link's rate: no limit is higher")
    group.add_argument("--rise-ratio", type=float, metavar="RATIO", help="a limit is at most so many times the last")
    group.add_argument("--fall-ratio", type=float, metavar="RATIO", help="a limit is at least the last over this")


def guard_options(parser: argparse.ArgumentParser) -> None:
    """Conditions on which the policy loses its hosts."""
    group, default = parser.add_argument_group("when hosts are handed back to their controller"), GuardSettings()
    for name, kind, what in (
        ("bad-periods", int, "so many in a row the last good limits hold without a decision"),
        ("missed-frac", float, "of the last periods; more without a decision hand back"),
        ("silent-s", float, "seconds without a report, while data is queued, before handing back"),
        ("hold-off-s", float, "how long the controller then has the host"),
        ("tries", int, "so many times the policy gets it back, then this ends with status 1"),
    ):
        group.add_argument(
            f"--{name}", type=kind, default=getattr(default, name.replace("-", "_")), help=f"{what} (%(default)s)"
        )


def run_options(parser: argparse.ArgumentParser) -> None:
    """Options of ``run``."""
    add = parser.add_argument
    add("policy", type=Path, help="a policy file, as `ncc export` writes")
    add("--interface", action="append", metavar="NAME", help="of this host; of each, if it is several hosts")
    add(
        "--address",
        action="append",
        metavar="IPV4",
        help="of connections to be limited (all the interface has), in turn",
    )
    add("--elsewhere", action="store_true", help="addresses may be other network namespaces', as containers have")
    add(
        "--outside-training", action="store_true", help="start on a network unlike those that the policy was trained on"
    )
    add = parser.add_argument_group("the neighbourhood").add_argument
    add("--peers", metavar="LIST", default="", help="the other agents, with commas: ADDRESS[:PORT][*HOSTS]")
    add("--discover", type=int, default=0, metavar="N", help="instead: so many hosts, on the link")
    add("--group", metavar="ADDRESS:PORT", help="multicast: one message serves all peers; --discover has one")
    add("--key", type=Path, metavar="FILE", help="that all share; needed where there is anybody else")
    add("--port", type=int, default=PORT, help="UDP, for messages (%(default)s)")
    add("--upper", metavar="ADDRESS[:PORT]", help="sender of the uplink's state, if there is one (`upper`)")
    add("--stale-periods", type=float, default=20.0, metavar="N", help="what was heard counts so long (%(default)s)")
    network_options(parser, "that of the interface, where it knows it")
    bound_options(parser)
    guard_options(parser)
    add = parser.add_argument_group("what is done").add_argument
    add("--default", action="store_true", help="have all new connections run by it, and ECN as it needs: two sysctls")
    add("--name", metavar="NAME", help="that sockets ask for by TCP_CONGESTION (ncc_<controller>)")
    add("--dry-run", action="store_true", help="measure and decide; write no limit, weight or sysctl")
    add("--heartbeat-s", type=float, default=0.1, help="silence that ends all limits (%(default)s)")
    add("--seconds", type=float, metavar="S", help="end after so long")
    add("--realtime", action="store_true", help="SCHED_FIFO, ahead of everything else")
    add("--core", type=int, metavar="N", help="stay on this core")
    add("--metrics", metavar="ADDRESS:PORT", help="for Prometheus; none: no such thing")
    add("--log-s", type=float, default=10.0, metavar="S", help="between two reports (%(default)s)")


def replay_options(parser: argparse.ArgumentParser) -> None:
    """Options of ``replay``."""
    parser.add_argument("policy", type=Path, help="a policy file")
    parser.add_argument("epochs", type=Path, help="epochs.parquet of a run, or another table with its columns")
    parser.add_argument("--area", type=int, default=0, help="the neighbourhood of it (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where decisions go, as Parquet")
    network_options(parser, "needed: there is no interface to ask")
    bound_options(parser)


def upper_options(parser: argparse.ArgumentParser) -> None:
    """Options of ``upper``."""
    add = parser.add_argument
    add("interface", help="whose queue hosts share: the port of the switch towards what lies beyond")
    add("--listen", required=True, metavar="ADDRESS[:PORT]", help=f"of this machine (port {PORT})")
    add("--key", type=Path, required=True, metavar="FILE", help="that all share")
    add("--agents", default="", metavar="LIST", help="those who are told, with commas: ADDRESS[:PORT]")
    add("--group", metavar="ADDRESS:PORT", help="instead: the multicast group of --discover")
    add("--through", metavar="NAME", help="interface by which the group is reached")
    add("--period", type=float, default=1e-3, metavar="S", help="of the agents (%(default)s)")
    add("--seconds", type=float, metavar="S", help="end after so long")
    add("--log-s", type=float, default=10.0, metavar="S", help="between two reports (%(default)s)")


def unit_options(parser: argparse.ArgumentParser) -> None:
    """Options of ``unit``: those of ``run``, passed on."""
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="options of `run`: policy.ncc --interface NAME ..."
    )


def check_options(parser: argparse.ArgumentParser) -> None:
    """Options of ``check``."""
    parser.add_argument(
        "--callbacks",
        nargs="?",
        type=float,
        const=10.0,
        default=0.0,
        metavar="SECONDS",
        help="also count callbacks that the kernel skips, for so long (10)",
    )


def cost_options(parser: argparse.ArgumentParser) -> None:
    """Options of ``cost``."""
    parser.add_argument("controllers", nargs="*", metavar="controller", help="of ours; all if none is named")
    parser.add_argument("--seconds", type=float, default=3.0, help="of traffic for each (3)")


def no_options(_: argparse.ArgumentParser) -> None:
    """Options of the other commands: none."""
