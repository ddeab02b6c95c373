# SPDX-License-Identifier: BSD-3-Clause
"""Checks judge tables that were made up: what holds, what does not, and what cannot be said."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.core.value import from_dict, kinds
from ncc.experiment.checks import AnyCheck, Finding, Order
from ncc.experiment.measures import AnyMeasure, Throughput
from ncc.experiment.table import At, Table

K = (10.0, 20.0, 40.0)
MEASURES: dict[str, AnyMeasure] = {"m": Throughput()}
PLAIN: dict[str, Any] = {"says": "", "measure": "m"}


def table(expected: Mapping[float, float] | None = None, **by_contender: list[float]) -> Table:
    """One seed's values along k."""
    axes = {"k": K[: len(next(iter(by_contender.values())))]}
    values: dict[tuple[str, str, At], tuple[float, ...]] = {
        ("m", name, (k,)): (value,)
        for name, column in by_contender.items()
        for k, value in zip(axes["k"], column, strict=True)
    }
    paper: dict[tuple[str, str, At], float] = {("m", "a", (k,)): value for k, value in (expected or {}).items()}
    return Table(axes=axes, contenders=tuple(by_contender), values=values, expected=paper)


def judge(of: Table, **check: Any) -> Finding:
    made: AnyCheck = from_dict(kinds(AnyCheck)[check["kind"]], {**PLAIN, **check}, "check")
    made.fits("check", MEASURES, dict.fromkeys(of.contenders), {"k": K})
    return made.judge(of, MEASURES["m"])


ORDER = {"kind": "order", "one": "a", "other": "b"}
RANK = {"kind": "rank", "one": "a", "others": ["b", "c"]}
WITHIN = {"kind": "within", "contender": "a"}
TREND = {"kind": "trend", "contender": "a", "axis": "k"}
REACHES = {"kind": "reaches", "contender": "a", "axis": "k", "level": 5.0, "low": 15, "high": 20}
NEAR = {"kind": "near", "contender": "a", "low": 0.5, "high": 2.0}


@pytest.mark.parametrize(
    ("check", "a", "b", "holds"),
    [
        ({**ORDER, "relation": ">="}, [1, 2, 3], [1, 2, 3], True),
        ({**ORDER, "relation": ">="}, [1, 2, 2.9], [1, 2, 3], False),
        ({**ORDER, "relation": ">=", "tolerance": 0.05}, [1, 2, 2.9], [1, 2, 3], True),
        ({**ORDER, "relation": ">=", "at": {"k": 10}}, [1, 2, 2.9], [1, 2, 3], True),
        ({**ORDER, "relation": ">=", "factor": 10}, [10, 20, 30], [1, 2, 3], True),
        ({**ORDER, "relation": ">=", "factor": 10}, [10, 20, 29], [1, 2, 3], False),
        ({**ORDER, "relation": ">=", "factor": 10}, [0.1, 0.1, 0.1], [0, 0, 0], True),
        ({**ORDER, "relation": "<=", "factor": 0.95}, [0.95, 0.9, 0.9], [1, 1, 1], True),
        ({**ORDER, "relation": "<=", "factor": 0.95}, [0.96, 0.9, 0.9], [1, 1, 1], False),
        ({**ORDER, "relation": "<="}, [1, math.nan, 1], [1, 1, 1], False),
        ({**WITHIN, "low": 1}, [1, 2, 3], [0, 0, 0], True),
        ({**WITHIN, "low": 1, "high": 2.5}, [1, 2, 3], [0, 0, 0], False),
        ({**WITHIN, "high": 2}, [1, math.nan, 2], [0, 0, 0], False),
        ({**WITHIN, "low": 0.9, "high": 1.1, "axis": "k", "axis_scale": 1500}, [15000, 31000, 6e4], [0, 0, 0], True),
        ({**WITHIN, "low": 0.9, "high": 1.1, "axis": "k", "axis_scale": 1500}, [15000, 34000, 6e4], [0, 0, 0], False),
        ({**TREND, "direction": "rises"}, [1, 2, 3], [0, 0, 0], True),
        ({**TREND, "direction": "rises"}, [1, 3, 2], [0, 0, 0], False),
        ({**TREND, "direction": "rises", "tolerance": 0.4}, [1, 3, 2], [0, 0, 0], True),
        ({**TREND, "direction": "rises", "tolerance": 0.4, "total": 1.5}, [1, 3, 2], [0, 0, 0], False),
        ({**TREND, "direction": "falls"}, [3, 2, 1], [0, 0, 0], True),
        ({**TREND, "direction": "falls"}, [3, 3.1, 1], [0, 0, 0], False),
        (REACHES, [4, 5, 6], [0, 0, 0], True),
        (REACHES, [5, 5, 6], [0, 0, 0], False),
        (REACHES, [4, 4, 6], [0, 0, 0], False),
        (REACHES, [4, 6, 4], [0, 0, 0], False),
        ({**REACHES, "below": True}, [6, 5, 4], [0, 0, 0], True),
        ({**REACHES, "below": True}, [6, math.nan, 4], [0, 0, 0], False),
    ],
)
def test_verdicts(check: dict[str, Any], a: list[float], b: list[float], holds: bool) -> None:
    found = judge(table(a=a, b=b), **check)
    assert found.holds is holds
    assert found.text


@pytest.mark.parametrize(
    ("more", "a", "holds"),
    [
        ({}, [1, 2], True),
        ({}, [1, 3], False),
        ({"place": 2}, [3, 5], True),
        ({"place": 2}, [4.1, 5], False),
        ({"place": 2, "tolerance": 0.11}, [4, 5.5], True),
        ({"place": 2, "tolerance": 0.11}, [4, 5.6], False),
        ({"place": 2, "at": {"k": 10}}, [4, 5.6], True),
        ({}, [1, math.nan], False),
    ],
)
def test_a_place_among_others(more: dict[str, Any], a: list[float], holds: bool) -> None:
    found = judge(table(a=a, b=[2, 5], c=[4, 2]), **RANK, **more)
    assert found.holds is holds
    assert found.text
    assert judge(table(a=[1, 2], b=[math.nan, 5], c=[4, 2]), **RANK).holds is False


def test_there_is_no_place_behind_the_last() -> None:
    with pytest.raises(ConfigError, match=r"check.place must be at most the number of others, got 3 of 2"):
        judge(table(a=[1], b=[1], c=[1]), **RANK, place=3)


def test_near_looks_where_the_paper_says_something() -> None:
    assert judge(table({20.0: 4.0}, a=[100, 2, 100]), **NEAR).holds is True
    assert judge(table({20.0: 4.0}, a=[4, 1.9, 4]), **NEAR).holds is False
    assert judge(table(a=[4, 1.9, 4]), **NEAR).holds is None


def test_what_a_preset_leaves_out_is_not_judged() -> None:
    short = table(a=[1, 2], b=[1, 2])
    assert judge(short, **ORDER, relation=">=", at={"k": 40}).holds is None
    assert judge(table(a=[1]), **TREND, direction="rises").holds is None
    assert judge(table(a=[1]), **REACHES).holds is None, "a level is found only between points on both sides"


def test_a_run_that_must_not_be_used_never_holds() -> None:
    spoilt = Table(
        axes={"k": (10.0,)},
        contenders=("a", "b"),
        values={("m", "a", (10.0,)): (5.0, math.nan), ("m", "b", (10.0,)): (1.0, 1.0)},
    )
    assert judge(spoilt, **ORDER, relation=">=").holds is False


@given(a=st.floats(0, 1e12), b=st.floats(0, 1e12), factor=st.floats(0.01, 100))
def test_an_order_and_its_reverse_cover_everything(a: float, b: float, factor: float) -> None:
    one = table(a=[a], b=[b])
    above = Order(**PLAIN, one="a", other="b", relation=">=", factor=factor).judge(one, MEASURES["m"])
    below = Order(**PLAIN, one="a", other="b", relation="<=", factor=factor).judge(one, MEASURES["m"])
    assert above.holds or below.holds


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ({**ORDER, "relation": ">=", "one": "c"}, "contender in check 'c'"),
        ({**ORDER, "relation": ">=", "measure": "n"}, "measure in check 'n'"),
        ({**ORDER, "relation": ">=", "at": {"l": 1}}, "axis in check.at 'l'"),
        ({**ORDER, "relation": ">=", "at": {"k": 11}}, "point of axis 'k'"),
        ({**ORDER, "relation": "=="}, "relation"),
        (WITHIN, "must have low or high"),
        ({**WITHIN, "low": 2, "high": 1}, "low must not be above high"),
        ({**WITHIN, "low": 2, "axis": "j"}, "axis in check 'j'"),
        ({**TREND, "direction": "rises", "axis": "j"}, "axis in check 'j'"),
    ],
)
def test_what_cannot_be_judged_is_refused(check: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        judge(table(a=[1, 2, 3], b=[1, 2, 3]), **check)
