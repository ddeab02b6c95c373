# SPDX-License-Identifier: BSD-3-Clause
"""Learners compared by one command: what it trains, keeps, computes and refuses."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hydra.errors import HydraException

from ncc.core.errors import ConfigError
from ncc.harness.manifest import is_sealed
from ncc.learners import main
from ncc.results.training import train
from ncc.run.compose import composed
from ncc.run.learning import read_learning
from ncc.study.learners import PICTURE, LearnersSpec, page, run_learners
from ncc.study.page import JSON, README
from ncc.study.trainings import training_plan
from tests.house.files import ROOT
from tests.support.extras import needs_extra

pytestmark = pytest.mark.usefixtures("in_one_process")
OTHERS = ("~learners.rllib_ppo", "~learners.rllib_appo", "~learners.rllib_impala")
SHORT = (
    *OTHERS,
    "learners.a3c=['agent=a2c','agent.racks=4','agent.checkpoint_epochs=1000']",
    "common=['evaluation.datapaths=[packetsim]','evaluation.controllers=[ncc,ncc_untrained,dctcp]',"
    "'evaluation.seeds=2','evaluation.duration_s=0.02','scenario.duration_s=0.02']",
    "seeds=1",
    "epochs=3000",
    "wall_s=0.1",
)


def here(command: list[str], *, check: bool) -> subprocess.CompletedProcess[bytes]:
    """Train in this process, which has loaded everything already."""
    *overrides, out = command[3:]
    assert (command[:3], check) == ([sys.executable, "-m", "ncc.train"], False)
    train(training_plan(overrides), Path(out.removeprefix("out=")), resume=False)
    return subprocess.CompletedProcess(command, 0)


def test_it_trains_compares_and_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ncc.study.learners.subprocess", SimpleNamespace(run=here))
    monkeypatch.setattr("ncc.results.training.PROBE_S", 0.1)
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)  # a training's own pictures
    plain = composed("learners", [*SHORT, "docs=shown"])
    spec, cut = LearnersSpec.from_plain(plain), Path("runs/learners/a3c_epochs_s1")
    cut.mkdir(parents=True)
    training_plan(spec.overrides("a3c", 1, spec.epochs)).save(cut)  # as if it had been interrupted
    (cut / "left").touch()
    main(plain, [])
    assert not (cut / "left").exists(), "begun again and finished"
    summary = json.loads(Path("shown", JSON).read_text())
    assert Path("shown", README).read_text() == page(summary)
    assert Path("shown", PICTURE).stat().st_size > 10_000
    for kind in ("epochs", "wall"):
        (training,) = summary["trainings"][kind]["a3c"]
        assert training["seed"] == 1
        assert set(training["returns"]) == {"ncc", "ncc_untrained", "dctcp"}
        epochs, walls, _ = np.array(training["curve"]).T
        assert (np.diff(epochs) > 0).all()
        assert (np.diff(walls) > 0).all()
        folder = Path("runs/learners", f"a3c_{kind}_s1")
        assert is_sealed(folder)
        assert read_learning(folder)[-1]["epochs"] == training["epochs"]
        gain = np.mean(training["returns"]["ncc"]) - np.mean(training["returns"]["ncc_untrained"])
        assert f"| {gain:.4f} |" in page(summary)
    assert summary["trainings"]["epochs"]["a3c"][0]["epochs"] == 3000
    assert summary["trainings"]["wall"]["a3c"][0]["epochs"] % 1000 == 0

    kept = (cut / "policy.npz").stat().st_mtime_ns
    assert run_learners(spec, "")["trainings"] == summary["trainings"]
    assert (cut / "policy.npz").stat().st_mtime_ns == kept
    other = composed("learners", [*SHORT, "learners.a3c=['agent=a2c','agent.gamma=0.5']"])
    with pytest.raises(ConfigError, match="holds a training with another agent"):
        run_learners(LearnersSpec.from_plain(other), "")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("learners.a3c=['agent=a4c']", "a4c"),
        ("learners.a3c=['agent.epochs=7']", "agent.epochs of learners.a3c is set by the comparison: leave it out"),
        ("learners.a3c=['agent.gama=0.5']", "gama"),
        ("seeds=0", "seeds"),
        ("wall_s=-1", "wall_s"),
    ],
)
def test_refused_before_anything_is_trained(override: str, said: str) -> None:
    with pytest.raises((ConfigError, HydraException), match=said):
        LearnersSpec.from_plain(composed("learners", [*OTHERS, override]))


@needs_extra("rllib")
@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "configs/compare").glob("*.yaml")))
def test_comparisons_on_disk_can_be_trained(name: str) -> None:
    assert LearnersSpec.from_plain(composed("learners", [f"compare={name}"])).learners
