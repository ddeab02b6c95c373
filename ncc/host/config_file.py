# SPDX-License-Identifier: BSD-3-Clause
"""The file of ``--config``: options of ``ncc host run`` as words, on any number of lines, with comments after #."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from ncc.core.errors import ConfigError
from ncc.core.options import Parser

FLAG = "--config"
COMMANDS = ("run", "check")
"""Commands that take this option."""


def expanded(arguments: Sequence[str]) -> list[str]:
    """Return arguments with the words of the file of `FLAG`, if it is given, after the command, which comes first.

    Raises:
        ConfigError: there are two files, or the file cannot be read, is no plain file, or has a quotation without an
            end or a zero byte.
    """
    if not arguments or arguments[0] not in COMMANDS:
        return list(arguments)
    finder = Parser(prog="ncc host run", add_help=False, allow_abbrev=False)
    finder.add_argument(FLAG, type=Path, action="append", default=[])
    found, rest = finder.parse_known_args(arguments)
    if not found.config:
        return rest
    if len(found.config) > 1:
        raise ConfigError(f"{FLAG} names one file, got {', '.join(map(str, found.config))}")
    (path,) = found.config
    if path.exists() and not path.is_file():  # a pipe may never end, and the next reload would wait for it
        raise ConfigError(f"{path}, the file of {FLAG}, is not a plain file; name one that holds options")
    try:
        if "\0" in (text := path.read_text()):
            raise ValueError("A zero byte")
        return [rest[0], *shlex.split(text, comments=True), *rest[1:]]
    except OSError as error:
        raise ConfigError(f"cannot read {path}, the file of {FLAG}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}, the file of {FLAG}, cannot be split into words as by a shell: {error}") from None
