# SPDX-License-Identifier: BSD-3-Clause
"""Checks judge tables that were made up: what holds, what does not, and what cannot be said."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from ncc.core.errors import ConfigError
from ncc.core.value import from_dict, kinds
from ncc.study.checks import AnyCheck
from ncc.study.checks_base import Finding, Parts
from ncc.study.measures import AnyMeasure, Throughput
from ncc.study.measures_of_flows import Bound, Fct
from ncc.study.table import At, Table
from tests.support.tables import table as rows

K = (10.0, 20.0, 40.0)
MEASURES: dict[str, AnyMeasure] = {"m": Throughput()}
PLAIN: dict[str, Any] = {"claim": "", "measure": "m"}


class Drawn:
    """Several seeds: fast and slow by contender, and a bound."""

    axes: ClassVar = {"k": (10.0,)}
    fct: AnyMeasure = Fct()
    bound: AnyMeasure = Bound(sharing="srpt")

    def table(self, goal: tuple[float, ...] = (0.1, 0.1, 0.1, 0.1, 0.1), **fct: tuple[float, ...]) -> Table:
        values = {("f", name, (10.0,)): column for name, column in fct.items()}
        values |= {("b", name, (10.0,)): goal for name in fct}
        return Table(axes=self.axes, contenders=tuple(fct), values=values)  # type: ignore[arg-type]

    def judge(self, of: Table, **check: Any) -> Finding:
        made = from_dict(kinds(AnyCheck)[check["kind"]], {"claim": "", "measure": "f", **check}, "check")
        measures = {"f": self.fct, "b": self.bound, "median": Fct(statistic="p50"), "use": Throughput()}
        made.fits("check", Parts(measures, dict.fromkeys(of.contenders), self.axes))
        return made.judge(of, self.fct)  # type: ignore[no-any-return]


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
    made.fits("check", Parts(MEASURES, dict.fromkeys(of.contenders), {"k": K}))
    return made.judge(of, MEASURES["m"])


ORDER = {"kind": "order", "one": "a", "other": "b"}
RANK = {"kind": "rank", "one": "a", "others": ["b", "c"]}
PAYS = {"measure": "m", "contender": "b"}
WITHIN = {"kind": "within", "contender": "a"}
TREND = {"kind": "trend", "contender": "a", "axis": "k"}
REACHES = {"kind": "reaches", "contender": "a", "axis": "k", "level": 5.0, "low": 15, "high": 20}
NEAR = {"kind": "near", "contender": "a", "low": 0.5, "high": 2.0}


@pytest.mark.parametrize(("check", "a", "b", "holds"), rows(__file__, "verdicts.yaml"))
def test_verdicts(check: dict[str, Any], a: list[float], b: list[float], holds: bool | None) -> None:
    found = judge(table(a=a, b=b), **check)
    assert found.holds is holds
    assert found.text


@pytest.mark.parametrize(
    ("more", "a", "holds"),
    [
        ({}, [1, 2], True),
        ({}, [1, 3], False),
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


@pytest.mark.parametrize(
    ("check", "starving", "holds"),
    [
        ({"relation": ">="}, "a", False),  # of a throughput, more is better: the check is in favour of a
        ({"relation": ">="}, "b", True),
        ({"relation": ">=", "one": "b", "other": "a", "factor": 0.5, "tolerance": 1}, "b", False),
        ({"relation": "<=", "factor": 9}, "b", False),
        ({"relation": "<=", "factor": 9}, "a", True),
    ],
)
def test_a_contender_with_an_invalid_run_wins_no_check(check: dict[str, Any], starving: str, holds: bool) -> None:
    whole = table(a=[2, 2, 2], b=[1, 1, 1])
    assert judge(whole, **{**ORDER, **check}).holds is True
    spoilt = replace(whole, invalid={(starving, (20.0,)): 1})
    found = judge(spoilt, **{**ORDER, **check})
    assert found.holds is holds
    assert (f"because of invalid runs of {starving}" in found.text) is not holds
    assert judge(spoilt, **{**ORDER, **check}, at={"k": 10}).holds is True, "the run was of another point"


def test_no_place_is_won_with_an_invalid_run() -> None:
    best = table(a=[1, 1], b=[2, 2], c=[3, 3])
    lost = replace(best, invalid={("a", (10.0,)): 2})
    others = replace(best, invalid={("b", (10.0,)): 2})
    slow = Fct()
    made = from_dict(kinds(AnyCheck)["rank"], {**PLAIN, **RANK}, "check")
    assert [made.judge(of, slow).holds for of in (best, lost, others)] == [True, False, True]
    alone = from_dict(kinds(AnyCheck)["within"], {**PLAIN, **WITHIN, "low": 0}, "check")
    assert [alone.judge(of, slow).holds for of in (best, lost, others)] == [True, False, True]


def test_an_invalid_run_does_not_take_its_point_away() -> None:
    check = {**ORDER, "relation": "<=", "where": {**PAYS, "above": 3}}
    spoilt = replace(table(a=[5, 0], b=[2, 3.5]), invalid={("b", (10.0,)): 1})
    assert judge(spoilt, **check).holds is False


def test_an_undefined_value_never_holds() -> None:
    spoilt = Table(
        axes={"k": (10.0,)},
        contenders=("a", "b"),
        values={("m", "a", (10.0,)): (5.0, math.nan), ("m", "b", (10.0,)): (1.0, 1.0)},
    )
    assert judge(spoilt, **ORDER, relation=">=").holds is False


@pytest.mark.parametrize(("check", "said"), rows(__file__, "refused.yaml")["checks"])
def test_what_cannot_be_judged_is_refused(check: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        judge(table(a=[1, 2, 3], b=[1, 2, 3]), **check)


SLOW, FAST = (0.4, 0.6, 0.5, 0.7, 0.3), (0.2, 0.4, 0.3, 0.5, 0.1)
GAP = {"kind": "gap_closed", "from": "a", "one": "b", "bound": "b"}


@pytest.mark.parametrize(
    ("bounds", "holds"),
    [
        ({"low": 0.499}, True),
        ({"low": 0.501}, False),
        ({"low": 0.0, "high": 0.4}, False),
        ({"low": -1, "high": 1}, True),
    ],
)
def test_a_gap_closed_is_a_share_of_the_way_to_the_bound(bounds: dict[str, float], holds: bool) -> None:
    # From 500 ms to 100 ms, and 300 ms is half of the way.
    found = Drawn().judge(Drawn().table(a=SLOW, b=FAST), **GAP, **bounds)
    assert found.holds is holds
    assert found.text.startswith("50 % [")
    assert found.text.endswith("]: 300.000 on the way from 500.000 to 100.000")


def test_where_there_is_no_gap_none_is_closed() -> None:
    found = Drawn().judge(Drawn().table((0.5,) * 5, a=SLOW, b=FAST), **GAP, low=-9)
    assert (found.holds, found.text) == (False, "no gap: 300.000 on the way from 500.000 to 500.000")
    spoilt = Drawn().judge(Drawn().table(a=(math.nan, *SLOW[1:]), b=FAST), **GAP, low=-9)
    assert spoilt.holds is False
    worse = Drawn().judge(Drawn().table(a=FAST, b=SLOW), **GAP, low=0)
    assert worse.holds is False
    assert worse.text.startswith("-100 %")
    one = Drawn().judge(Drawn().table((0.1,), a=(0.5,), b=(0.2,)), **GAP, low=0.7)
    assert (one.holds, one.text.split(":")[0]) == (True, "75 %"), "one seed has no interval"


@pytest.mark.parametrize(("check", "said"), rows(__file__, "refused.yaml")["gaps"])
def test_gaps_of_what_has_none_are_refused(check: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Drawn().judge(Drawn().table(a=SLOW, b=FAST), **check)


@pytest.mark.parametrize(
    ("ours", "holds", "narrow"),
    [
        ((1.0, 1.0, 1.0, 1.0, 1.1), True, False),
        ((1.0, 1.0, 1.0, 1.0, 3.9), True, True),  # without the last it is 1, and with it twice 2.2
        ((1.0, 1.0, 1.0, 1.0, 5.1), False, True),
        ((3.0, 3.0, 3.0, 3.0, 3.1), False, False),
        ((2.5, 1.0), True, False),  # too few seeds to tell
    ],
)
def test_an_outcome_that_other_seeds_may_turn_is_narrow(ours: tuple[float, ...], holds: bool, narrow: bool) -> None:
    """At most 0.8 of 2.25 on all seeds."""
    drawn = Drawn()
    of = drawn.table(ours=ours, theirs=(2.25,) * len(ours), goal=(0.1,) * len(ours))
    for check in (
        {"kind": "order", "one": "ours", "other": "theirs", "relation": "<=", "factor": 0.8},
        {"kind": "within", "contender": "ours", "high": 1.8},
    ):
        found = drawn.judge(of, **check)
        assert (found.holds, found.narrow) == (holds, narrow)


def test_seeds_that_leave_nothing_to_judge_turn_nothing() -> None:
    """Only where the other one is above 2.2, which half of the drawings are not."""
    of = Drawn().table(ours=(1.0,) * 5, theirs=(1.0, 1.0, 1.0, 1.0, 7.5))
    where = {"measure": "f", "contender": "theirs", "above": 2.2}
    found = Drawn().judge(of, kind="within", contender="ours", high=2.0, where=where)
    assert (found.holds, found.narrow) == (True, False)
