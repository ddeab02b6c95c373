# SPDX-License-Identifier: BSD-3-Clause
"""Sweeps by one command: what is trained, kept, taken up again, named, ranked and refused."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.harness.manifest import is_sealed, read_manifest
from ncc.metrics.stats import interval
from ncc.run.compose import composed
from ncc.study.sweep.run import run_sweep
from ncc.study.sweep.spec import Sweep
from ncc.study.sweep.trial import processes_of
from tests.mains.commands import TINY, command, ncc, ncc_apart
from tests.support.processes import eventually

TRAIN = (
    "agent=a2c",
    "agent.epochs=4000",
    "agent.racks=4",
    "agent.checkpoint_epochs=1000",
    *TINY,
    "evaluation.datapaths=[packetsim]",
    "evaluation.controllers=[ncc]",
    "evaluation.bounds=false",
)
SWEEP = ("space.agent.learning_rate=[1e-4,1e-3]", "space.seed=[1,2]", f"train=[{','.join(TRAIN)}]", "out=found")
NAMES = [f"learning_rate-{rate}_seed-{seed}" for rate in ("0.0001", "0.001") for seed in (1, 2)]


def processes_with(variable: str) -> list[int]:
    """Processes that have it in their environment, Ray's too."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and variable.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def states(folder: Path) -> dict[str, str]:
    told = json.loads((folder / "sweep.json").read_text())
    return {trial["name"]: trial["state"] for setting in told["settings"] for trial in setting["trials"]}


@pytest.mark.rllib
def test_a_sweep_is_interrupted_goes_on_past_a_failure_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, found = tmp_path / "home", tmp_path / "found"
    home.mkdir()
    here: dict[str, Any] = {"cwd": tmp_path, "HOME": str(home)}

    # Ctrl-C while trials learn: they end by themselves, and nothing is left running.
    running = subprocess.Popen(
        command("sweep", *SWEEP), cwd=tmp_path, env={**os.environ, "HOME": str(home)}, stderr=subprocess.PIPE, text=True
    )
    assert eventually(lambda: any(log.stat().st_size for log in found.glob("trials/*/learning.jsonl")), 120)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    assert said.strip().splitlines()[-1] == "Interrupted. Trials are kept; the same command goes on from there."
    assert not processes_with(f"HOME={home}")
    assert not (found / ".tune").exists()
    assert not (found / "stop").exists()
    begun = [name for name in NAMES if (found / "trials" / name / "config.json").exists()]
    assert 1 <= len(begun) <= 2
    assert set(states(found).values()) <= {"unfinished", "finished"}
    assert list(found.glob("trials/*/checkpoints/[!.]*"))

    # The same command goes on; one trial cannot, and the others do not mind.
    (found / "trials" / NAMES[3]).mkdir()
    (found / "trials" / NAMES[3] / "mine.txt").touch()
    second = ncc_apart("sweep", *SWEEP, **here)
    assert second.returncode == 1, second.stderr
    last = second.stderr.strip().splitlines()[-1]
    assert last.startswith(f"error: 1 of 4 trials failed, see found/logs: {NAMES[3]} (status 2: error: out=")
    assert "is not empty" in last
    assert states(found) == {**dict.fromkeys(NAMES[:3], "finished"), NAMES[3]: "failed"}
    for name in begun:
        assert f"ncc train resume={found / 'trials' / name}" in (found / "logs" / f"{name}.log").read_text()
    assert all(is_sealed(found / "trials" / name) for name in NAMES[:3])

    told = json.loads((found / "sweep.json").read_text())
    means = [setting["mean"] for setting in told["settings"]]
    assert means == sorted(means, reverse=True)
    (whole,) = (each for each in told["settings"] if {trial["state"] for trial in each["trials"]} == {"finished"})
    returns = [
        read_manifest(tmp_path / trial["folder"], "training").facts["held_out_returns"]["packetsim"]["ncc"]
        for trial in whole["trials"]
    ]
    level = interval([np.mean(values) for values in returns])
    assert [whole["mean"], whole["low"], whole["high"]] == pytest.approx(
        [level.estimate, level.low, level.high], abs=1e-6
    )
    assert f"{level.estimate:+.4f}  [{level.low:+.4f}, {level.high:+.4f}]" in second.stdout
    assert not [path for path in home.rglob("*") if "ray" in str(path.relative_to(home))]
    assert not processes_of(str(found))

    # Only what failed is to be trained again, and another configuration in the same place is refused.
    waiting: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "ncc.study.sweep.run._run", lambda sweep, summary, trials: waiting.extend(trial.name for trial in trials)
    )
    space = {"agent.learning_rate": [1e-4, 1e-3], "seed": [1, 2]}
    plain = {**composed("sweep"), "out": "found", "train": list(TRAIN)}
    assert set(run_sweep(Sweep.from_plain(plain, space), "").outcomes) == set(NAMES[:3])
    assert waiting == NAMES[3:]
    with pytest.raises(ConfigError, match="holds a training with another agent"):
        run_sweep(Sweep.from_plain({**plain, "train": [*TRAIN, "agent.gamma=0.5"]}, space), "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("space.agent.gama=[0.5]",), "Unknown key of agent 'gama'"),
        (("space.agent=[a2x]",), "Did you mean 'a2c'?"),
        (("space.seed=[1]", "schedular=asha"), "Unknown key 'schedular'"),
    ],
)
def test_typos_are_refused_before_anything_is_started(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = ncc("sweep", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.rllib
def test_a_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = ncc_apart(
        "sweep", "space.seed=[1]", "address=127.0.0.1:1", cwd=tmp_path, RAY_gcs_rpc_server_connect_timeout_s="1"
    )
    assert done.returncode == 2
    assert "error: no Ray cluster answers at '127.0.0.1:1'" in done.stderr
