# SPDX-License-Identifier: BSD-3-Clause
"""Trainings by the command: on ns-3 to its end, and on packetsim with a Ray of its own until a signal."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="rllib: ray is not installed (the extra rllib)")

from ncc.harness.manifest import is_sealed
from ncc.run.folders import read_learning
from tests.mains.commands import TINY, command, ncc
from tests.support.processes import eventually
from tests.support.ray import left_behind, short_folder

pytestmark = pytest.mark.rllib
SMALL = (
    *("agent.env_runners=1", "agent.racks=1", "agent.rollout=20", "agent.minibatches=1", "agent.hidden=[8]"),
    *("agent.checkpoint_epochs=200", "evaluation.datapaths=[packetsim]", "evaluation.controllers=[ncc]"),
    "evaluation.bounds=false",
)


@pytest.mark.usefixtures("ray_here")
def test_a_run_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)
    arguments = ("agent=rllib_ppo", "datapath=ns3", "agent.epochs=100", *SMALL, *TINY, "out=run")
    done = ncc("train", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert is_sealed(tmp_path / "run")
    rows = read_learning(tmp_path / "run")
    assert rows[-1]["epochs"] >= 100
    told = {name for row in rows for name in row if name.startswith("network/")}
    assert told >= {"network/goodput_bps", "network/queue_delay_s", "network/limit_frac"}
    assert {"policy.ncc", "policy_untrained.ncc", "checkpoints"} <= {p.name for p in (tmp_path / "run").iterdir()}


def test_a_signal_says_how_to_go_on_and_ends_ray(tmp_path: Path) -> None:
    with short_folder() as short:
        places = {"HOME": str(short), "TMPDIR": str(short), "MPLCONFIGDIR": str(tmp_path / "mpl")}
        places["RAY_ADDRESS"] = "127.0.0.1:1"  # of a cluster that is not there, which a Ray of its own must not seek
        run = subprocess.Popen(
            command("train", "agent=rllib_ppo", "agent.epochs=1000000", *SMALL, *TINY, f"out={tmp_path / 'run'}"),
            cwd=tmp_path,
            env={**os.environ, **places},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert eventually(lambda: has_learnt(tmp_path / "run") or run.poll() is not None, 600)
        started = ray_processes(run.pid)
        assert started
        run.send_signal(signal.SIGTERM)  # Ctrl-C: tests/agents/rllib/test_training.py
        said, _ = run.communicate()
        assert run.returncode == 130, said
        assert said.strip().endswith(f"Interrupted. Continue with: ncc train resume={tmp_path / 'run'}")
        assert "Warning" not in said
        assert "Traceback" not in said
        # A worker that has renamed itself no longer names its session, and ends with raylet.
        assert eventually(lambda: not any(Path(f"/proc/{process}/exe").exists() for process in started), 600)
        assert left_behind(short) == []


def has_learnt(run: Path) -> bool:
    return any(row["epochs"] > 0 for row in read_learning(run))


def ray_processes(parent: int) -> list[int]:
    """Every process of Ray's that descends from that process."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                names[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])

    def descends(process: int) -> bool:
        while process > 1:
            process = parents.get(process, 0)
            if process == parent:
                return True
        return False

    return [process for process in parents if descends(process) and "ray" in names[process]]
