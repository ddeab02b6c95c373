# SPDX-License-Identifier: BSD-3-Clause
"""What ``ncc host`` can be told to run, to replay, to tell, and to print."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ncc.core.errors import ConfigError
from ncc.deployed.guard import GuardSettings
from ncc.deployed.neighbourhood import NeighbourhoodSpec
from ncc.deployed.peers import PORT

LONGEST_S = 1e9
"""Thirty years: what is asked for longer is a mistake, or a number of seconds that no clock has."""


def check_within(options: argparse.Namespace, *names: str, least: float = 0.0, most: float = LONGEST_S) -> None:
    """Options that are given must be from `least` to `most`, and above 0.

    Raises:
        ConfigError: one is not.
    """
    for name in names:
        if (value := getattr(options, name)) is not None and not (value > 0 and least <= value <= most):
            range_ = f"from {least:g} to {most:g}" if least else f"above 0 and at most {most:g}"
            raise ConfigError(f"--{name.replace('_', '-')} must be {range_}, got {value:g}")


REPLAYED = (
    "policy", "replay", "link_rate", "upper_rate", "upper_buffer", "base_rtt", "period", "min_rate_frac",
    "max_rate_frac", "rise_ratio", "fall_ratio", "dry_run",
)  # fmt: skip
"""Of `run`, what means something on what was recorded; ``--dry-run`` is what a replay is anyway."""
_FIELDS = {
    "NeighbourhoodSpec.hosts": "the number of the neighbourhood's hosts",
    "NeighbourhoodSpec.link_rate_bps": "--link-rate",
    "NeighbourhoodSpec.upper_rate_bps": "--upper-rate",
    "NeighbourhoodSpec.upper_buffer_bytes": "--upper-buffer",
    "NeighbourhoodSpec.base_rtt_s": "--base-rtt",
    "NeighbourhoodSpec.period_s": "--period",
}


@contextmanager
def as_asked() -> Iterator[None]:
    """Errors within name the option that asked, not the field that it became."""
    try:
        yield
    except ConfigError as error:
        text = str(error)
        for field, option in _FIELDS.items():
            text = text.replace(field, option)
        raise ConfigError(text) from None


def of_a_host(options: argparse.Namespace) -> str | None:
    """The first option of ``run`` that differs from its default and means nothing on what was recorded; None: none."""
    parser = argparse.ArgumentParser()
    run_options(parser)
    found = (
        name
        for name, value in vars(parser.parse_args(["policy", "--upper-rate", "1"])).items()
        if name not in REPLAYED and getattr(options, name) != value
    )
    return next((f"--{name.replace('_', '-')}" for name in found), None)


def network_options(parser: argparse.ArgumentParser, link_rate: str) -> None:
    """What a host must be told of its network; `link_rate` is where that of its link comes from if it is not told."""
    group = parser.add_argument_group("the network, which a host cannot measure")
    group.add_argument("--link-rate", type=float, metavar="BPS", help=f"of each host's link ({link_rate})")
    group.add_argument("--upper-rate", type=float, required=True, metavar="BPS", help="of the port that all share")
    default = {
        field: NeighbourhoodSpec(hosts=1, link_rate_bps=1e9, upper_rate_bps=1e9).to_dict()[field]
        for field in ("upper_buffer_bytes",)
    }
    group.add_argument(
        "--upper-buffer",
        type=int,
        default=default["upper_buffer_bytes"],
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
    """When the policy is relieved."""
    group, default = parser.add_argument_group("when hosts are handed back to their controller"), GuardSettings()
    for name, kind, what in (
        ("bad-periods", int, "so many in a row the last good limits hold without a decision"),
        ("missed-frac", float, "of the last periods; more without a decision hand back"),
        ("silent-s", float, "so long connections may have data and report nothing"),
        ("hold-off-s", float, "how long the controller then has the host"),
        ("tries", int, "so many times the policy gets it back, then this ends with status 1"),
    ):
        group.add_argument(
            f"--{name}", type=kind, default=getattr(default, name.replace("-", "_")), help=f"{what} (%(default)s)"
        )


def run_options(parser: argparse.ArgumentParser) -> None:
    """All of ``run``."""
    parser.add_argument("policy", type=Path, help="a policy file, as `ncc export` writes")
    parser.add_argument(
        "--interface", action="append", metavar="NAME", help="of this host; of each, if it is several hosts"
    )
    parser.add_argument(
        "--address",
        action="append",
        metavar="IPV4",
        help="of connections to be limited (all the interface has), in turn",
    )
    parser.add_argument(
        "--elsewhere", action="store_true", help="addresses may be other network namespaces', as containers have"
    )
    parser.add_argument(
        "--outside-training", action="store_true", help="start on a network unlike those that the policy was trained on"
    )
    peers = parser.add_argument_group("the neighbourhood")
    peers.add_argument(
        "--peers", metavar="LIST", default="", help="the other agents, with commas: ADDRESS[:PORT][*HOSTS]"
    )
    peers.add_argument("--discover", type=int, default=0, metavar="N", help="instead: so many hosts, on the link")
    peers.add_argument(
        "--group", metavar="ADDRESS:PORT", help="multicast: one message serves all peers; --discover has one"
    )
    peers.add_argument("--key", type=Path, metavar="FILE", help="that all share; needed where there is anybody else")
    peers.add_argument("--port", type=int, default=PORT, help="UDP, for messages (%(default)s)")
    peers.add_argument("--upper", metavar="ADDRESS[:PORT]", help="who tells of the upper port, if anybody does")
    peers.add_argument(
        "--stale-periods", type=float, default=20.0, metavar="N", help="what was heard counts so long (%(default)s)"
    )
    network_options(parser, "that of the interface, where it knows it; --replay needs it")
    bound_options(parser)
    guard_options(parser)
    doing = parser.add_argument_group("what is done")
    doing.add_argument(
        "--default", action="store_true", help="have all new connections run by it, and ECN as it needs: two sysctls"
    )
    doing.add_argument("--name", metavar="NAME", help="that sockets ask for by TCP_CONGESTION (ncc_<controller>)")
    doing.add_argument("--dry-run", action="store_true", help="measure and decide; write no limit, weight or sysctl")
    doing.add_argument(
        "--replay", type=Path, metavar="EPOCHS", help="decide on a run's epochs.parquet in place of a host (`replay`)"
    )
    doing.add_argument("--heartbeat-s", type=float, default=0.1, help="silence that ends all limits (%(default)s)")
    doing.add_argument("--seconds", type=float, metavar="S", help="end after so long")
    doing.add_argument("--realtime", action="store_true", help="SCHED_FIFO, ahead of everything else")
    doing.add_argument("--core", type=int, metavar="N", help="stay on this core")
    doing.add_argument("--metrics", metavar="ADDRESS:PORT", help="for Prometheus; none: no such thing")
    doing.add_argument("--log-s", type=float, default=10.0, metavar="S", help="between two reports (%(default)s)")


def replay_options(parser: argparse.ArgumentParser) -> None:
    """All of ``replay``."""
    parser.add_argument("policy", type=Path, help="a policy file")
    parser.add_argument("epochs", type=Path, help="epochs.parquet of a run, or another table with its columns")
    parser.add_argument("--area", type=int, default=0, help="the neighbourhood of it (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where decisions go, as Parquet")
    network_options(parser, "needed: there is no interface to ask")
    bound_options(parser)


def upper_options(parser: argparse.ArgumentParser) -> None:
    """All of ``upper``."""
    parser.add_argument("interface", help="whose queue hosts share: the port of the switch towards what lies beyond")
    parser.add_argument("--listen", required=True, metavar="ADDRESS[:PORT]", help=f"of this machine (port {PORT})")
    parser.add_argument("--key", type=Path, required=True, metavar="FILE", help="that all share")
    parser.add_argument("--agents", default="", metavar="LIST", help="those who are told, with commas: ADDRESS[:PORT]")
    parser.add_argument("--group", metavar="ADDRESS:PORT", help="instead: the multicast group of --discover")
    parser.add_argument("--through", metavar="NAME", help="interface by which the group is reached")
    parser.add_argument("--period", type=float, default=1e-3, metavar="S", help="of the agents (%(default)s)")
    parser.add_argument("--seconds", type=float, metavar="S", help="end after so long")
    parser.add_argument("--log-s", type=float, default=10.0, metavar="S", help="between two reports (%(default)s)")


def unit_options(parser: argparse.ArgumentParser) -> None:
    """All of ``unit``."""
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="all that `run` is to be told: policy.ncc --interface NAME ...",
    )
