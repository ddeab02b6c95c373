# SPDX-License-Identifier: BSD-3-Clause
"""How a process that goes on until it is told to end is told to: by signals."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ncc.core.errors import DatapathError

ASKS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
INSISTS_S = 1.0
"""What comes sooner after the first is the same one again: from a terminal and from what began the process, say."""


class Ending:
    """Whether a signal has asked for the end.

    Attributes:
        asked: the name of the first signal that has; None: none.
    """

    def __init__(self) -> None:
        self.asked: str | None = None
        self._asked_s, self._may_raise = 0.0, False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Signals that ask for the end are noted, and end nothing by themselves."""
        before = {number: signal.signal(number, self._note) for number in ASKS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def insisted(self) -> Iterator[None]:
        """Another signal, `INSISTS_S` after the first, raises: the process waits for something, and brings no end.

        It does so once, and not in what is undone afterwards, which has to be undone whole.

        Raises:
            DatapathError: another signal came.
        """
        self._may_raise = True
        try:
            yield
        finally:
            self._may_raise = False

    def _note(self, number: int, _: object) -> None:
        name = signal.Signals(number).name
        if self.asked is None:
            self.asked, self._asked_s = name, time.monotonic()
        elif self._may_raise and time.monotonic() - self._asked_s > INSISTS_S:
            self._may_raise = False
            raise DatapathError(f"ended by {name}: after {self.asked} it had not ended by itself yet")
