# SPDX-License-Identifier: BSD-3-Clause
import os
import signal
import subprocess
import sys

import pytest

from ncc.core.errors import DatapathError
from ncc.harness.signals import StopRequest, interrupting, noted


def test_the_first_is_noted_and_the_second_ends() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with noted(signal.SIGINT, signal.SIGTERM) as event:
        assert not event.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert event.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_interrupts_unless_it_is_ignored() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    term = signal.getsignal(signal.SIGTERM)
    with interrupting(signal.SIGTERM, signal.SIGUSR1):
        signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert (signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGTERM)) == (signal.SIG_IGN, term)
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_that_insists_raises_once_and_not_in_what_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    before, stop, now_s = signal.getsignal(signal.SIGINT), StopRequest(lambda: None), 100.0
    monkeypatch.setattr("ncc.harness.signals.time.monotonic", lambda: now_s)
    with stop.noted():
        with stop.exits_on_second():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)  # at once: the same again
            now_s += 2
            with pytest.raises(DatapathError, match="ended by SIGINT: after SIGTERM it had not"):
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert stop.name == "SIGTERM"
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.attack("n51a")
def test_a_service_that_has_files_to_read_again_does_so_at_sighup_and_goes_on() -> None:
    read: list[int] = []
    stop = StopRequest(lambda: read.append(1))
    with stop.noted(), stop.exits_on_second():
        stop.read_again()
        signal.raise_signal(signal.SIGHUP)
        assert read == [], "not within the signal, but where the service can"
        stop.read_again()
        stop.read_again()
        assert (read, stop.name) == ([1], None)


@pytest.mark.attack("n13s")
def test_no_number_of_signals_to_read_again_ends_a_service() -> None:
    """A handler that reads files itself would be called within itself, once too often."""
    command = "import os, signal, sys\nfor _ in range(2000): os.kill(int(sys.argv[1]), signal.SIGHUP)\n"
    stop = StopRequest(lambda: None)
    with stop.noted():
        floods = [subprocess.Popen([sys.executable, "-c", command, str(os.getpid())]) for _ in range(2)]
        while any(flood.poll() is None for flood in floods):
            stop.read_again()
        assert [flood.returncode for flood in floods] == [0, 0]
    assert stop.name is None
