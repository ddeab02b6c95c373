# SPDX-License-Identifier: BSD-3-Clause
"""Options of the commands that do not use Hydra, and their exit status."""

import argparse
import codecs
import io
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NoReturn

import msgspec

from ncc.core.errors import ConfigError, NccError, UnknownNameError


class Parser(argparse.ArgumentParser):
    """A parser of options that raises `ConfigError` where argparse would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        if choice := re.match(r"argument ([\w-]+): invalid choice: '([^']*)' \(choose from (.*)\)", message):
            raise UnknownNameError(choice[1].lstrip("-"), choice[2], re.findall(r"\w+", choice[3]))
        if message.startswith("argument "):
            message = message.removeprefix("argument ").replace(":", "", 1)
        raise ConfigError(f"{message}; see {self.prog} --help")


def typed(kind: Any) -> Callable[[str], Any]:
    """Return a function, for `type=` of an option, that converts text to `kind` and checks the range of that type."""

    def parse(text: str) -> Any:
        try:
            value = msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError as error:
            expected = str(error).removeprefix("Expected ").partition(", got `")[0]
            raise argparse.ArgumentTypeError(f"must be {expected}, got {text}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"must be finite, got {text}")
        return value

    return parse


def folded(entries: Iterable[tuple[str, str]], *, width: int, column: int = 0, indent: int = 0) -> Iterator[str]:
    """Make the lines of a list of names with their texts, folded between words and never within a word.

    Args:
        width: width in columns; only a longer word exceeds it.
        column: width of the names' column; the text of a longer name begins in the next line. 0: the longest name's.
        indent: number of spaces before each line.
    """
    entries = list(entries)
    column = column or max((len(name) for name, _ in entries), default=0)
    margin = " " * (indent + column + 2)
    wrap = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)
    for name, text in entries:
        head = wrap(name, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2))
        lines = wrap(text, max(width - len(margin), 20))
        if lines and len(name) <= column:
            head = [head[0].ljust(len(margin)) + lines.pop(0)]
        yield from head
        yield from (margin + line for line in lines)


def list_width() -> int:
    """Width in columns of lists: the terminal's or COLUMNS; without either, as in a pipe, lines are not folded."""
    return shutil.get_terminal_size((10_000, 0)).columns


ASCII = {"\N{MINUS SIGN}": "-", "\N{PLUS-MINUS SIGN}": "+-", "\N{MULTIPLICATION SIGN}": "x", "\N{MICRO SIGN}": "u"}
"""Signs in the output of ncc that are not ASCII, and replacements for outputs whose encoding lacks them."""


def print_anywhere() -> None:
    """Allow output to terminals and pipes of any encoding: missing signs are written as in `ASCII`, or as ?."""
    codecs.register_error("ncc.ascii", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="ncc.ascii")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def let_reader_leave() -> None:
    """Discard further output: the reader of stdout has closed it (`| head`), which is no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_status(body: Callable[[], int]) -> int:
    """Run `body` and return the exit status of the command.

    The status is the result of `body`; 2 for a `ConfigError` and 1 for any other `NccError`, which are printed; 130
    after an interrupt; and 0 if the reader of stdout has closed it.
    """
    print_anywhere()
    try:
        status = body()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        let_reader_leave()
        return 0
    except NccError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt as interrupt:
        print(str(interrupt) or "interrupted", file=sys.stderr)
        return 130
