# SPDX-License-Identifier: BSD-3-Clause
"""Run the agent of a host, or see what the host can do.

``run`` is the agent of a host: it measures its connections, exchanges states with its neighbours, decides by a policy
file, and limits its connections accordingly (docs/host).

``uplink`` runs on the machine with the uplink and sends the uplink's state to the hosts. ``unit`` prints a systemd unit
for the agent.

``status`` shows what limits this host now, by whose decision, and what was changed. ``explain`` says why the limit is
what it is. The exit status of both is 0 if all is well, 1 if the host is limited by less than policy and neighbours,
and 2 if no agent limits it.

``restore`` puts back the settings that a killed agent left in this network namespace. Its exit status is 3 if an
agent is alive there.

``check`` prints which requirements of the Linux datapath this machine meets. With options of ``run`` it says what a
start would refuse. Its exit status is 0 if a run is possible, else 1.

``sweep`` removes what killed runs left behind.
"""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ncc.core.options import Parser, exit_status
from ncc.host.config_file import expanded

COMMANDS = {
    "run": ("run:command", "plan:add_options", "decide for this host by a policy file"),
    "uplink": ("uplink:command", "uplink:add_options", "send hosts the state of the port that they share"),
    "status": ("status:status", "status:add_options", "what limits this host, who decides, what was changed"),
    "explain": ("status:explain", "", "why this limit now"),
    "unit": ("check:unit", "", "print a unit by which systemd runs the agent"),
    "restore": ("restore:command", "", "put back the settings that a killed agent left"),
    "check": ("check:check", "check:add_options", "what this machine can do, or what a start would refuse"),
    "sweep": ("check:sweep", "", "remove what killed runs left behind"),
}
"""For each command: its function, the function that adds its options (empty: it has none), and its help."""

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that, set to 1, keep numpy's libraries from starting threads.

Such threads would keep the capabilities that an agent gives up.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all `COMMANDS`."""
    top = Parser(prog="ncc host", description=(__doc__ or "").split("\n")[0])
    commands = top.add_subparsers(required=True, metavar="command", dest="command")
    for name, (_, add_options, help_) in COMMANDS.items():
        added = commands.add_parser(name, help=help_)
        if add_options:
            _function(add_options)(added)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 if it succeeded, 1 if not, 2 for invalid options or files, 130 after an interrupt."""
    open_standard_streams()
    try:
        return exit_status(lambda: _command(sys.argv[1:] if arguments is None else arguments))
    except OSError as error:
        limited = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
        hint = "; see what this process may have (ulimit -a)" if limited else ""
        print(f"error: the system refuses: {error}{hint}", file=sys.stderr)
        return 1


def _command(arguments: Sequence[str]) -> int:
    options = parser().parse_args(expanded(arguments))
    options.given = tuple(arguments[1:])
    status: int = _function(COMMANDS[options.command][0])(options)
    return status


def _function(name: str) -> Callable[..., Any]:
    """Return ``module:function`` of this package. Its module is loaded only now, because others may not need it."""
    module, function = name.split(":")
    found: Callable[..., Any] = getattr(import_module(f"ncc.host.{module}"), function)
    return found


def open_standard_streams() -> None:
    """Open standard streams that are closed on /dev/null, so that no other file of this process gets their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free number: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # as Python leaves it if the descriptor is closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123


if __name__ == "__main__":
    os.environ |= dict.fromkeys(ONE_THREAD, "1")  # before numpy is loaded
    raise SystemExit(main())
