# SPDX-License-Identifier: BSD-3-Clause
"""Learners beside each other by one command: what it trains, keeps, computes and refuses."""

import json
from pathlib import Path

import hydra
import numpy as np
import pytest
from hydra.errors import HydraException

from ncc.compose import plain_config, register
from ncc.core.errors import ConfigError
from ncc.harness.manifest import is_sealed
from ncc.learning import read_learning
from ncc.study.learners.page import PICTURE, gains, page
from ncc.study.learners.spec import LearnersSpec
from ncc.study.page import JSON, README
from tests.mains.commands import ncc

OTHERS = ("~learners.rllib_ppo", "~learners.rllib_appo", "~learners.rllib_impala")
SHORT = (
    *OTHERS,
    "learners.a3c=['agent=a2c','agent.racks=4','agent.checkpoint_epochs=1000']",
    "common=['evaluation.datapaths=[packetsim]','evaluation.controllers=[ncc,ncc_untrained,dctcp]',"
    "'evaluation.seeds=2','evaluation.duration_s=0.02','scenario.duration_s=0.02']",
    "seeds=1",
    "epochs=8000",
    "wall_s=3",
)


def test_it_trains_compares_and_keeps(tmp_path: Path) -> None:
    done = ncc("learners", *SHORT, "docs=shown", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "shown" / JSON).read_text())
    assert (tmp_path / "shown" / README).read_text() == page(summary)
    assert (tmp_path / "shown" / PICTURE).stat().st_size > 10_000
    for kind in ("epochs", "wall"):
        trainings = summary["trainings"][kind]["a3c"]
        assert [t["seed"] for t in trainings] == [1]
        for training, gain in zip(trainings, gains(trainings), strict=True):
            assert set(training["returns"]) == {"ncc", "ncc_untrained", "dctcp"}
            assert gain == pytest.approx(
                np.mean(training["returns"]["ncc"]) - np.mean(training["returns"]["ncc_untrained"])
            )
            epochs, walls, _ = np.array(training["curve"]).T
            assert (np.diff(epochs) > 0).all()
            assert (np.diff(walls) > 0).all()
            assert is_sealed(tmp_path / "runs" / "learners" / f"a3c_{kind}_s{training['seed']}")
    assert [t["epochs"] for t in summary["trainings"]["epochs"]["a3c"]] == [8000]
    (long,) = {t["epochs"] for t in summary["trainings"]["wall"]["a3c"]}
    assert long % 1000 == 0

    kept = tmp_path / "runs" / "learners" / "a3c_epochs_s1" / "policy.npz"
    before = kept.stat().st_mtime_ns
    cut = tmp_path / "runs" / "learners" / "a3c_wall_s1"
    (cut / "manifest.json").unlink()  # as if it had been interrupted
    (cut / "policy.npz").unlink()
    again = ncc("learners", *SHORT, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert kept.stat().st_mtime_ns == before
    assert is_sealed(cut), "begun again and finished"
    assert len(read_learning(cut)) > 0

    other = ncc("learners", *SHORT, "learners.a3c=['agent=a2c','agent.gamma=0.5']", cwd=tmp_path)
    assert other.returncode == 2
    assert "holds a training with another agent" in other.stderr


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("learners.a3c=['agent=a4c']", "a4c"),
        ("learners.a3c=['agent.epochs=7']", "agent.epochs of learners.a3c is said by the comparison: leave it out"),
        ("learners.a3c=['agent.gama=0.5']", "gama"),
        ("seeds=0", "seeds"),
        ("wall_s=-1", "wall_s"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(override: str, said: str) -> None:
    register()
    with (
        hydra.initialize_config_module("ncc.configs", version_base=None),
        pytest.raises((ConfigError, HydraException), match=said),
    ):
        LearnersSpec.from_plain(plain_config(hydra.compose("learners", [*OTHERS, override])))
