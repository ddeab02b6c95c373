# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C in the mains of studies."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def resumable(what: str) -> Iterator[None]:
    """Say on Ctrl-C that `what` is kept, and that the same command goes on from there."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {what} are kept; the same command goes on from there.") from None
