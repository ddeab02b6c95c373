# SPDX-License-Identifier: BSD-3-Clause
"""Run, replay or inspect the agent of a host of real traffic.

``run`` is the agent of a host: it measures its connections, hears its neighbours, decides by a policy file, and holds
its connections to that (docs/host). ``replay`` decides on what was recorded; it takes neither root nor Linux' BPF.

``upper`` tells hosts of the port that they share, on the machine that has it. ``unit`` prints a unit by which systemd
runs the agent: ``unit policy.ncc --interface NAME ...``, as ``run`` is called.

``restore`` puts back the settings of this network namespace that an agent left which was killed.

``check`` prints what the machine can do of the Linux datapath and what is missing; its exit status is 0 if a run is
possible and 1 if not. With ``--callbacks`` it also sends traffic through network namespaces of its own, for some
seconds, and counts how often the kernel takes something else for what a program returns.

``cost`` measures what our controllers take per ACK in the kernel, beside the kernel's own CUBIC.

``sweep`` removes what runs left behind whose process was killed, with the flows that were to outlive it.

``report`` measures all that the Linux datapath has to show and writes docs/linux; it takes twenty minutes, a quiet
machine and a checkout. With ``--quick`` it takes some minutes and writes runs/host/quick. ``latency`` measures the
agent, and writes docs/host.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ncc.core.errors import ConfigError, NccError
from ncc.host.streams import open_standard

Command = Callable[[argparse.Namespace], int]
"""What loads a command and does it: most of them need far more than the agent of a host may load."""


def _run(options: argparse.Namespace) -> int:
    if options.replay is not None:
        from ncc.host.options import of_a_host

        if (meant := of_a_host(options)) is not None:
            raise ConfigError(f"--replay decides for the hosts of a recording: leave out {meant}")
        return _replay(argparse.Namespace(**{**vars(options), "epochs": options.replay, "area": 0, "out": None}))
    from ncc.host.run import run

    return run(options)


def _restore(options: argparse.Namespace) -> int:  # noqa: ARG001 - as the others
    from ncc.host.settings import restore

    restored = restore()
    said = [f"{name} is {value} again" for name, value in restored.items()]
    print(*(said or ["No agent left anything changed in this network namespace."]), sep="\n")
    return 0


def _replay(options: argparse.Namespace) -> int:
    from ncc.host.replay import replay

    return replay(options)


def _upper(options: argparse.Namespace) -> int:
    from ncc.host.upper import upper

    return upper(options)


def _unit(options: argparse.Namespace) -> int:
    from ncc.host.systemd import unit

    return unit(options)


def _check(options: argparse.Namespace) -> int:
    from rich.console import Console

    from ncc.host.inspecting import check

    return check(Console(), options.callbacks)


def _cost(options: argparse.Namespace) -> int:
    from rich.console import Console

    from ncc.host.inspecting import cost

    return cost(Console(), options.seconds, options.controllers)


def _sweep(options: argparse.Namespace) -> int:  # noqa: ARG001 - as the others
    from rich.console import Console

    from ncc.host.inspecting import sweep

    return sweep(Console())


def _report(options: argparse.Namespace) -> int:
    from rich.console import Console

    from ncc.host.report import report

    return report(Console(), options.out, options.parts, quick=options.quick)


def _latency(options: argparse.Namespace) -> int:
    from rich.console import Console

    from ncc.host.latency import latency

    return latency(Console(), options.out, quick=options.quick)


def parser() -> argparse.ArgumentParser:
    """Parser of all `commands`; a chosen one has `command` to be called with the options."""
    from ncc.host.options import replay_options, run_options, unit_options, upper_options

    found = argparse.ArgumentParser(prog="ncc host", description=(__doc__ or "").split("\n")[0])
    commands = found.add_subparsers(required=True, metavar="command")

    def add(name: str, command: Command, help_: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help_)
        added.set_defaults(command=command)
        return added

    run_options(add("run", _run, "decide for this host by a policy file"))
    replay_options(add("replay", _replay, "decide on what was recorded, and compare"))
    upper_options(add("upper", _upper, "tell hosts of the port that they share"))
    unit_options(add("unit", _unit, "print a unit by which systemd runs the agent"))
    add("restore", _restore, "put back the settings that a killed agent left")
    checking = add("check", _check, "what this machine can do of the Linux datapath")
    checking.add_argument(
        "--callbacks",
        nargs="?",
        type=float,
        const=10.0,
        default=0.0,
        metavar="SECONDS",
        help="also count callbacks that the kernel skips, for so long (10)",
    )
    costing = add("cost", _cost, "what an ACK costs in the kernel, ours beside the kernel's own CUBIC")
    costing.add_argument("controllers", nargs="*", metavar="controller", help="of ours; all if none is named")
    costing.add_argument("--seconds", type=float, default=3.0, help="of traffic for each (3)")
    add("sweep", _sweep, "remove what runs left behind whose process was killed")
    reporting = add("report", _report, "measure everything, and write docs/linux")
    reporting.add_argument("--quick", action="store_true", help="less of everything, for a look")
    reporting.add_argument("--out", type=Path, help="where it goes: docs/linux, or runs/host/quick")
    reporting.add_argument("--parts", nargs="*", metavar="part", help="of it; all if this is not given, none: the page")
    timing = add("latency", _latency, "measure how long the agent's periods take, and write docs/host")
    timing.add_argument("--quick", action="store_true", help="seconds of traffic in all, for a look")
    timing.add_argument("--out", type=Path, help="where it goes: docs/host, or runs/host/latency_quick")
    found.set_defaults(commands=tuple(commands.choices))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it succeeded, 1 if not, 2 for what cannot be asked."""
    open_standard()
    try:
        options = parser().parse_args(arguments)
        return int(options.command(options))
    except NccError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except OSError as error:
        print(f"error: the system refuses: {error}; see what this process may have (ulimit -a)", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
