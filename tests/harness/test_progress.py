# SPDX-License-Identifier: BSD-3-Clause
import io

import pytest
from rich.console import Console

from ncc.harness.pool import Job, Tally
from ncc.harness.progress import Bar
from tests.support.experiments import controller, small_rack


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_log_gets_a_line_now_and_then() -> None:
    clock, out = Clock(), io.StringIO()
    with Bar("Training", 200, "epochs", every_s=10, console=Console(file=out, width=40), clock=clock) as bar:
        for done in range(0, 200, 10):
            clock.now_s += 3
            bar.update(done, f"return {done}")
        bar.note("[untouched]")
        bar.update(200, "return 200")
    assert out.getvalue().splitlines() == [
        "Training:  15% of 200 epochs  0:12, about 1:08 to go  return 30",
        "Training:  35% of 200 epochs  0:24, about 0:45 to go  return 70",
        "Training:  55% of 200 epochs  0:36, about 0:29 to go  return 110",
        "Training:  75% of 200 epochs  0:48, about 0:16 to go  return 150",
        "Training:  95% of 200 epochs  1:00, about 0:03 to go  return 190",
        "[untouched]",
        "Training: 100% of 200 epochs  1:00  return 200  done",
    ]


def test_an_interrupted_task_is_not_called_done() -> None:
    out = io.StringIO()

    def interrupted() -> None:
        with Bar("Training", console=Console(file=out), clock=Clock()) as bar:
            bar.update(0.5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "stopped" in out.getvalue()
    assert "done" not in out.getvalue()


def test_a_terminal_gets_a_bar() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with Bar("Evaluating", 4, console=console) as bar:
        bar.update(1, "1 of 4 runs")
        bar.note("kept")
        bar.update(4, "[4] of 4 runs")
    text = out.getvalue()
    assert "kept" in text
    assert "100%" in text
    assert "[4] of 4 runs" in text


def test_jobs_that_end_become_text() -> None:
    clock, out = Clock(), io.StringIO()
    job = Job(small_rack(), controller("c"), 1)
    with Bar("Evaluating", every_s=0, console=Console(file=out, width=200), clock=clock) as bar:
        tally = Tally(2, bar.update, kept=1)
        tally.running(job, 0.5)
        tally.finished(job)
    assert " 50%" in out.getvalue()
    assert " 75%" in out.getvalue()
    assert "1 of 2 runs (1 kept from before)" in out.getvalue()
    assert "2 of 2 runs (1 kept from before)" in out.getvalue()


def test_a_notebook_gets_plain_lines_though_its_kernel_asks_for_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    error = io.StringIO()
    monkeypatch.setattr("sys.stderr", error)
    with Bar("training", 10, "epochs") as bar:
        bar.update(10)
    assert error.getvalue() == "training: 100% of 10 epochs  0:00  done\n"
