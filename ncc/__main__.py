# SPDX-License-Identifier: BSD-3-Clause
"""The command ``ncc``: ``ncc <verb> ...`` is ``python -m ncc.<verb> ...``."""

import os
import runpy
import sys
from importlib.resources import files

from ncc.cli.verbs import GROUPS, VERBS, sentence, version_line
from ncc.core.errors import UnknownNameError


def main() -> int:
    """Run a verb and return its exit status, or 2 for an unknown verb."""
    verb, *rest = sys.argv[1:] or ["--help"]
    if verb in ("-h", "--help"):
        print(help_text())
    elif verb == "--version":
        print(version_line())
    elif verb in ("-sc", "--shell-completion"):
        complete([verb, *rest])
    elif verb in VERBS:
        sys.argv = [f"ncc {verb}", *rest]
        # It runs as the main module, so that processes that it starts find it as with python -m ncc.<verb>.
        runpy.run_module(f"ncc.{verb}", run_name="__main__", alter_sys=True)
    else:
        print(f"error: {UnknownNameError('verb', verb, VERBS)}", file=sys.stderr)
        return 2
    return 0


def complete(arguments: list[str]) -> None:
    """Let Hydra complete a command line of a verb, given in COMP_LINE; Hydra's programs have no verbs.

    Args:
        arguments: those of Hydra: ``-sc query=bash``, or ``-sc install=bash`` for the script that asks.
    """
    _, name, *words = [*os.environ.get("COMP_LINE", "ncc train").split(" "), ""]
    if name not in VERBS:
        print(*(verb for verb in VERBS if verb.startswith(name)))
    elif (files("ncc.configs") / f"{name}.yaml").is_file():
        line = " ".join(["ncc", *words[:-1]])
        os.environ |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
        sys.argv = ["ncc", *arguments]
        runpy.run_module(f"ncc.{name}", run_name="__main__", alter_sys=True)


def help_text() -> str:
    """Help text with a line for each verb, by group."""
    lines = ["usage: ncc <verb> ...          (ncc <verb> --help says more)"]
    for title, verbs in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {verb:10} {sentence(verb)}" for verb in verbs)]
    lines += ["", "ncc --version                     says which ncc this is"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
