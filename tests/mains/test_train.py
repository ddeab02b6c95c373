# SPDX-License-Identifier: BSD-3-Clause
"""`ncc train` and `ncc.evaluate` from end to end, on a rack small enough for a test."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ncc.agents.policy import load_policy
from ncc.core.errors import ResultError
from ncc.harness.atomic import exclusive
from ncc.harness.manifest import read_manifest
from ncc.harness.results import load_evaluation
from ncc.results.evaluation import held_out_figure
from ncc.results.report.figures import curve_figure
from ncc.results.report.sources import read_source
from ncc.results.training import train
from ncc.run.folders import read_learning
from ncc.run.plan import TrainPlan
from tests.mains.commands import SYNC, TINY, ncc
from tests.support.processes import eventually

pytest.importorskip("torch", reason="training needs the torch extra")

FEW = ("evaluation.datapaths=[packetsim]", "evaluation.controllers=[ncc]", "evaluation.seeds=1")
"""As little judging as there can be."""


def test_a_training_prints_a_screen_with_its_verdict(training: tuple[Path, str]) -> None:
    run, out = training
    assert "Training a2c on rack (4 hosts, packetsim)" in out
    lines = out.splitlines()
    assert len(lines) <= 35, "a screen"
    said = "trained policy against DCTCP: nothing can be concluded from 2 seeds; take at least 5."
    assert lines[-2] == said
    assert said in lines[:-2]
    assert lines[-1].startswith("Picture: run/evaluation/ns3/")
    assert (run.parent / lines[-1].removeprefix("Picture: ")).stat().st_size > 1000


def test_the_run_folder_holds_what_the_readme_promises(trained: Path) -> None:
    manifest = read_manifest(trained, "training")
    assert {"config.json", "learning.jsonl", "policy.ncc", "policy_untrained.ncc", "learning_curve.png"} <= set(
        manifest.files
    )
    assert any(name.startswith("checkpoints/") for name in manifest.files)
    assert any(name.startswith("tensorboard/events") for name in manifest.files)
    assert set(manifest.facts["held_out_returns"]) == set(judged_on(trained)) == {"packetsim", "ns3"}
    for datapath in judged_on(trained):
        evaluation = load_evaluation(trained / "evaluation" / datapath)
        assert evaluation.controllers == ("trained", "ncc_untrained", "fixed_share", "dctcp")
        assert {run.seed for run in evaluation.runs} == {0, 1}
        assert (trained / "evaluation" / datapath / "slowdown_cdf.png").stat().st_size > 100
    for name in ("comparison.md", "comparison.json"):
        assert (trained / "evaluation" / name).stat().st_size > 100


def judged_on(run: Path) -> tuple[str, ...]:
    """By default `evaluation.datapaths` of configs/train.yaml."""
    return tuple(json.loads((run / "evaluation" / "comparison.json").read_text())["datapaths"])


def test_what_is_finished_is_not_trained_again(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (trained / "config.json").stat().st_mtime_ns, (trained / "learning.jsonl").read_bytes()
    train(TrainPlan.load(trained), trained, resume=True)
    assert "is finished; evaluate it with" in capsys.readouterr().out
    assert before == ((trained / "config.json").stat().st_mtime_ns, (trained / "learning.jsonl").read_bytes())


def test_nothing_is_left_beside_the_run_folder(trained: Path) -> None:
    assert [p.name for p in trained.parent.iterdir()] == ["run"]


PAUSES = """
from ncc.results import training
training.learn = lambda *_, **__: signal.pause()
"""
"""A training that stays at the start of its learning."""
DIES = """
from ncc.agents.checkpoints import Checkpoints
add = Checkpoints.add
def add_and_die(*given):
    if "40" in add(*given).stem:
        os.kill(os.getpid(), signal.SIGKILL)
Checkpoints.add = add_and_die
"""
"""A training that is killed as soon as it has learnt from 40 epochs."""


def begun(how: str, cwd: Path) -> "subprocess.Popen[str]":
    """A tiny training in a process of its own."""
    code = f"import os, runpy, signal\n{how}\nrunpy.run_module('ncc.train', run_name='__main__')"
    line = [sys.executable, "-c", code, *TINY, *SYNC, *FEW, "out=run"]
    return subprocess.Popen(line, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_equal_seeds_give_equal_weights_and_a_resumed_run_an_uninterrupted_ones(trained: Path, tmp_path: Path) -> None:
    with begun(DIES, tmp_path) as process:
        _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said
    run = tmp_path / "run"
    with pytest.raises(ResultError, match="manifest"):
        read_manifest(run, "training")
    with exclusive(run, "training"), pytest.raises(ResultError, match=r"another training is writing to .*/run; wait"):
        train(TrainPlan.load(run), run, resume=True)
    resumed = ncc("train", "resume=run", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    one, other = (load_policy(folder / "policy.ncc")[0] for folder in (trained, run))
    assert load_policy(run / "policy.ncc")[1]["origin"]["provenance"] == {}, "finished runs know the file of before"
    obs = np.random.default_rng(0).standard_normal((50, 4, one.obs_dim)).astype(np.float32)
    assert np.array_equal(one.logits(obs), other.logits(obs))
    rows = [read_learning(folder) for folder in (trained, run)]
    returns = [[value for row in log for value in row["returns"]] for log in rows]
    assert returns[0] == returns[1], "every episode is in the log once"
    assert rows[0][-1]["epochs"] == rows[1][-1]["epochs"] == 120


def test_a_run_interrupted_before_it_learns_can_be_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with begun(PAUSES, tmp_path) as process:
        assert eventually(lambda: process.poll() is not None or (run / "config.json").exists(), 120)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "ncc train resume=run" in said
    assert "Traceback" not in said
    assert not list(run.glob("checkpoints/*"))
    resumed = ncc("train", "resume=run", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert read_learning(run)[-1]["epochs"] == 120


def test_a_run_can_be_judged_elsewhere(trained: Path) -> None:
    arguments = ("run=run", "controller=[ncc,newreno]", "seeds=2", "duration_s=0.01", "first_seed=5")
    done = ncc("evaluate", *arguments, cwd=trained.parent)
    assert done.returncode == 0, done.stderr
    (folder,) = (trained / "evaluations").iterdir()
    for datapath in judged_on(trained):
        assert {(run.controller, run.seed) for run in load_evaluation(folder / datapath).runs} == {
            (name, seed) for name in ("ncc", "newreno") for seed in (5, 6)
        }


def test_a_run_that_was_changed_is_refused(trained: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(trained, copy)
    config = copy / "config.json"
    config.write_text(config.read_text().replace('"gamma": 0.95', '"gamma": 0.96'))
    done = ncc("evaluate", "run=run", "controller=ncc", "seeds=1", cwd=tmp_path)
    assert done.returncode == 1
    assert "config.json" in done.stderr


def test_runs_of_different_scenarios_are_not_mixed_up(trained: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(trained, other)
    config = json.loads((trained / "config.json").read_text())
    config["scenario"]["workload"]["websearch"]["load_frac"] = 0.7
    (other / "config.json").write_text(json.dumps(config))
    done = ncc("evaluate", f"run=[run,{other}]", "controller=ncc", cwd=trained.parent)
    assert done.returncode == 2
    assert "scenario=<name>" in done.stderr
    done = ncc("evaluate", "run=[run,run]", "controller=ncc", cwd=trained.parent)
    assert done.returncode == 2
    assert "twice" in done.stderr


def test_a_training_stands_in_a_table_under_the_name_of_its_folder(trained: Path, tmp_path: Path) -> None:
    tiny = [word for word in TINY if word.startswith("scenario.")]
    few = ("seeds=1", "datapath=packetsim", "workers=1", "bounds=false", "out=o")
    done = ncc("evaluate", f"controller={trained},ncc", "scenario=rack", *tiny, *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"{trained.name} +NCC †\n", done.stdout)
    facts = [
        json.loads((tmp_path / f"o/packetsim/{name}/0/manifest.json").read_text())["facts"] for name in ("run", "ncc")
    ]
    assert facts[0]["inputs"]["policy"] != facts[1]["inputs"]["policy"]


def test_a_learning_curve_is_of_held_out_flows(trained: Path, tmp_path: Path) -> None:
    """Its last point is the trained policy's result, its weights are those of a training without a curve."""
    wanted = ("evaluation.datapaths=[packetsim]", "evaluation.controllers=[trained,dctcp]", "evaluation.curve_points=3")
    done = ncc("train", *TINY, *SYNC, *wanted, "out=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    fact = read_manifest(run, "training").facts["held_out_curve"]
    assert list(fact["fct_mean_s"]) == ["0", "60", "120"]
    assert fact["over"] == "dctcp"
    summaries = load_evaluation(run / "evaluation/packetsim").summaries()
    fcts = {name: [runs[seed]["fct_mean_s"] for seed in (0, 1)] for name, runs in summaries.items()}
    assert fact["fct_mean_s"]["120"] == fcts["trained"]
    assert fact["others"] == {"dctcp": fcts["dctcp"]}
    assert load_policy(run / "policy.ncc")[0].layers[0][0].tobytes() == (
        load_policy(trained / "policy.ncc")[0].layers[0][0].tobytes()
    )
    assert len(list(run.glob("policies/*.ncc"))) > len(list(run.glob("checkpoints/checkpoint-*"))) == 3
    drawn = curve_figure(read_source(run))
    assert drawn is not None
    assert drawn.caption.startswith("Mean FCT over that of DCTCP on held-out flows of rack on packetsim, 2 seeds")
    first = {key: {name: fcts[:1] for name, fcts in fact[key].items()} for key in ("fct_mean_s", "others")}
    one = held_out_figure({"over": "dctcp", **first}, "rack on packetsim")
    assert "1 seed, " in one.caption
    assert "nan" not in one.caption
    one.draw(tmp_path / "one.png")


def test_a_learning_curve_needs_an_opponent(tmp_path: Path) -> None:
    done = ncc(
        "train", *TINY, *SYNC, "evaluation.controllers=[trained,cubic]", "evaluation.curve_points=3", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "dctcp_tuned or dctcp, in evaluation.controllers" in done.stderr
