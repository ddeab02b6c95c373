# SPDX-License-Identifier: BSD-3-Clause
"""It learns: what is known by heart, and the closed form of the paper's M/M/1 model."""

from pathlib import Path

import numpy as np
import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.policy import load_policy
from tests.agents.fitting import fit
from tests.agents.toy_envs import Identity


@pytest.mark.parametrize("gamma", [0.0, 0.95])
def test_identity_is_learnt(tmp_path: Path, gamma: float) -> None:
    config = A3cConfig(mode="sync", epochs=8_000, rollout=10, gamma=gamma, learning_rate=5e-3)
    reports = fit(config, Identity((50,) * 8), tmp_path)
    returns = [value for report in reports for value in report.returns]
    trained, _ = load_policy(tmp_path / "policy.ncc")
    untrained, _ = load_policy(tmp_path / "policy_untrained.ncc")
    obs = np.eye(4, dtype=np.float32)
    assert trained.act(obs, None).tolist() == [0, 1, 2, 3]
    rng = np.random.default_rng(5)
    many = np.tile(obs, (1000, 1))
    assert (trained.act(many, rng) == np.tile(np.arange(4), 1000)).mean() > 0.9
    # At random 1/4 of 4000 draws is right, with a standard deviation of 0.7 %
    assert (untrained.act(many, rng) == np.tile(np.arange(4), 1000)).mean() == pytest.approx(0.25, abs=0.04)
    assert np.mean(returns[:8]) < 0.5
    assert np.mean(returns[-8:]) > 0.9
