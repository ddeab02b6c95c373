# SPDX-License-Identifier: BSD-3-Clause
"""Policies whose rates can be worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from ncc.agents.policy import MlpPolicy
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec
from ncc.results.learned import Learned, load_learned, observed
from ncc.results.notebook import scenario_of
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from tests.support.policies import write_policy

POOLED = ObservationSpec(neighbours="pooled")
QUEUED = 4
RATES = np.array([0.01, 0.5, 1.0])


def learned(weights: np.ndarray, action: ActionSpec | None = None) -> Learned:
    """One layer: logits = weights @ observation."""
    policy = MlpPolicy([(weights.astype(np.float32), np.zeros(len(weights), dtype=np.float32))])
    return Learned(policy, POOLED, action or ActionSpec(levels=2), "ncc")


def by_queue(slope: float = 2.0) -> Learned:
    """The longer the host's own queue, the likelier is no limit."""
    weights = np.zeros((3, 16))
    weights[2, QUEUED] = slope
    return learned(weights)


def observations(n: int = 400) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.1, 0.9, (n, 16)).astype(np.float32)


def log_rate(queued: np.ndarray, slope: float = 2.0) -> np.ndarray:
    weights = np.stack([np.ones_like(queued), np.ones_like(queued), np.exp(slope * queued)])
    return np.asarray((weights * np.log(RATES)[:, None]).sum(axis=0) / weights.sum(axis=0))


def test_the_expected_rate_is_what_the_probabilities_say() -> None:
    obs = observations()
    assert by_queue().log_rate(obs) == pytest.approx(log_rate(obs[:, QUEUED].astype(float)), abs=1e-5)
    assert set(by_queue().chosen(obs)) == {1.0}
    assert set(by_queue(-1e3).chosen(obs)) == {0.01}


def test_neighbours_seen_one_by_one_move_together() -> None:
    policy = MlpPolicy([(np.ones((11, 14), dtype=np.float32), np.zeros(11, dtype=np.float32))])
    each = Learned(policy, ObservationSpec(), ActionSpec(), "ncc")
    assert each.entries["neighbours' queued_bytes"] == (8, 11)


def test_what_cannot_be_asked_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"entry of the observation 'queue'.*Did you mean"):
        by_queue().at("queue")
    with pytest.raises(ConfigError, match="'dctcp' has no policy to look into"):
        load_learned(load_controller("dctcp"))
    blind = MlpPolicy([(np.zeros((3, 8), dtype=np.float32), np.zeros(3, dtype=np.float32))])
    hidden = Learned(blind, ObservationSpec(neighbours="none"), ActionSpec(kind="shares", shares=(0.5, 1.0)), "ncc")
    with pytest.raises(ConfigError, match="shares of what it does not observe"):
        hidden.log_rate(np.zeros((1, 8), dtype=np.float32))


def test_a_policy_of_a_run_folder_is_asked_at_what_its_hosts_saw(tmp_path: Path) -> None:
    scenario = scenario_of("rack", "scenario.duration_s=0.02")
    write_policy(tmp_path / "policy.ncc", scenario, action=10)
    controller, found = load_learned(load_controller("ncc"), tmp_path)
    obs = observed(found, controller, scenario, load_datapath("packetsim"), seed=1, run=tmp_path)
    assert obs.shape[1] == found.policy.obs_dim
    assert (obs[:, found.at("queued_flows")] > 0).all()
    assert set(found.chosen(obs)) == {1.0}
    (tmp_path / "policy.ncc").write_bytes(b"nothing")
    with pytest.raises(ResultError):
        load_learned(load_controller("ncc"), tmp_path)
