# SPDX-License-Identifier: BSD-3-Clause
"""Settings: ranges, defaults, JSON, and what happens without PyTorch."""

from typing import Any

import pytest

from ncc.agents.a3c.config import CONFIG, A3cConfig
from ncc.core.errors import ConfigError
from ncc.core.value import from_dict, from_json
from ncc.harness.learner import Learner


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "turbo"),
        ("workers", 0),
        ("gamma", 1.0),
        ("gamma", float("nan")),
        ("learning_rate", float("inf")),
        ("hidden", ()),
        ("hidden", (64, 0)),
        ("initial_unlimited_prob", 1.0),
    ],
)
def test_absurd_settings_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        A3cConfig(**{field: value})


def test_a_typo_lists_what_exists() -> None:
    with pytest.raises(ConfigError, match="learning_rate_final"):
        from_dict(A3cConfig, {"learning_rat": 1e-3}, "agent")


def test_json_round_trip() -> None:
    config = A3cConfig(mode="sync", hidden=(32,), entropy_coef_final=0.0, initial_unlimited_prob=0.5)
    assert from_json(A3cConfig, config.to_json(), "agent") == config
    assert CONFIG is A3cConfig


def test_the_learner_says_what_it_needs() -> None:
    learner: Learner = A3cConfig(racks=4, workers=3, epochs=1000).build()
    assert (learner.racks_per_env, learner.processes, learner.total_epochs) == (4, 12, 1000)
    assert A3cConfig(mode="sync", racks=4, workers=3).build().processes == 4
