# SPDX-License-Identifier: BSD-3-Clause
"""The log of a training: lines and TensorBoard, both from one place."""

from dataclasses import replace
from pathlib import Path

import pytest

from ncc.agents.progress import Meter
from ncc.harness.learner import Progress
from ncc.run.folders import LearningLog, read_learning

pytest.importorskip("torch", reason="TensorBoard's writer comes with torch")

SAID = Progress(100, 200, (0.5, 0.7), {"loss/value": 0.25, "network/fct_s": 2e-3, "network/limit_frac": 0.5})
SHOWN = {"learner/loss/value": 0.25, "network/fct_s": 2e-3, "network/limit_frac": 0.5, "episode/return": 0.6}


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


def test_means_are_over_the_updates_that_have_a_number() -> None:
    said: list[Progress] = []
    meter = Meter(said.append, 0, 100)
    meter.add(10, [], {"loss": 1.0, "network/fct_s": 4.0})
    meter.add(10, [], {"loss": 3.0})
    meter.flush()
    assert said[-1].scalars["loss"] == 2.0
    assert said[-1].scalars["network/fct_s"] == 4.0
