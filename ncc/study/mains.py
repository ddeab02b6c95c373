# SPDX-License-Identifier: BSD-3-Clause
"""Parts that the mains of studies share: Ctrl-C and exit statuses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from ncc.core.errors import ConfigError, NccError


@contextmanager
def resumable(what: str) -> Iterator[None]:
    """Say on Ctrl-C that `what` is kept, and that the same command goes on from there."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {what} are kept; the same command goes on from there.") from None


def exit_status(body: Callable[[Console], int]) -> int:
    """The exit status of a main without Hydra: what `body` returns, 2 for settings that cannot be used, or 1."""
    console = Console(soft_wrap=True)
    try:
        return body(console)
    except NccError as error:
        console.print(f"error: {error}", style="red", highlight=False, markup=False)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt as interrupt:
        console.print(str(interrupt) or "interrupted")
        return 130
