# SPDX-License-Identifier: BSD-3-Clause
"""Progress for people and logs: a live bar on a terminal, else a plain line at intervals."""

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text


class Bar:
    """A progress display, used as a context manager with `update`. It writes to standard error.

    Args:
        title: name of the activity, one or two words.
        total: final value of `done`, > 0.
        unit: thing that is counted; empty: show percentages only.
        every_s: seconds between two lines when not on a terminal.
        console: output; standard error if None.
        clock: clock in monotonic seconds, for tests.
    """

    def __init__(
        self,
        title: str,
        total: float = 1.0,
        unit: str = "",
        *,
        every_s: float = 15.0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title, self._total, self._unit, self._every_s, self._clock = title, total, unit, every_s, clock
        self._console = console or _console()
        self._frac, self._text = 0.0, ""
        self._first: float | None = None
        self._started_s = self._printed_s = clock()
        self._live: Progress | None = None

    def __enter__(self) -> "Bar":
        self._started_s = self._printed_s = self._clock()
        if self._console.is_terminal:
            self._live = Progress(
                TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
                BarColumn(bar_width=20),
                _Times(self),
                TextColumn("{task.fields[text]}", markup=False, table_column=Column(no_wrap=True)),
                console=self._console,
            )
            self._live.add_task(self._title, total=1.0, text="")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        elif kind is None:
            self._say("done")
        else:
            self._say("stopped")

    def update(self, done: float, text: str = "") -> None:
        """Show the progress; `text` is shown after it (the latest return, the job that just ended)."""
        self._frac, self._text = min(max(done / self._total, 0.0), 1.0), text
        if self._first is None:
            self._first = self._frac  # a resumed run does not begin at 0, which its forecast must take into account
        if self._live is not None:
            self._live.update(self._live.task_ids[0], completed=self._frac, text=text)
        elif self._clock() - self._printed_s >= self._every_s:
            self._say("")

    def note(self, line: str) -> None:
        """Print a permanent line above the bar."""
        self._console.print(Text(line), soft_wrap=True)

    def times(self) -> str:
        """Share done, time so far, and a forecast of the rest once there is one."""
        elapsed = self._clock() - self._started_s
        count = f" of {self._total:,.0f} {self._unit}" if self._unit else ""
        text = f"{self._frac:4.0%}{count}  {_duration(elapsed)}"
        since = self._frac - (self._first or 0.0)
        if since >= 0.02 and self._frac < 1:
            text += f", about {_duration(elapsed * (1 - self._frac) / since)} to go"
        return text

    def _say(self, how: str) -> None:
        self._printed_s = self._clock()
        parts = (f"{self._title}: {self.times()}", self._text, how)
        self.note("  ".join(part for part in parts if part))


class _Times(ProgressColumn):
    def __init__(self, bar: Bar) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._bar = bar

    def render(self, task: Task) -> Text:
        return Text(self._bar.times())


def _console() -> Console:
    """Return a console on standard error, without a live bar in a notebook.

    A notebook's kernel claims to be a terminal, but shows each line separately.
    """
    usual = Console(stderr=True)
    return Console(stderr=True, force_jupyter=False, force_terminal=False) if usual.is_jupyter else usual


def _duration(seconds: float) -> str:
    """Format seconds as `1:05` or `2:03:04`."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
