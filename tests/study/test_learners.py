# SPDX-License-Identifier: BSD-3-Clause
"""Learners compared by one command: what it trains, keeps, computes and refuses."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.errors import HydraException

from ncc.core.errors import ConfigError
from ncc.learners import main
from ncc.results.training import train
from ncc.run.compose import composed
from ncc.study.learners import LearnersSpec, page, run_learners
from ncc.study.page import JSON, README
from ncc.study.trainings import training_plan
from tests.house.files import ROOT
from tests.support.extras import needs_extra

pytestmark = pytest.mark.usefixtures("in_one_process")
SCRIPT = """
import sys
from pathlib import Path
from ncc.agents.policy import load_policy, save_policy
options = dict(option.split("=") for option in sys.argv[1:])
found, meta = load_policy(Path("runs/learners/a3c_s1/policy_untrained.ncc"))
assert (options["--seed"], options["--periods"]) == ("1", "6000")
meta = {key: meta[key] for key in ("observation", "action", "stack")}
save_policy(Path(options["--out"]), found.layers, meta)
"""
OTHERS = tuple(f"~learners.{name}" for name in composed("learners")["learners"] if name != "a3c")
SHORT = (
    *OTHERS,
    "learners.a3c.train=['agent.mode=sync']",
    "+learners.own={script: [own.py]}",
    "common=['recipe=ncc','families=incast_cell','~families.of.uplink','~families.of.fast_hosts',"
    "'env.action.within=null','agent.racks=16','env.pairs.copies=2','evaluation.seeds=1','evaluation.duration_s=0.02']",
    "judged={families: incast_cell, networks: 3, periods: 200, seeds: [101, 202]}",
    "over=[dctcp]",
    "seeds=1",
    "epochs=6000",
)


def here(command: list[str], *, check: bool) -> subprocess.CompletedProcess[bytes]:
    """Train in this process, which has loaded everything already."""
    assert (command[0], check) == (sys.executable, False)
    if command[1] == "-m":
        *overrides, out = command[3:]
        train(training_plan(overrides), Path(out.removeprefix("out=")), resume=False)
        return subprocess.CompletedProcess(command, 0)
    return subprocess.run(command, check=True)


def test_it_trains_judges_and_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(SCRIPT)
    monkeypatch.setattr("ncc.study.learners.subprocess", SimpleNamespace(run=here))
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)  # a training's own pictures
    plain = composed("learners", [*SHORT, "docs=shown"])
    spec, cut = LearnersSpec.from_plain(plain), Path("runs/learners/a3c_s1")
    cut.mkdir(parents=True)
    training_plan(spec.overrides(spec.learners["a3c"], 1)).save(cut)  # as if it had been interrupted
    (cut / "left").touch()
    main(plain, [])
    assert not (cut / "left").exists(), "begun again and finished"
    summary = json.loads(Path("shown", JSON).read_text())
    assert Path("shown", README).read_text() == page(summary)
    (trained,), (own,) = summary["learners"]["a3c"], summary["learners"]["own"]
    assert own["over_formula"] == [1.0, 1.0], "it wrote the untrained formula"
    assert trained["over_formula"] != [1.0, 1.0]
    assert all(0.5 < ratio < 2 for ratio in trained["over_formula"])
    assert trained["cpu_s"] > 0
    assert f"| own | 1.000 | 1.000 | {own['timeouts'][0]:.3f}" in page(summary)
    assert set(summary["beside"]) == {"dctcp"}

    kept = (cut / "policy.ncc").stat().st_mtime_ns
    assert run_learners(spec, "")["learners"] == summary["learners"]
    assert (cut / "policy.ncc").stat().st_mtime_ns == kept
    Path("own.py").write_text("raise SystemExit(1)")
    with pytest.raises(ConfigError, match="was made by another script or with other options: remove runs/"):
        run_learners(spec, "")
    other = composed("learners", [*SHORT, "learners.a3c.train=['agent.mode=sync','agent.gamma=0.5']"])
    with pytest.raises(ConfigError, match="holds a training with another agent"):
        run_learners(LearnersSpec.from_plain(other), "")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("learners.a3c.train=['agent=a4c']", "a4c"),
        (
            "learners.a3c.train=['agent.epochs=7']",
            r"agent.epochs of learners.a3c is set by the comparison",
        ),
        ("learners.a3c.train=['agent.gama=0.5']", "gama"),
        ("+learners.x={script: [gone.py]}", "the script gone.py is not here"),
        ("+learners.x={script: [gone.py], train: ['agent=a2c']}", "either train or script"),
        ("judged.families=incasts", "incasts"),
        ("seeds=0", "seeds"),
        ("judged.seeds=[]", "seeds"),
    ],
)
def test_refused_before_anything_is_trained(
    override: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigError, HydraException), match=said):
        LearnersSpec.from_plain(composed("learners", [*OTHERS, override]))


@needs_extra("rllib")
@needs_extra("sb3")
def test_the_comparison_on_disk_can_be_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert LearnersSpec.from_plain(composed("learners")).learners
