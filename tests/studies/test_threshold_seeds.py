# SPDX-License-Identifier: BSD-3-Clause
"""Trainings of thresholds compared: their rewards, and what their policies are worth."""

from pathlib import Path

import pytest

from ncc.agents.policy import packaged_policy
from studies import threshold_seeds
from studies.threshold_seeds import NETWORKS, curve, judged, main


def rewards(path: Path, values: list[float]) -> Path:
    lines = ['#{"t_start": 0, "env_id": "None"}', "r,l,t", *(f"{value},25,1.0" for value in values)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_reward_is_the_mean_over_the_networks_of_a_round(tmp_path: Path) -> None:
    values = [*range(NETWORKS), *[-2.0] * NETWORKS, 7.0]
    assert curve(rewards(tmp_path / "it.monitor.csv", values)).tolist() == [3.5, -2.0], "the last round is not whole"


def test_policies_are_compared_with_pias_own_thresholds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packaged policy has thresholds for Hadoop's sizes, which PIAS' own are not for."""
    (tmp_path / "1.ncc").write_bytes(packaged_policy("auto").read_bytes())
    rewards(tmp_path / "1.monitor.csv", [-4.0] * NETWORKS)
    cell = ("hadoop", 0.8, 0.2)
    monkeypatch.setattr(threshold_seeds, "CELLS", (cell,))
    assert main([str(tmp_path), "--runs", "1"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "reward of episode 1: -4.000 [-4.000, -4.000]"
    (found,) = judged([tmp_path / "1.ncc"], cell, 1)
    assert 0.5 < found < 0.97
    assert second == f"hadoop 0.8: {found:.3f} [{found:.3f}, {found:.3f}] of PIAS' own; 1: {found:.3f}"


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "has no policy: train with examples/sb3_thresholds.py --out" in capsys.readouterr().err
    (tmp_path / "1.ncc").write_bytes(packaged_policy("auto").read_bytes())
    assert main([str(tmp_path)]) == 2
    assert f"has no rewards beside it: train with --curve {tmp_path / '1'}" in capsys.readouterr().err
    rewards(tmp_path / "1.monitor.csv", [-1.0])
    assert main([str(tmp_path)]) == 2
    assert "has 1 episodes, and a round has 8: train for longer" in capsys.readouterr().err
