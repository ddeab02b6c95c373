# SPDX-License-Identifier: BSD-3-Clause
"""Progress by a trial's log, and a trial's process that ends with its parent."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ncc.run.learning import LEARNING, read_learning
from ncc.study.sweep.trial import MARK, end_all, processes_of, progress
from tests.support.processes import eventually

SLEEPER = """
import pathlib, time
pathlib.Path("began").touch()
try:
    time.sleep(3600)
except KeyboardInterrupt:
    pathlib.Path("interrupted").touch()
"""
PARENT = """
import os, signal, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
child = subprocess.Popen([sys.executable, "-m", "ncc.harness.guarded", str(os.getpid()), "sleeper"])
print(child.pid, flush=True)
child.wait()
"""


def row(epochs: int, *returns: float) -> str:
    return json.dumps({"epochs": epochs, "returns": returns}) + "\n"


def test_progress_is_that_of_the_last_row_once_there_are_returns(tmp_path: Path) -> None:
    log = tmp_path / LEARNING
    for rows, percent, value in (
        ("", 0, math.nan),
        (row(100), 0, math.nan),  # nothing to compare by yet
        (row(100) + row(200, 1.0, 2.0) + row(300, 3.0)[:-5], 20, 1.5),
        (row(100) + row(200, 1.0, 2.0) + row(300, 3.0), 30, 2.0),
    ):
        log.write_text(rows)
        report = progress(read_learning(tmp_path), 1000)
        assert report.percent == percent
        assert report.value == pytest.approx(value, nan_ok=True)


@pytest.fixture
def parent(tmp_path: Path) -> "subprocess.Popen[str]":
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    environment = {**os.environ, MARK: str(tmp_path)}
    command = [sys.executable, "-c", PARENT]
    return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("whom", ["parent", "child"])
def test_a_guarded_process_is_interrupted_itself_and_with_its_parent(
    tmp_path: Path, parent: "subprocess.Popen[str]", whom: str
) -> None:
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert eventually((tmp_path / "began").exists)
    assert set(processes_of(str(tmp_path))) == {parent.pid, child}
    assert set(processes_of(str(tmp_path.parent))) >= {parent.pid, child}
    assert not processes_of(str(tmp_path)[:-1])
    if whom == "parent":
        parent.kill()
    else:
        os.kill(child, signal.SIGINT)
    parent.wait()
    parent.stdout.close()
    assert eventually((tmp_path / "interrupted").exists)
    end_all(str(tmp_path), 60)
    assert not processes_of(str(tmp_path))


def test_what_does_not_end_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, MARK: str(tmp_path / "trial")}
    stubborn = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], env=environment)
    end_all(str(tmp_path), 0.1)
    assert stubborn.wait() == -signal.SIGKILL
