# SPDX-License-Identifier: BSD-3-Clause
"""Signals that are noted instead of obeyed at once, so that work ends where it leaves something whole."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted(*numbers: signal.Signals, then: Callable[[], None] | None = None) -> Iterator[threading.Event]:
    """The event inside is set when one of these signals comes; the second that comes raises KeyboardInterrupt.

    Args:
        numbers: such as SIGINT. Handlers that are there are put back at the end.
        then: called once, in the handler, after the event is set.
    """
    event = threading.Event()

    def note(_number: int, _frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()
        if then is not None:
            then()

    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupting(*numbers: signal.Signals) -> Iterator[None]:
    """These signals raise KeyboardInterrupt inside, as SIGINT does; one that is ignored, as by nohup, stays ignored."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in numbers}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
