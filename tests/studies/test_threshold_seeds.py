# SPDX-License-Identifier: BSD-3-Clause
"""Trainings of thresholds compared: their rewards, and what their policies are worth."""

from pathlib import Path

import numpy as np
import pytest

from ncc.agents.policy import packaged_policy
from studies import threshold_seeds
from studies.threshold_seeds import CURVES, curve, judged, main


def training(folder: Path, seed: int, rewards: list[list[float]], decisions: int = 400) -> None:
    """A finished training: rewards [n_evaluations][n_networks]."""
    (folder / f"{seed}.ncc").write_bytes(packaged_policy("auto").read_bytes())
    (folder / str(seed)).mkdir()
    at = decisions * np.arange(1, len(rewards) + 1)
    np.savez(folder / str(seed) / "evaluations.npz", timesteps=at, results=rewards, ep_lengths=np.full((1, 2), 25))


def test_a_reward_is_the_mean_over_the_networks(tmp_path: Path) -> None:
    training(tmp_path, 1, [[-3.0, -5.0], [-1.0, -2.0]])
    at, rewards = curve(tmp_path / "1")
    assert at.tolist() == [400, 800]
    assert rewards.tolist() == [-4.0, -1.5]


def test_policies_are_compared_with_pias_own_thresholds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packaged policy has thresholds for Hadoop's sizes, which PIAS' own are not for."""
    training(tmp_path, 1, [[-4.0, -4.0]])
    training(tmp_path, 2, [[-2.0, -4.0]])
    cell = ("hadoop", 0.8, 0.2)
    monkeypatch.setattr(threshold_seeds, "CELLS", (cell,))
    assert main([str(tmp_path), "--runs", "1"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "reward after 400 decisions: -3.500 [-4.000, -3.000]"
    assert (tmp_path / CURVES).read_bytes().startswith(b"\x89PNG")
    untrained, (found,) = judged([tmp_path / "1.ncc"], cell, 1)
    assert 0.5 < found < 0.97
    assert 0.5 < untrained < 0.97, "the middle of the ranges is as good as what is learned"
    ratios = f"{found:.3f} [{found:.3f}, {found:.3f}] of PIAS' own, action 0 {untrained:.3f}"
    assert second == f"hadoop 0.8: {ratios}; 1: {found:.3f}, 2: {found:.3f}"


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "has no policy: train with examples/sb3_thresholds.py --out" in capsys.readouterr().err
    training(tmp_path, 1, [[-4.0, -4.0]])
    training(tmp_path, 2, [[-4.0, -4.0]], decisions=10)
    assert main([str(tmp_path)]) == 2
    assert "were judged at different decisions: train all with the same" in capsys.readouterr().err
    whole = (tmp_path / "2" / "evaluations.npz").read_bytes()
    for part in (b"", b"other", whole[: len(whole) // 2]):
        (tmp_path / "2" / "evaluations.npz").write_bytes(part)
        assert main([str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: {tmp_path}/2/evaluations.npz cannot be read")
        assert f"train with --curve {tmp_path / '2'}" in said
