# SPDX-License-Identifier: BSD-3-Clause
"""Settings that cannot be used are refused in one sentence, before anything starts; nothing here starts Ray."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from ncc.agents.rllib.config import RllibConfig
from ncc.agents.settings import BATCHED_RACKS
from ncc.core.errors import ConfigError

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="rllib: ray is not installed")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"noise": 0.0}, "noise"),
        ({"hidden": ()}, "at least one layer"),
        ({"wheel": "ncc.whl"}, "set address"),
        ({"wheel": "ncc", "address": "auto"}, "wheel must be a .whl file, got 'ncc'"),
        *(
            ({"address": address}, f"address must be auto or host:port .* got {address!r}")
            for address in ("", "local", "head", "head:", ":6379", "head:0", "head:65536", "ray://head:10001", "h:1:2")
        ),
        ({"gamma": 1.0}, "gamma"),
        ({"env_runners": -1}, "env_runners"),
    ],
)
def test_bad_settings_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        RllibConfig(**fields)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:1", "head-1.example:65535"])
def test_addresses_of_clusters_are_taken(address: str) -> None:
    assert RllibConfig(address=address).address == address


@needs_ray
def test_a_wheel_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    wheel = tmp_path / "ncc.whl"
    config = RllibConfig(address="auto", wheel=str(wheel))
    with pytest.raises(ConfigError, match=r"the wheel .*ncc\.whl is not a file"):
        config.build()
    wheel.touch()
    config.build()


@needs_ray
@pytest.mark.parametrize(
    ("fields", "batching", "racks", "rollout"),
    [
        ({}, True, BATCHED_RACKS, 50),
        ({}, False, 1, 800),
        ({"racks": 4, "rollout": 7}, True, 4, 7),
    ],
)
def test_racks_and_rollout_are_chosen(fields: dict[str, Any], batching: bool, racks: int, rollout: int) -> None:
    learner = RllibConfig(**fields).build(batching=batching)
    assert (learner.racks_per_env, learner.config.rollout) == (racks, rollout)
    assert learner.processes == racks * 2
