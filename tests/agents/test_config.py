# SPDX-License-Identifier: BSD-3-Clause
"""Settings of A3C and RLlib that cannot be used are refused in one sentence; nothing here loads PyTorch or Ray."""

import importlib.util
from typing import Any

import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.settings import BATCHED_RACKS, LearnerSettings
from ncc.core.errors import ConfigError

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="rllib: ray is not installed")


@pytest.mark.parametrize(
    ("kind", "fields", "told"),
    [
        (A3cConfig, {"mode": "turbo"}, "mode"),
        (A3cConfig, {"workers": 0}, "workers"),
        (A3cConfig, {"gamma": float("nan")}, "gamma"),
        (A3cConfig, {"learning_rate": float("inf")}, "learning_rate"),
        (A3cConfig, {"hidden": ()}, "A3cConfig.hidden must name at least one layer"),
        (A3cConfig, {"hidden": (64, 0)}, "hidden"),
        (A3cConfig, {"evolve_frac": 1.0}, r"A3cConfig\.evolve_frac must leave A3C some epochs, got 1"),
        (RllibConfig, {"noise": 0.0}, "noise"),
        (RllibConfig, {"hidden": ()}, "RllibConfig.hidden must name at least one layer"),
        (RllibConfig, {"gamma": 1.0}, "gamma"),
        (RllibConfig, {"env_runners": -1}, "env_runners"),
        *(
            (RllibConfig, {"address": address}, f"address must be auto or host:port .* got {address!r}")
            for address in ("", "local", "head", "head:", ":6379", "head:0", "head:65536", "ray://head:10001", "h:1:2")
        ),
    ],
)
def test_bad_settings_are_refused(kind: type[LearnerSettings], fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        kind(**fields)
    assert "\n" not in str(refused.value)


@needs_ray
@pytest.mark.parametrize(
    ("config", "batching", "racks", "rollout", "processes"),
    [
        (RllibConfig(), True, BATCHED_RACKS, 50, 2 * BATCHED_RACKS),
        (RllibConfig(env_runners=0), False, 1, 800, 1),
        (RllibConfig(racks=4, rollout=7), True, 4, 7, 8),
        (A3cConfig(), True, BATCHED_RACKS, 5, 2 * BATCHED_RACKS),
        (A3cConfig(mode="sync"), False, 1, 20, 1),
    ],
)
def test_racks_and_rollout_are_chosen(
    config: LearnerSettings, *, batching: bool, racks: int, rollout: int, processes: int
) -> None:
    learner = config.build(batching=batching)  # type: ignore[attr-defined]
    assert (learner.racks_per_env, learner.rollout, learner.processes) == (racks, rollout, processes)
