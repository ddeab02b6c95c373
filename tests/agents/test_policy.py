# SPDX-License-Identifier: BSD-3-Clause
"""The policy file and its forward pass; none of this may need a training framework."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ncc.agents.policy import Layer, MlpPolicy, load_policy, save_policy
from ncc.core.errors import ConfigError


def layers(*sizes: int, seed: int = 1) -> list[Layer]:
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal((out, inputs), np.float32), rng.standard_normal(out).astype(np.float32))
        for inputs, out in pairwise(sizes)
    ]


def unchanged(n_actions: int) -> MlpPolicy:
    """A policy whose logits are what it observes."""
    return MlpPolicy([(np.eye(n_actions, dtype=np.float32), np.zeros(n_actions, np.float32))])


def test_forward_by_hand() -> None:
    hidden = (np.array([[1.0, -2.0]], np.float32), np.array([0.5], np.float32))
    output = (np.array([[2.0], [-1.0]], np.float32), np.array([0.0, 0.25], np.float32))
    # tanh(3 - 2 + 0.5) = tanh(1.5) = 0.905148; logits 2 * 0.905148 and 0.25 - 0.905148
    logits = MlpPolicy([hidden, output]).logits(np.array([[3.0, 1.0]], np.float32))
    assert logits == pytest.approx(np.array([[1.810297, -0.655148]]), abs=1e-6)
    assert logits.dtype == np.float32


def test_greedy_takes_the_largest_logit_of_each_host() -> None:
    policy = unchanged(3)
    obs = np.array([[0.1, 0.9, 0.3], [5, 4, 3], [-3, -2, -1]], np.float32)
    assert policy.act(obs, None).tolist() == [1, 0, 2]


def test_sampling_follows_the_softmax() -> None:
    probabilities = np.array([0.5, 0.3, 0.0, 0.2])
    logits = np.log(np.tile(np.maximum(probabilities, 1e-30), (40_000, 1))).astype(np.float32)
    drawn = np.bincount(unchanged(4).act(logits, np.random.default_rng(3)), minlength=4) / 40_000
    # 5 standard deviations of the largest bin: 5 * sqrt(0.25 / 40000) = 0.0125
    assert drawn == pytest.approx(probabilities, abs=0.0125)
    assert drawn[2] == 0


def test_round_trip_keeps_every_bit_and_the_meta(tmp_path: Path) -> None:
    meta = {"observation": {"scale": 2.5}, "tags": ["a", "b"], "seed": 3}
    save_policy(tmp_path / "deep" / "policy.ncc", layers(5, 8, 8, 4), meta)
    policy, loaded = load_policy(tmp_path / "deep" / "policy.ncc")
    assert loaded == meta
    assert (policy.obs_dim, policy.n_actions) == (5, 4)
    for (weight, bias), (w, b) in zip(layers(5, 8, 8, 4), policy.layers, strict=True):
        assert (weight == w).all()
        assert (bias == b).all()
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["policy.ncc"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "at least one layer"),
        ([(np.ones((2, 3)), np.ones(3))], "layer 0 must have weights"),
        ([(np.ones(3), np.ones(3))], "layer 0 must have weights"),
        ([(np.ones((2, 3)), np.ones(2)), (np.ones((4, 5)), np.ones(4))], "layer 0 has 2 outputs.*takes 5 inputs"),
        ([(np.full((2, 3), np.nan), np.ones(2))], "not finite"),
    ],
)
def test_layers_that_make_no_policy_are_refused(bad: list[Layer], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        save_policy(tmp_path / "policy.ncc", bad, {})
    assert list(tmp_path.iterdir()) == []


def test_meta_must_be_json_and_leave_reserved_keys_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="plain JSON"):
        save_policy(tmp_path / "policy.ncc", layers(2, 3), {"when": object()})
    with pytest.raises(ConfigError, match="plain JSON"):
        save_policy(tmp_path / "policy.ncc", layers(2, 3), {"loss": float("nan")})
    with pytest.raises(ConfigError, match="may not use the keys layers"):
        save_policy(tmp_path / "policy.ncc", layers(2, 3), {"layers": 9})


def test_observations_that_do_not_fit_are_refused() -> None:
    policy = MlpPolicy(layers(5, 4))
    with pytest.raises(ConfigError, match=r"\[\.\.\., 5\], got \[6, 7\]"):
        policy.act(np.ones((6, 7), np.float32), None)
    with pytest.raises(ConfigError, match="finite"):
        policy.act(np.full((6, 5), np.nan, np.float32), None)
