# SPDX-License-Identifier: BSD-3-Clause
"""Handling of Unix signals: a signal is noted and obeyed later, so that work ends in a consistent state."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ncc.core.errors import DatapathError

Handler = Callable[[int], None]
ENDS = (signal.SIGTERM, signal.SIGINT)
"""Signals that ask a service to end. SIGHUP, which also comes when a terminal closes, does not."""
INSISTS_S = 1.0
"""Seconds in which a second signal counts as the same request: the terminal and the parent may both send one."""


@contextmanager
def _handled(numbers: tuple[signal.Signals, ...], handler: Handler) -> Iterator[None]:
    """Call `handler` with the number of each signal in the context; restore the former handlers at its end."""
    before = {number: signal.signal(number, lambda n, _frame: handler(n)) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextmanager
def noted(*numbers: signal.Signals) -> Iterator[threading.Event]:
    """Yield an event that the first of these signals sets; the second raises KeyboardInterrupt."""
    event = threading.Event()

    def note(_: int) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    with _handled(numbers, note):
        yield event


@contextmanager
def interrupting(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals raise KeyboardInterrupt in the context; one that is ignored, as by nohup, stays ignored."""

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with _handled(tuple(n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN), interrupt):
        yield


class StopRequest:
    """A request to end a service by one of the signals `ENDS`. The service first has to undo its changes.

    SIGHUP does not end a service; it asks it to read files again.

    Args:
        reread: reads files again.

    Attributes:
        name: name of the first signal that asked for the end; None: no such signal has come.
    """

    def __init__(self, reread: Callable[[], None]) -> None:
        self.name: str | None = None
        self._reread, self._rereads = reread, False
        self._asked_s, self._may_raise = 0.0, False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the signals that come in the context; they do not end the process."""
        with _handled((*ENDS, signal.SIGHUP), self._note):
            yield

    def read_again(self) -> None:
        """Read files again if a signal has asked for it since the last call."""
        if self._rereads:
            self._rereads = False
            self._reread()

    @contextmanager
    def exits_on_second(self) -> Iterator[None]:
        """Let a second signal interrupt the block of this context, in case the process hangs.

        The signal must come more than `INSISTS_S` after the first. After the block no signal interrupts, because all
        changes must then be undone completely.

        Raises:
            DatapathError: a second signal came; it is raised only once.
        """
        self._may_raise = True
        try:
            yield
        finally:
            self._may_raise = False

    def _note(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._rereads = True
            return
        name = signal.Signals(number).name
        if self.name is None:
            self.name, self._asked_s = name, time.monotonic()
        elif self._may_raise and time.monotonic() - self._asked_s > INSISTS_S:
            self._may_raise = False
            raise DatapathError(f"ended by {name}: after {self.name} it had not ended by itself yet")
