# SPDX-License-Identifier: BSD-3-Clause
"""Points of a sweep: grids worked by hand, draws, names, and overrides that Hydra reads back."""

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from ncc.core.errors import ConfigError
from ncc.study.sweep.space import Range, override, point_name, points, quoted_list, space_from, typed_entry


def test_lists_are_crossed_the_last_key_first() -> None:
    space = space_from({"agent": {"learning_rate": [1e-4, 1e-3]}}, {"seed": [1, 2]})
    assert points(space, None, seed=1) == [
        {"agent.learning_rate": 1e-4, "seed": 1},
        {"agent.learning_rate": 1e-4, "seed": 2},
        {"agent.learning_rate": 1e-3, "seed": 1},
        {"agent.learning_rate": 1e-3, "seed": 2},
    ]


def test_ranges_are_drawn_together_and_each_draw_is_crossed_with_the_lists() -> None:
    space = space_from({"a": {"low": 0.5, "high": 2.0}, "b": {"low": 1e-6, "high": 1.0, "log": True}, "c": [1, 2]}, {})
    found = points(space, 3, seed=7)
    assert [point["c"] for point in found] == [1, 2] * 3
    assert all(one["a"] == two["a"] and one["b"] == two["b"] for one, two in zip(found[::2], found[1::2], strict=True))
    assert len({point["a"] for point in found}) == 3
    assert points(space, 5, seed=7)[:6] == found
    assert points(space, 3, seed=8) != found


@pytest.mark.parametrize(
    "entry", [Range(low=0.1, high=0.2), Range(low=1, high=9), Range(low=1e-5, high=10.0, log=True)]
)
def test_draws_lie_in_their_range(entry: Range) -> None:
    drawn = [entry.draw(1, "test", i) for i in range(400)]
    assert all(entry.low <= value <= entry.high for value in drawn)
    assert all(isinstance(value, type(entry.low)) for value in drawn)
    if entry.high == 9:
        assert set(drawn) == set(range(1, 10))
    if entry.log:
        assert sum(value < 1e-2 for value in drawn) == pytest.approx(200, abs=40)  # half the decades


def test_a_draw_that_comes_twice_is_tried_once() -> None:
    assert len(points({"seed": Range(low=1, high=2)}, 50, seed=1)) == 2


def test_what_is_typed_goes_before_the_yaml() -> None:
    assert space_from({"agent.gamma": [0.9]}, {"agent.gamma": [0.5]}) == {"agent.gamma": [0.5]}


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({}, "space is empty"),
        ({"seed": []}, "space.seed has no values"),
        ({"seed": [1, 1]}, "space.seed has 1 twice"),
        ({"seed": 3}, "space.seed is 3: write a list"),
        ({"seed": {}}, "space.seed is {}: write a list"),
        ({"a": {"low": 2, "high": 2}}, "space.a: low must be less than high, got 2 and 2"),
        ({"a": {"low": 0, "high": 2, "log": True}}, "space.a: low must be above 0 where log is true, got 0"),
        ({"a": {"low": 0}}, "high"),
        ({"": [1]}, "space has an entry without a key"),
        ({"a": {"low": 0, "high": 1, "step": 1}}, "space.a has no field 'step'"),
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


def test_samples_are_said_exactly_where_there_are_ranges() -> None:
    with pytest.raises(ConfigError, match=r"space\.a is a range: say how often"):
        points({"a": Range(low=1, high=2)}, None, seed=1)
    with pytest.raises(ConfigError, match="space has none"):
        points({"a": [1]}, 3, seed=1)


@pytest.mark.parametrize(
    "value",
    [-0.5, 1e-5, True, None, "a3c", "null", "it's", "x=[1,2]", "1e-3", [64, 64], [], ["a", None], {"k": [1]}],
)
def test_overrides_are_read_back_as_they_were(value: Any) -> None:
    read = OverridesParser.create().parse_override(override("key", value))
    assert read.value() == value
    assert type(read.value()) is type(value)


def test_names_of_points() -> None:
    assert point_name({"agent.learning_rate": 1e-4, "seed": 2}) == "learning_rate-0.0001_seed-2"
    assert point_name({"a.x": 1, "b.x": 2}) == "a.x-1_b.x-2"
    one, two = point_name({"hidden": [64, 64]}), point_name({"hidden": "64,64"})
    assert one != two
    assert one.startswith("hidden-")
    assert "/" not in point_name({"out": "/a/b", "env/x": "c"})


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
