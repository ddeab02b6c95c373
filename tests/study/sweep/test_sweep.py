# SPDX-License-Identifier: BSD-3-Clause
"""Sweeps by one command: what is trained, kept, taken up again, named, ranked and refused."""

import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.harness.manifest import is_sealed, read_manifest
from ncc.metrics.stats import interval
from ncc.run.compose import composed
from ncc.study.sweep.run import run_sweep
from ncc.study.sweep.spec import Sweep
from ncc.study.sweep.trial import processes_of
from tests.mains.commands import TINY, command, ncc
from tests.support.processes import eventually
from tests.support.ray import NoRay

LONG = 15_000
TRAIN = (
    "agent=a2c",
    "agent.racks=4",
    "agent.checkpoint_epochs=1000",
    *TINY,
    "evaluation.datapaths=[packetsim]",
    "evaluation.controllers=[trained]",
    "evaluation.bounds=false",
)
SPACE = {"agent.epochs": [400, LONG], "seed": [1, 2]}
SWEEP = (
    *(f"space.{key}={values}".replace(" ", "") for key, values in SPACE.items()),
    *(f"train=[{','.join(TRAIN)}]", "concurrent=1", "out=found"),
)
NAMES = [f"epochs-{epochs}_seed-{seed}" for epochs in (400, LONG) for seed in (1, 2)]


def states(folder: Path) -> dict[str, str]:
    told = json.loads((folder / "sweep.json").read_text())
    return {trial["name"]: trial["state"] for setting in told["settings"] for trial in setting["trials"]}


@pytest.mark.rllib
def test_a_sweep_is_interrupted_goes_on_past_a_failure_and_keeps_what_it_has(
    ray_here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, found = tmp_path / "home", tmp_path / "found"
    home.mkdir()
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)
    for seed in (1, 2):  # of the four trials, two are done
        done = ncc(
            "train", *TRAIN, "agent.epochs=400", f"seed={seed}", f"out=found/trials/{NAMES[seed - 1]}", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
    (found / "trials" / NAMES[3]).mkdir()  # and one cannot begin
    (found / "trials" / NAMES[3] / "mine.txt").touch()

    # Ctrl-C while one learns, in a cluster: it ends by itself, and nothing is left running.
    running = subprocess.Popen(
        command("sweep", *SWEEP, f"address={ray_here}"),
        cwd=tmp_path,
        env={**os.environ, "HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = found / "trials" / NAMES[2] / "learning.jsonl"
    assert eventually(lambda: (log.exists() and log.stat().st_size) or running.poll() is not None, 600)
    running.send_signal(signal.SIGINT)
    told, said = running.communicate()
    assert running.returncode == 130, said
    assert told.startswith("4 trials, 2 of them kept from before; results in found")
    assert said.strip().splitlines()[-1] == "Interrupted. Trials are kept; the same command goes on from there."
    assert eventually(lambda: not processes_of(str(found)), 60)
    assert not (found / ".tune").exists()
    assert not (found / "stop").exists()
    assert not [path for path in home.rglob("*") if "ray" in str(path.relative_to(home))]
    assert states(found) == dict(zip(NAMES, ["finished", "finished", "unfinished", "unfinished"], strict=True))
    assert not (found / "logs" / f"{NAMES[3]}.log").exists(), "one at a time"
    assert list((found / "trials" / NAMES[2] / "checkpoints").glob("[!.]*"))

    # The same command goes on; the trial that cannot begin stops no other.
    second = ncc("sweep", *SWEEP, cwd=tmp_path)
    assert second.returncode == 1, second.stderr
    last = second.stderr.strip().splitlines()[-1]
    assert last.startswith(f"error: 1 of 4 trials failed, see found/logs: {NAMES[3]} (status 2: error: out=")
    assert "is not empty" in last
    assert states(found) == {**dict.fromkeys(NAMES[:3], "finished"), NAMES[3]: "failed"}
    assert f"ncc train resume={found / 'trials' / NAMES[2]}" in (found / "logs" / f"{NAMES[2]}.log").read_text()
    assert all(is_sealed(found / "trials" / name) for name in NAMES[:3])

    told = json.loads((found / "sweep.json").read_text())
    means = [setting["mean"] for setting in told["settings"]]
    assert means == sorted(means, reverse=True)
    (whole,) = (each for each in told["settings"] if {trial["state"] for trial in each["trials"]} == {"finished"})
    returns = [
        read_manifest(tmp_path / trial["folder"], "training").facts["held_out_returns"]["packetsim"]["trained"]
        for trial in whole["trials"]
    ]
    level = interval([np.mean(values) for values in returns])
    assert [whole["mean"], whole["low"], whole["high"]] == pytest.approx(
        [level.estimate, level.low, level.high], abs=1e-6
    )
    assert f"{level.estimate:+.4f}  [{level.low:+.4f}, {level.high:+.4f}]" in second.stdout
    assert eventually(lambda: not processes_of(str(found)), 60)

    # Only what failed is to be trained again, and another configuration in the same place is refused.
    waiting: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "ncc.study.sweep.run._run", lambda sweep, summary, trials: waiting.extend(trial.name for trial in trials)
    )
    plain = {**composed("sweep"), "out": "found", "train": list(TRAIN)}
    assert set(run_sweep(Sweep.from_plain(plain, SPACE), "").outcomes) == set(NAMES[:3])
    assert waiting == NAMES[3:]
    with pytest.raises(ConfigError, match="holds a training with another agent"):
        run_sweep(Sweep.from_plain({**plain, "train": [*TRAIN, "agent.gamma=0.5"]}, SPACE), "")


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
def test_a_cluster_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="rllib: ray is not installed (the extra rllib)")
    from ncc.agents.rllib import cluster

    monkeypatch.setattr(cluster, "ray", NoRay())
    done = ncc("sweep", "space.seed=[1]", "address=127.0.0.1:1", cwd=tmp_path)
    assert done.returncode == 2
    assert "error: no Ray cluster answers at '127.0.0.1:1'" in done.stderr
