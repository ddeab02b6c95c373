# SPDX-License-Identifier: BSD-3-Clause
"""The whole way from the command: IMPALA on packetsim, PPO on ns-3; nothing stays behind."""

import importlib.util
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncc.harness.manifest import is_sealed
from ncc.learning import read_learning
from tests.agents.rllib.conftest import ray_processes
from tests.mains.commands import TINY, command

pytestmark = [
    pytest.mark.rllib,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="rllib: ray is not installed (ncc[rllib])"),
]
SMALL = (
    "agent.env_runners=2",
    "agent.racks=2",
    "agent.rollout=20",
    "agent.minibatch=160",
    "agent.checkpoint_epochs=200",
)


@pytest.fixture
def short() -> Iterator[Path]:
    """A temporary folder whose path is short enough for Ray's sockets, which pytest's is not."""
    with tempfile.TemporaryDirectory(prefix="n", dir="/tmp") as folder:
        yield Path(folder)


def start(short: Path, tmp_path: Path, *arguments: str) -> "subprocess.Popen[str]":
    """With a home and a temporary folder of its own."""
    (tmp_path / "home").mkdir()
    places = {"HOME": str(tmp_path / "home"), "TMPDIR": str(short), "MPLCONFIGDIR": str(tmp_path / "mpl")}
    places["RAY_ADDRESS"] = "127.0.0.1:1"  # of a cluster that is not there, which a Ray of the run's own must not seek
    return subprocess.Popen(
        command("train", *arguments, *SMALL, *TINY, f"out={tmp_path / 'run'}"),
        cwd=tmp_path,
        env={**os.environ, **places},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left_behind(short: Path, tmp_path: Path) -> list[str]:
    """Files in the home and the temporary folder."""
    return [str(path) for folder in (short, tmp_path / "home") for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "arguments",
    [
        ("agent=rllib_impala", "agent.epochs=600", "evaluation.datapaths=[packetsim]"),
        ("agent=rllib_ppo", "datapath=ns3", "agent.epochs=600", "evaluation.datapaths=[packetsim]"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_run_is_whole_and_leaves_nothing(short: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    run = start(short, tmp_path, *arguments)
    said, _ = run.communicate(timeout=200)
    assert run.returncode == 0, said
    assert is_sealed(tmp_path / "run")
    rows = read_learning(tmp_path / "run")
    assert rows[-1]["epochs"] >= 600
    told = {name for row in rows for name in row if name.startswith("network/")}
    assert told >= {"network/goodput_bps", "network/queue_delay_s", "network/limit_frac"}
    assert {"policy.npz", "policy_untrained.npz", "checkpoints"} <= {p.name for p in (tmp_path / "run").iterdir()}
    assert left_behind(short, tmp_path) == []
    assert "Warning" not in said
    assert "Traceback" not in said


def test_a_signal_says_how_to_go_on_and_ends_ray(short: Path, tmp_path: Path) -> None:
    run = start(short, tmp_path, "agent=rllib_ppo", "agent.epochs=1000000", "evaluation.datapaths=[packetsim]")
    deadline_s = time.monotonic() + 120
    while not any(row["epochs"] > 0 for row in read_learning(tmp_path / "run")):
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < deadline_s, "it never learnt anything"
        time.sleep(0.2)
    started = ray_processes(run.pid)
    assert started
    run.send_signal(signal.SIGTERM)  # Ctrl-C: tests/agents/rllib/test_training.py
    said, _ = run.communicate(timeout=100)
    assert run.returncode == 130, said
    assert said.strip().endswith(f"Interrupted. Continue with: ncc train resume={tmp_path / 'run'}")
    until_s = (
        time.monotonic() + 10
    )  # a worker that has renamed itself no longer tells its session, and goes with raylet
    while left := [process for process in started if Path(f"/proc/{process}/exe").exists()]:
        assert time.monotonic() < until_s, f"still there: {left}"
        time.sleep(0.1)
    assert left_behind(short, tmp_path) == []


def test_a_cluster_that_does_not_answer_is_named(short: Path, tmp_path: Path) -> None:
    run = start(short, tmp_path, "agent=rllib_ppo", "agent.address=127.0.0.1:1", "agent.epochs=600")
    said, _ = run.communicate(timeout=200)
    assert run.returncode == 2, said
    assert "agent.address: no Ray cluster answers at '127.0.0.1:1'" in said
