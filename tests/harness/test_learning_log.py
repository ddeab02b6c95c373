# SPDX-License-Identifier: BSD-3-Clause
"""The log of a training: lines, TensorBoard and, if asked for, Weights & Biases, all from one place."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ncc.agents.progress import Meter
from ncc.core.errors import ConfigError
from ncc.harness.learner import Progress
from ncc.results.training import train
from ncc.run.folders import files_of
from ncc.run.learning import LearningLog, read_learning

pytest.importorskip("torch", reason="TensorBoard's writer comes with torch")

SAID = Progress(100, 200, (0.5, 0.7), {"loss/value": 0.25, "network/fct_s": 2e-3, "network/limit_frac": 0.5})
SHOWN = {"learner/loss/value": 0.25, "network/fct_s": 2e-3, "network/limit_frac": 0.5, "episode/return": 0.6}


class FakeWandb:
    """Takes note of what it is told, as the package would offline."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.finished = False

    def init(self, **asked: Any) -> "FakeWandb":
        self.asked = asked
        (Path(asked["dir"]) / "wandb").mkdir()
        (Path(asked["dir"]) / "wandb" / "run.wandb").write_text("theirs")
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((step, values))

    def finish(self) -> None:
        self.finished = True


def board(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_shows_what_the_networks_did(tmp_path: Path) -> None:
    with LearningLog(tmp_path, resume=False) as log:
        log.report(Progress(0, 200))
        log.report(SAID)
    shown = board(tmp_path)
    assert {tag: [step for step, _ in said] for tag, said in shown.items()} == {tag: [100] for tag in SHOWN}
    assert {tag: said[0][1] for tag, said in shown.items()} == pytest.approx(SHOWN)
    (row,) = read_learning(tmp_path)
    assert row["network/fct_s"] == 2e-3


def test_a_resumed_run_s_curves_go_on_from_its_checkpoint(tmp_path: Path) -> None:
    """Reports after the checkpoint are replaced by those of the resumed run."""
    for resume, epochs in ((False, (100, 200, 300)), (True, (210, 400))):
        with LearningLog(tmp_path, resume=resume) as log:
            log.report(Progress(200 if resume else 0, 400))
            for at in epochs:
                log.report(replace(SAID, epochs=at))
    assert [row["epochs"] for row in read_learning(tmp_path)] == [100, 200, 210, 400]
    assert {tag: [step for step, _ in said] for tag, said in board(tmp_path).items()} == {
        tag: [100, 200, 210, 400] for tag in SHOWN
    }


def test_weights_and_biases_is_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    with LearningLog(tmp_path, resume=False, project="ncc", config={"seed": 3}) as log:
        log.report(SAID)
        before = fake.finished
    assert (before, fake.finished) == (False, True)
    ((step, values),) = fake.logged
    assert step == 100
    assert values == pytest.approx(SHOWN)
    assert (fake.asked["project"], fake.asked["name"], fake.asked["config"]) == ("ncc", tmp_path.name, {"seed": 3})
    assert not [name for name in files_of(tmp_path) if name.startswith("wandb")], "its files may change later"


def test_nothing_is_begun_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("ncc.results.training.check_training", lambda _: (None, None))
    plan: Any = SimpleNamespace()
    with pytest.raises(ConfigError, match="its package is not installed: pip install wandb, or leave wandb out"):
        train(plan, tmp_path / "run", resume=False, wandb="ncc")
    assert not (tmp_path / "run").exists()


def test_means_are_over_the_updates_that_have_a_number() -> None:
    said: list[Progress] = []
    meter = Meter(said.append, 0, 100)
    meter.add(10, [], {"loss": 1.0, "network/fct_s": 4.0})
    meter.add(10, [], {"loss": 3.0})
    meter.flush()
    assert said[-1].scalars["loss"] == 2.0
    assert said[-1].scalars["network/fct_s"] == 4.0
