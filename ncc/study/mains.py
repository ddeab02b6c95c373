# SPDX-License-Identifier: BSD-3-Clause
"""Handling of Ctrl-C in commands that do many runs."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def resumable(what: str) -> Iterator[None]:
    """Give a Ctrl-C in the block a message: `what` are kept, and the same command continues from there."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {what} are kept; the same command goes on from there.") from None
