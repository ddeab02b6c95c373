# SPDX-License-Identifier: BSD-3-Clause
"""The space of a sweep as Optuna's distributions, and overrides that Hydra reads back."""

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ncc.core.errors import ConfigError
from ncc.study.sweep.space import quoted_list, typed_entry, written
from ncc.study.sweep.spec import space_from


def test_entries_are_distributions_and_what_is_typed_goes_before_the_yaml() -> None:
    described = {
        "agent": {"gamma": [0.9], "racks": {"low": 1, "high": 8}},
        "a.b": {"low": 1e-5, "high": 1, "log": True},
    }
    assert space_from(described, {"agent.gamma": [0.5, True, [64, 64]]}) == {
        "agent.gamma": CategoricalDistribution(("0.5", "true", "[64,64]")),
        "agent.racks": IntDistribution(1, 8),
        "a.b": FloatDistribution(1e-5, 1, log=True),
    }


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({}, "space is empty"),
        ({"seed": []}, "space.seed is []: write a list"),
        ({"seed": [1, 1]}, "space.seed has 1 twice"),
        ({"seed": 3}, "space.seed is 3: write a list"),
        ({"seed": {}}, "space.seed is {}: write a list"),
        ({"a": {"low": 3, "high": 2}}, "space.a is {'low': 3, 'high': 2}, which is no range of Optuna's"),
        ({"a": {"low": 0.0, "high": 2, "log": True}}, "which is no range of Optuna's"),
        ({"a": {"low": 0}}, "high"),
        ({"": [1]}, "space has an entry without a key"),
        ({"a": {"low": 0, "high": 1, "steps": 1}}, "'steps'"),
    ],
)
def test_a_space_that_cannot_be_is_refused(plain: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        space_from(plain, {})
    assert said in str(error.value)


def test_typed_entries() -> None:
    assert typed_entry("space.env/reward=[utility,backlog]") == ("env/reward", ["utility", "backlog"])
    with pytest.raises(ConfigError, match=r"space.seed needs brackets around its values: 'space.seed=\[1,2\]'"):
        typed_entry("space.seed=1,2")
    with pytest.raises(ConfigError, match=r"cannot read 'space.seed=\[1'"):
        typed_entry("space.seed=[1")


@pytest.mark.parametrize(
    "value",
    [-0.5, 1e-5, True, None, "a3c", "null", "it's", "x=[1,2]", "1e-3", [64, 64], [], ["a", None], {"k": [1]}],
)
def test_overrides_are_read_back_as_they_were(value: Any) -> None:
    read = OverridesParser.create().parse_override(f"key={written(value)}")
    assert read.value() == value
    assert type(read.value()) is type(value)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("train=[agent=a3c,agent.epochs=100000]", ["agent=a3c", "agent.epochs=100000"]),
        ("train=['agent=a3c', \"seed=1\"]", ["agent=a3c", "seed=1"]),
        ("train=[evaluation.controllers=[ncc,dctcp],seed=1]", ["evaluation.controllers=[ncc,dctcp]", "seed=1"]),
        ("train=[agent.episodes='a,b']", ["agent.episodes='a,b'"]),
        ("train=[]", []),
    ],
)
def test_overrides_in_a_list_need_no_quotes(typed: str, read: list[str]) -> None:
    assert OverridesParser.create().parse_override(quoted_list(typed)).value() == read
