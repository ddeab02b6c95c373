# SPDX-License-Identifier: BSD-3-Clause
"""Trainings by the command, with a Ray of their own of which nothing stays behind: PPO on ns-3, IMPALA on packetsim."""

import importlib.util
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncc.harness.manifest import is_sealed
from ncc.run.learning import read_learning
from tests.agents.rllib.conftest import ray_processes
from tests.mains.commands import TINY, command
from tests.support.processes import eventually

pytestmark = [
    pytest.mark.rllib,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="rllib: ray is not installed (ncc[rllib])"),
]
SMALL = (
    *("agent.env_runners=1", "agent.racks=1", "agent.rollout=20", "agent.minibatch=80", "agent.hidden=[8]"),
    *("agent.checkpoint_epochs=200", "evaluation.datapaths=[packetsim]", "evaluation.controllers=[ncc]"),
    "evaluation.bounds=false",
)


@pytest.fixture
def short() -> Iterator[Path]:
    """A temporary folder whose path is short enough for Ray's sockets, which pytest's is not."""
    with tempfile.TemporaryDirectory(prefix="n", dir="/tmp") as folder:
        yield Path(folder)


def start(short: Path, tmp_path: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a training with a home and a temporary folder of its own."""
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
    """Files in the home and the temporary folder, and folders of results of RLlib's."""
    found = [path for folder in (short, tmp_path / "home") for path in folder.rglob("*")]
    return [str(path) for path in found if path.is_file() or path.parent.name == "ray_results"]


def test_a_run_is_whole_and_leaves_nothing(short: Path, tmp_path: Path) -> None:
    run = start(short, tmp_path, "agent=rllib_ppo", "datapath=ns3", "agent.epochs=200")
    said, _ = run.communicate(timeout=200)
    assert run.returncode == 0, said
    assert is_sealed(tmp_path / "run")
    rows = read_learning(tmp_path / "run")
    assert rows[-1]["epochs"] >= 200
    told = {name for row in rows for name in row if name.startswith("network/")}
    assert told >= {"network/goodput_bps", "network/queue_delay_s", "network/limit_frac"}
    assert {"policy.npz", "policy_untrained.npz", "checkpoints"} <= {p.name for p in (tmp_path / "run").iterdir()}
    assert left_behind(short, tmp_path) == []
    assert "Warning" not in said
    assert "Traceback" not in said


def test_a_signal_says_how_to_go_on_and_ends_ray(short: Path, tmp_path: Path) -> None:
    run = start(short, tmp_path, "agent=rllib_impala", "agent.epochs=1000000")
    learnt = eventually(lambda: any(row["epochs"] > 0 for row in read_learning(tmp_path / "run")), 120)
    assert learnt, run.communicate()[0]
    started = ray_processes(run.pid)
    assert started
    run.send_signal(signal.SIGTERM)  # Ctrl-C: tests/agents/rllib/test_training.py
    said, _ = run.communicate(timeout=100)
    assert run.returncode == 130, said
    assert said.strip().endswith(f"Interrupted. Continue with: ncc train resume={tmp_path / 'run'}")
    # A worker that has renamed itself no longer names its session, and ends with raylet.
    assert eventually(lambda: not any(Path(f"/proc/{process}/exe").exists() for process in started))
    assert left_behind(short, tmp_path) == []
