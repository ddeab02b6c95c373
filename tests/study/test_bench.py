# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark measures something and judges it rightly; no test asks how fast anything is."""

from collections.abc import Callable
from importlib import import_module
from inspect import signature

import pytest

from ncc.bench import main
from ncc.core.errors import DatapathError
from ncc.study.bench import GROUPS, packetsim, stepping, training
from ncc.study.bench.packetsim import FABRICS
from ncc.study.bench.rows import Row, in_turn, over, table
from tests.envs.cases import poisson, rack, spec

SMALL = rack(poisson(), hosts=2, periods=60)


@pytest.mark.parametrize(
    ("measure", "expected", "repeats"),
    [
        (lambda: stepping.on_ns3(epochs=5, repeats=2, spec=spec(SMALL)), 3, 2),
        (lambda: stepping.entry_points(epochs=5, repeats=2, scenario=SMALL, racks=2), 2, 2),
        (lambda: stepping.racks_together(epochs=3, repeats=1, racks=(2, 3)), 3, 1),
        (lambda: packetsim.over_ns3(flow_pkts=20, repeats=2, laps=2), 6, 2),
        (lambda: packetsim.over_bare(flow_pkts=100, repeats=2), 4, 2),
        (lambda: packetsim.many_hosts(repeats=1, epochs=1, tiny=True), len(FABRICS) + 1, 1),
        (lambda: packetsim.recovery(repeats=1, epochs=1), 2, 1),
        (lambda: packetsim.receivers(repeats=1, epochs=1), 3, 1),
        (lambda: training.over_ns3(epochs=20, repeats=1, racks=2, longer=2, spec=spec(SMALL)), 3, 1),
    ],
)
def test_every_row_is_measured(measure: Callable[[], list[Row]], expected: int, repeats: int) -> None:
    rows = measure()
    assert all(len(row.values) == repeats and min(row.values) > 0 for row in rows)
    assert table("some", rows).row_count == len(rows) == expected


def test_every_group_names_functions_that_take_what_it_gives() -> None:
    for group in GROUPS.values():
        for name, presets in group["rows"].items():
            module, _, function = name.partition(".")
            taken = signature(getattr(import_module(f"ncc.study.bench.{module}"), function))
            for preset in ("quick", "full"):
                taken.bind(**presets[preset])


def test_tasks_take_turns_from_both_ends() -> None:
    seen: list[float] = []

    def task(number: float) -> Callable[[], float]:
        def run() -> float:
            seen.append(number)
            return number

        return run

    assert in_turn(3, task(1), task(2)) == [(1, 1, 1), (2, 2, 2)]
    assert seen == [1, 2, 2, 1, 1, 2]
    assert over((4.0, 9.0), (2.0, 3.0)) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("values", "verdict"), [((49.0, 51.0, 40.0), "met"), ((49.0, 51.0, 52.0), "missed"), ((50.0,), "met")]
)
def test_the_median_is_compared_with_the_target(values: tuple[float, ...], verdict: str) -> None:
    assert Row("a", values, "us", at_most=50).cells()[3:] == ("<= 50", verdict)
    assert Row("a", tuple(-value for value in values), "x", at_least=-50).cells()[3:] == (">= -50", verdict)
    assert Row("a", (1.0, 2.0, 4.0), "ms").cells() == ("a", "2 ms", "1 to 4", "", "")


def test_an_unknown_group_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sped"]) == 2
    said = capsys.readouterr().err
    assert "'sped'" in said
    assert all(group in said for group in GROUPS)


def test_what_cannot_run_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(**_: int) -> list[Row]:
        raise DatapathError("run `make build`")

    monkeypatch.setattr(packetsim, "over_ns3", missing)
    assert main(["--quick", "ns3"]) == 1
    assert capsys.readouterr().err == "error: run `make build`\n"
