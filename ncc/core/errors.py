# SPDX-License-Identifier: BSD-3-Clause
"""Errors that a user can act on: each message names the thing, what is allowed, and what to do."""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Self, TypeVar

LISTED = 40
"""Largest number of known names in a message; a fat tree has thousands of ports."""
MEANT = 3
"""Minimum length of a name for which `hint` also looks inside longer names."""


def hint(given: str, known: Iterable[str]) -> str:
    """Make a question for a message, such as " Did you mean 'dctcp'?"; empty if no known name is close.

    Close names are, best first: the given name in another letter case, a name that differs by a typing error, a longer
    name with a word that begins like the given one (rllib_ppo for ppo), and a shorter name within the given one.
    """
    names = sorted(known)
    lower = {name.lower(): name for name in reversed(names)}
    given = given.lower()
    close = get_close_matches(given, lower, n=1, cutoff=0.6)
    begins = re.compile(rf"(?:^|[\W_]){re.escape(given)}").search
    within = sorted((name for name in lower if len(given) >= MEANT and begins(name)), key=len)
    around = sorted((name for name in lower if len(name) >= MEANT and name in given), key=len, reverse=True)
    found = [name for name in (given, *close, *within, *around) if name in lower]
    return f" Did you mean {lower[found[0]]!r}?" if found else ""


class NccError(Exception):
    """Base of every error that ncc raises on purpose; workers send them to their parent by pickle."""

    def within(self, where: str) -> Self:
        """Copy the error with `where` and a colon before its text; an empty `where` adds nothing."""
        return _rebuilt(type(self), f"{where}: {self}" if where else str(self), vars(self))

    def __reduce__(self) -> tuple[Callable[..., "NccError"], tuple[Any, ...]]:
        """Pickle the text and the attributes, because the constructor of a subclass may take other arguments."""
        return _rebuilt, (type(self), str(self), vars(self))

    def _render_traceback_(self) -> list[str]:
        """The text that Jupyter shows (IPython's protocol): the message without a traceback, as commands print it."""
        return [f"error: {self}"]


_AnyError = TypeVar("_AnyError", bound=NccError)


def _rebuilt(kind: type[_AnyError], text: str, state: dict[str, Any]) -> _AnyError:
    error = kind.__new__(kind, text)  # not __init__, which may take other arguments
    vars(error).update(state)
    return error


class ConfigError(NccError, ValueError):
    """A setting that cannot be used; the message names the field and what is allowed."""


class UnknownNameError(ConfigError):
    """A name that does not exist. The message suggests a close name if there is one, and lists up to `LISTED` names.

    Args:
        what: kind of the name, such as ``controller``.
        known: names that exist.
        more: a sentence for the end of the message.
    """

    def __init__(self, what: str, name: str, known: Iterable[str], more: str = "") -> None:
        names = sorted(known)
        listed = ", ".join(names[:LISTED]) or "(none)"
        rest = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        near = hint(name, names)
        super().__init__(
            f"Unknown {what} {name!r}{f'.{near} Known' if near else '; known'}: {listed}{rest}.{more and f' {more}'}"
        )


class DatapathError(NccError, RuntimeError):
    """A datapath was used out of order or failed while running."""


class WorkerDiedError(NccError, RuntimeError):
    """A worker process ended before its work did."""


class InvalidRunError(NccError, RuntimeError):
    """A run whose results must not be used (missing flows, a fallback, a crash)."""


class ResultError(NccError, RuntimeError):
    """A result or checkpoint on disk that cannot be read or does not fit."""
