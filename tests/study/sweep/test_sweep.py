# SPDX-License-Identifier: BSD-3-Clause
"""Sweeps: what is trained, kept, taken up again after a kill, ended early, named, ranked and refused."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, InvalidRunError, ResultError
from ncc.harness.atomic import exclusive
from ncc.harness.manifest import is_sealed, read_manifest
from ncc.harness.workers import processes_where
from ncc.run.compose import composed
from ncc.study.sweep import run
from ncc.study.sweep.run import require_no_failures, run_sweep
from ncc.study.sweep.space import written
from ncc.study.sweep.spec import Sweep
from tests.mains.commands import TINY, ncc
from tests.support.processes import eventually

JUDGED = (
    *("evaluation.datapaths=[packetsim]", "evaluation.controllers=[trained]", "evaluation.bounds=false"),
    "evaluation.seeds=1",
)
TRAIN = ("agent=a2c", "agent.racks=4", "agent.checkpoint_epochs=1000", *TINY, *JUDGED)
TRAINEE = """
import json, pathlib, runpy, sys, time

def main(words):
    out = pathlib.Path((words.get("out") or words["resume"]).strip("'"))
    if words.get("agent.epochs") == "400":
        return runpy.run_module("ncc.train", run_name="__main__", alter_sys=True)
    if "resume" in words:
        from ncc.harness.manifest import seal
        print(*sys.argv)
        facts = {"valid": True, "held_out_returns": {"packetsim": {"trained": [-9.0]}}}
        return seal(out, "training", facts, ["config.json"])
    if words.get("seed") == "3":
        sys.exit("on purpose")
    out.mkdir(parents=True)
    whole = out.parent / "0/config.json"
    if whole.exists():
        config = json.loads(whole.read_text())
        config["agent"]["epochs"] = int(words["agent.epochs"])
        (out / "config.json").write_text(json.dumps(config))
    (out / "learning.jsonl").write_text(json.dumps({"epochs": 2000, "returns": [-float(words["seed"])]}) + chr(10))
    time.sleep(3600)

if __name__ == "__main__":
    main(dict(word.split("=", 1) for word in sys.argv[1:]))
"""
"""A module in the place of ncc.train, which trains for 400 epochs only.

Others begin to learn, to a return of minus their seed, and end when they are resumed; seed 3 fails.
"""
SWEEP = """
import runpy
from ncc.study.sweep import run
run.TRAIN = "trainee"
runpy.run_module("ncc.sweep", run_name="__main__")
"""


@pytest.fixture
def trainee(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trainee.py").write_text(TRAINEE)
    monkeypatch.setattr(run, "TRAIN", "trainee")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_killed_sweep_goes_on_where_it_was_and_ranks_what_it_has(trainee: Path) -> None:
    found = trainee / "found"
    sweep = ("space.agent.epochs=[400,15000]", "space.seed=[1]", f"train=[{','.join(TRAIN)}]", "concurrent=1")
    running = subprocess.Popen([sys.executable, "-c", SWEEP, *sweep, "out=found"])
    log = found / "trials/1/learning.jsonl"
    assert eventually(lambda: (log.exists() and log.stat().st_size) or running.poll() is not None, 600)
    running.kill()
    running.wait()
    assert eventually(lambda: not processes_where(lambda described: str(found).encode() in described), 600)
    assert is_sealed(found / "trials/0")

    second = ncc("sweep", *sweep, "out=found", cwd=trainee)
    assert second.returncode == 0, second.stderr
    assert second.stdout.startswith("2 trials, 1 of them kept from before; results in found")
    assert f"trainee.py resume={written(str(found / 'trials/1'))}\n" in (found / "logs/1.log").read_text()
    facts = read_manifest(found / "trials/0", "training").facts
    value = np.mean(facts["held_out_returns"]["packetsim"]["trained"])
    assert value > -9
    rows = [line.split() for line in second.stdout.splitlines() if "1 complete" in line]
    assert rows == [
        ["400", f"{value:+.4f}", "1", "complete", "0"],
        ["15000", "-9.0000", "1", "complete", "1"],
    ]

    other = ncc("sweep", "space.seed=[1,2]", "out=found", cwd=trainee)
    assert other.returncode == 2
    assert "out=found holds a sweep with another space or train: choose another out=" in other.stderr


def asked(seeds: list[int], **changes: Any) -> Sweep:
    train = ["agent=a2c", "agent.epochs=8000", *TINY, *JUDGED]
    return Sweep.from_plain({**composed("sweep"), "out": "found", "train": train, **changes}, {"seed": seeds})


def test_a_pruner_ends_trials_and_one_that_fails_is_named_and_tried_again(
    trainee: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = asked([1, 2, 3], pruner={"name": "ThresholdPruner", "lower": 0})
    for tried in (3, 4):
        study = run_sweep(sweep)
        assert [trial.state.name for trial in study.trials] == ["PRUNED", "PRUNED", "FAIL", "FAIL"][:tried]
        with pytest.raises(InvalidRunError, match=r"1 of 3 trials failed, see found/logs: 2 \(status 1: on purpose\)"):
            require_no_failures(sweep, study)
        assert [trial.intermediate_values for trial in study.trials[:2]] == [{25: -1}, {25: -2}]
    assert "3 trials, 2 of them kept from before" in capsys.readouterr().out


def test_ctrl_c_ends_the_trainings_and_a_second_sweep_is_refused(trainee: Path) -> None:
    def interrupt() -> None:
        if eventually(lambda: list(trainee.glob("found/trials/*/learning.jsonl")), 120):
            os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        run_sweep(asked([1, 2]))
    interrupting.join()
    assert not processes_where(lambda described: str(trainee).encode() in described)
    with exclusive(trainee / "found", "sweep"), pytest.raises(ResultError, match="another sweep is writing to"):
        run_sweep(asked([1, 2]))
    with pytest.raises(ConfigError, match="holds a sweep with another space or train"):
        run_sweep(asked([1]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("space.agent.gama=[0.5]",), "Unknown key of agent 'gama'"),
        (("space.agent=[a2x]",), "Did you mean 'a2c'?"),
        (("space.seed=[1]", "prunner=NopPruner"), "Unknown key 'prunner'"),
    ],
)
def test_typos_are_refused_before_anything_is_started(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = ncc("sweep", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
