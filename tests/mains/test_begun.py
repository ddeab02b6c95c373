# SPDX-License-Identifier: BSD-3-Clause
"""Run folders with and without something to resume from; one training at a time writes to each."""

from pathlib import Path

import pytest

from ncc.core.errors import ConfigError, DatapathError, ResultError
from ncc.run.folders import LEARNING, begun, training_in


def test_half_a_first_checkpoint_is_no_beginning(tmp_path: Path) -> None:
    assert not begun(tmp_path)
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / ".checkpoint-000000000000100.safetensors.1.partial").write_bytes(b"half")
    assert not begun(tmp_path)
    (folder / "checkpoint-000000000000100.safetensors").write_bytes(b"whole")
    assert begun(tmp_path)


@pytest.mark.parametrize("resume", [False, True])
def test_one_training_at_a_time(tmp_path: Path, resume: bool) -> None:
    """Whoever comes second is told that somebody trains there, whether anything lies there yet or not."""
    folder = tmp_path / "run"
    with training_in(folder, resume=False):
        for text in (None, "{}"):
            if text is not None:
                (folder / "config.json").write_text(text)
            with (
                pytest.raises(
                    ResultError, match=r"another training is writing to .*run; wait for it or choose another"
                ),
                training_in(folder, resume=resume),
            ):
                pytest.fail("two trainings in one folder")
    with training_in(folder, resume=True):
        pass
    with pytest.raises(ConfigError, match=r"is not empty; .* resume="), training_in(folder, resume=False):
        pytest.fail("a new training where there is one")
    assert (folder / "config.json").exists()


def test_a_mistake_gives_the_folder_back(tmp_path: Path) -> None:
    def mistaken() -> None:
        with training_in(tmp_path / "run", resume=False):
            (tmp_path / "run/config.json").write_text("{}")
            raise ConfigError("a mistake")

    for _ in range(2):
        with pytest.raises(ConfigError, match="a mistake"):
            mistaken()
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("learnt", [False, True])
def test_a_simulator_that_fails_before_anything_is_learnt_leaves_no_folder(tmp_path: Path, learnt: bool) -> None:
    def failing() -> None:
        with training_in(tmp_path / "run", resume=False):
            (tmp_path / "run" / "checkpoints").mkdir()
            (tmp_path / "run" / "checkpoints" / "checkpoint-000000000000000.npz").write_bytes(b"untrained")
            if learnt:
                (tmp_path / "run" / LEARNING).write_text('{"epochs": 5}\n')
            raise DatapathError("the simulation ended")

    with pytest.raises(DatapathError):
        failing()
    assert (tmp_path / "run").exists() is learnt
