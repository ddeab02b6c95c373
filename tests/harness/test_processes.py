# SPDX-License-Identifier: BSD-3-Clause
import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection
from threading import get_ident

import pytest

from ncc.harness import workers
from ncc.harness.workers import await_end, end, quiet_start


def report_and_stay(pipe: Connection) -> None:
    """Say how this process was started, then ignore every polite request to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())
    pipe.send((blocked, os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]))
    time.sleep(600)


def test_an_interrupt_during_a_start_is_raised_after_it_and_nothing_stays_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    seen: list[tuple[str, str]] = []

    def interrupted_start() -> None:
        with quiet_start():
            # To this thread: the process as a whole may have others (a BLAS), which would take the signal at once.
            signal.pthread_kill(get_ident(), signal.SIGINT)
            seen.append((os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]))

    with pytest.raises(KeyboardInterrupt):
        interrupted_start()
    assert seen == [("3", "1")]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == mask
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ


def test_no_process_outlives_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "TERMINATE_S", 0.2)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=report_and_stay, args=(there,))
    with quiet_start():
        process.start()
    assert here.recv() == (True, "3", "1")
    end([process], grace_s=0.1)
    assert active_children() == []
    end([])


def test_what_does_not_end_is_killed() -> None:
    environment = {**os.environ, "NCC_TEST_MARK": str(os.getpid())}
    stubborn = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], env=environment)
    await_end(lambda described: f"NCC_TEST_MARK={os.getpid()}\0".encode() in described, 0.1)
    assert stubborn.wait() == -signal.SIGKILL
