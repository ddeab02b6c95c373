# SPDX-License-Identifier: BSD-3-Clause
"""It learns: what is known by heart, and the closed form of the paper's M/M/1 model."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.policy import load_policy
from ncc.harness.batch import BatchedEnv
from tests.agents.fitting import fit
from tests.agents.toy_envs import Identity, QueueEnv


@dataclass(frozen=True)
class Queue:
    n_agents: int
    rho: float
    n_actions: int
    n_racks: int = 16

    def __call__(self, worker: int) -> BatchedEnv:
        return QueueEnv(self.n_agents, self.rho, self.n_actions, self.n_racks)


@pytest.mark.parametrize("gamma", [0.0, 0.95])
def test_identity_is_learnt(tmp_path: Path, gamma: float) -> None:
    config = A3cConfig(mode="sync", epochs=16_000, rollout=10, gamma=gamma, learning_rate=2e-3)
    reports = fit(config, Identity((50,) * 8), tmp_path)
    returns = [value for report in reports for value in report.returns]
    trained, _ = load_policy(tmp_path / "policy.npz")
    untrained, _ = load_policy(tmp_path / "policy_untrained.npz")
    obs = np.eye(4, dtype=np.float32)
    assert trained.act(obs, None).tolist() == [0, 1, 2, 3]
    rng = np.random.default_rng(5)
    many = np.tile(obs, (1000, 1))
    assert (trained.act(many, rng) == np.tile(np.arange(4), 1000)).mean() > 0.9
    # At random 1/4 of 4000 draws is right, with a standard deviation of 0.7 %
    assert (untrained.act(many, rng) == np.tile(np.arange(4), 1000)).mean() == pytest.approx(0.25, abs=0.04)
    assert np.mean(returns[:8]) < 0.5
    assert np.mean(returns[-8:]) > 0.9


@pytest.mark.parametrize(("n_agents", "rho", "n_actions"), [(3, 0.5, 12), (4, 2.0, 12)])
def test_rates_approach_the_closed_form(tmp_path: Path, n_agents: int, rho: float, n_actions: int) -> None:
    # x = C / (N (1 + rho)) (wang2021 eq. 5.7 with its sign put right). The action table has that rate as a level;
    # tolerance: the mean rate within half a level of it, which leaves no other level.
    config = A3cConfig(
        mode="sync",
        epochs=24_000,
        rollout=5,
        gamma=0.0,
        learning_rate=2e-3,
        learning_rate_final=0.0,
        entropy_coef=0.02,
        entropy_coef_final=0.0,
    )
    fit(config, Queue(n_agents, rho, n_actions), tmp_path)
    policy, _ = load_policy(tmp_path / "policy.npz")
    optimum = 1 / (n_agents * (1 + rho))
    level = 1 / (n_agents * n_actions)
    rates = level * (policy.act(np.ones((20_000, 1), np.float32), np.random.default_rng(1)) + 1)
    assert rates.mean() == pytest.approx(optimum, abs=level / 2)
    assert level * (policy.act(np.ones((1, 1), np.float32), None)[0] + 1) == pytest.approx(optimum)
