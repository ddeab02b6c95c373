# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host unit``: a unit by which systemd runs the agent, with no more rights than the agent uses."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

from ncc.core.errors import ConfigError
from ncc.core.options import Parser
from ncc.host.options import run_options

TEMPORARY = ("/tmp", "/var/tmp")
"""Folders of which the service has its own."""
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./\[\]*-]+", re.ASCII)
TEMPLATE = Path(__file__).with_name("ncc-host.service.in")


def command(options: argparse.Namespace) -> int:
    """Print the unit; always 0, errors as `unit_text`."""
    arguments = list(options.arguments)
    print(unit_text(arguments[1:] if arguments[:1] == ["--"] else arguments), end="")
    return 0


def unit_text(arguments: Sequence[str], python: str = sys.executable) -> str:
    """The text of a service that runs the agent with these options of ``run``, by this interpreter."""
    parser = Parser(prog="ncc host unit", allow_abbrev=False)
    run_options(parser)
    asked = parser.parse_args(list(arguments))
    if asked.seconds is not None:
        raise ConfigError("--seconds ends the agent by itself, and a service goes on: leave it out")
    policy = asked.policy.absolute()
    for path in (policy, *([] if asked.key is None else [asked.key.absolute()])):
        if any(one.is_relative_to(folder) for one in (path, path.resolve()) for folder in TEMPORARY):
            raise ConfigError(
                f"{path} is temporary, and the service would not see it: put it elsewhere, as in /etc/ncc"
            )
    # As isolated as Python can be: neither the environment nor the current folder adds a module.
    words = [python, "-I", "-m", "ncc.host", "run", *arguments]
    if strange := next((word for word in words if not word.isprintable()), None):
        raise ConfigError(f"a unit cannot hold the argument {strange!r}: leave out what cannot be printed")
    more = []
    if asked.default:
        more.append(f"ExecStopPost={_quoted(sys.executable)} -I -m ncc.host restore")
    else:
        more.append("ProtectKernelTunables=yes")
    if not asked.realtime:
        more.append("RestrictRealtime=yes")
    return Template(TEMPLATE.read_text()).substitute(
        dry_run="(dry run) " if asked.dry_run else "",
        policy=_specified(str(policy)),
        folder=_specified(str(Path.cwd())),
        command=" ".join(map(_quoted, words)),
        more="".join(f"{line}\n" for line in more),
        sysctls=" and set sysctls" if asked.default else "",
        realtime=" CAP_SYS_NICE" if asked.realtime else "",
    )


def _specified(text: str) -> str:
    """Text as systemd reads it: % begins a specifier."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """A word of a command line (systemd.service(5)), of which nothing is to be filled in."""
    if _PLAIN.fullmatch(word):
        return word
    escaped = _specified(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'
