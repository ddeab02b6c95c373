# SPDX-License-Identifier: BSD-3-Clause
"""Verdicts by hand, pairing, and the page that says them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import InvalidRunError
from ncc.harness.results import save_run
from ncc.study.agreement.cases import LoadCase
from ncc.study.agreement.compare import Row, Sample, compare_runs, figures, same, sample, verdict
from ncc.study.agreement.pages import page
from ncc.study.agreement.run import Summary, summarised
from ncc.study.agreement.small import SMALL_CASES, inside
from tests.support.experiments import fluid_run, small_rack


@pytest.fixture(scope="module")
def fluid() -> list[Sample]:
    (web,) = small_rack().workload
    scenario = small_rack().replace(workload=(("hadoop", web[1].replace(distribution="hadoop")),))
    return [sample(fluid_run(seed, scenario=scenario)) for seed in (1, 2, 3)]


def slower(samples: list[Sample], factor: float) -> list[Sample]:
    return [replace(s, fct_s=factor * s.fct_s, slowdown=factor * s.slowdown) for s in samples]


BOUND = (0.95, 1.05)


@pytest.mark.parametrize(
    ("ratio", "bound", "enough", "expected"),
    [
        (1.0, BOUND, True, "inside"),
        (1.05, BOUND, True, "inside"),
        (0.95, BOUND, True, "inside"),
        (1.0501, BOUND, True, "outside"),
        (0.9499, BOUND, True, "outside"),
        (float("nan"), BOUND, True, "outside"),
        (2.0, BOUND, False, "too few"),
        (2.0, None, True, ""),
    ],
)
def test_verdicts(ratio: float, bound: tuple[float, float] | None, enough: bool, expected: str) -> None:
    assert verdict(ratio, 1.0, ratio, bound, enough=enough) == expected


def test_nothing_over_nothing_is_no_verdict() -> None:
    assert verdict(0.0, 0.0, float("nan"), BOUND, enough=True) == "nothing"
    assert verdict(0.0, 0.0, float("nan"), BOUND, enough=False) == "too few"


def test_equal_runs_agree_and_slower_flows_show_in_every_slowdown(fluid: list[Sample]) -> None:
    same_figures = figures(fluid, fluid, fluid)
    assert same_figures["slowdown_all_mean"]["ratio"][0] == 1
    assert same_figures["throughput_bps"]["ratio"][0] == 1
    assert same_figures["loss_frac"]["verdict"] == "too few"  # nothing is lost on either side
    assert {f["verdict"] for f in same_figures.values()} <= {"inside", "too few", "nothing", None}
    other = figures(slower(fluid, 1.07), fluid, slower(fluid, 1.01))
    for key, each in other.items():
        if key.startswith("slowdown"):
            assert each["ratio"][0] == pytest.approx(1.07)
            assert each["noise"][0] == pytest.approx(1.01)
    assert other["throughput_bps"]["ratio"][0] == 1


def test_queue_of_nothing_has_no_ratio(fluid: list[Sample]) -> None:
    # 0 over 0 says nothing, something over 0 is a difference.
    idle, waiting = ([replace(s, summary={**s.summary, "queue_bytes": n}) for s in fluid] for n in (0.0, 10.0))
    assert figures(idle, idle, idle)["queue_bytes"]["verdict"] == "nothing"
    assert figures(waiting, idle, idle)["queue_bytes"]["verdict"] == "outside"


CASE = LoadCase("rack_fluid_60", "a small rack", small_rack())


def test_flows_of_the_same_nanosecond_are_counted(fluid: list[Sample]) -> None:
    one = replace(fluid[0], fct_s=np.ones(4))
    assert same(replace(one, fct_s=np.array([1.0, 1 + 4e-10, 1 - 6e-10, 1.01])), one) == 2


def test_runs_are_paired_and_those_of_other_flows_are_refused(tmp_path: Path) -> None:
    one, two = ([save_run(fluid_run(seed), tmp_path / str(seed), config={})] for seed in (1, 2))
    found = compare_runs(CASE, "fluid", one, one, one)
    assert found["n_flows"] == found["flows_same"] == found["flows_same_noise"] > 0
    assert found["problems"] == []
    with pytest.raises(InvalidRunError, match="other flows on the other side"):
        compare_runs(CASE, "fluid", one, one, two)


def compared(fluid: list[Sample], factor: float, problems: tuple[str, ...] = ()) -> Row:
    ours, n = slower(fluid, factor), sum(len(s.fct_s) for s in fluid)
    found = {"case": CASE.name, "what": CASE.what, "controller": "dctcp", "n_flows": n, "problems": list(problems)}
    equal = sum(map(same, ours, fluid))
    return found | {"flows_same": equal, "flows_same_noise": n, "figures": figures(ours, fluid, fluid)}


def small(fct_s: float = 1.001) -> list[Row]:
    rows: list[Row] = [
        {"case": case.name, "controller": "dctcp", "flow": i, "fct_s": [fct_s, 1.0]}
        | {"retransmitted_pkts": [1, 1], "timeouts": [0, 0], "ce_pkts": [2, 3]}
        for case in SMALL_CASES
        for i in range(2)
    ]
    return [{**row, "inside": inside(row)} for row in rows]


def summary(found: Row, rows: list[Row]) -> Summary:
    about = {
        "ours": "packetsim",
        "reference": "ns3",
        "preset": "quick",
        "controllers": ["dctcp"],
        "seeds": [1, 2, 3],
        "git": {"commit": "0123456789", "dirty": False},
        "machine": "a machine",
        "runs_made_at": {"packetsim": ["0123456789"], "ns3": ["0123456789+"]},
        "cpu_s": {"packetsim": 1.0, "ns3": 20.0},
        "wall_s": 3.0,
    }
    return summarised(about, rows, [found])


def test_a_report_agrees_unless_a_bound_or_a_run_fails(fluid: list[Sample]) -> None:
    assert summary(compared(fluid, 1.0), small())["agrees"]
    assert not summary(compared(fluid, 1.2), small())["agrees"]
    assert not summary(compared(fluid, 1.0, ("flow 3 was not delivered",)), small())["agrees"]
    assert not summary(compared(fluid, 1.0), small(1.02))["agrees"]


def test_the_page_says_what_was_found(fluid: list[Sample]) -> None:
    found = compared(fluid, 1.2, ("seed 1: lost a flow",))
    data = summary(found, small())
    overview = page(data)
    assert "Not all bounds hold." in overview
    (row,) = (line for line in overview.splitlines() if line.startswith("| DCTCP |"))
    n, judged = 2 * len(SMALL_CASES), sum(f["verdict"] in ("inside", "outside") for f in found["figures"].values())
    assert f"| {n} of {n} | {found['n_flows']} | 0 | 100.0% |" in row
    assert row.endswith(f" of {judged} | {judged} of {judged} |")
    assert "- `rack_fluid_60`, DCTCP: FCT slowdown, all flows, mean: ratio 1.200\n" in overview
    assert "- `rack_fluid_60`, DCTCP: invalid run: seed 1: lost a flow\n" in overview
    assert json.loads(json.dumps(data, allow_nan=False))["agrees"] is False
    (load,) = data["load"]
    assert load["figures"]["slowdown_all_mean"]["ratio"] == pytest.approx([1.2, 1.2, 1.2])


def test_a_small_flow_that_is_outside_is_named(fluid: list[Sample]) -> None:
    overview = page(summary(compared(fluid, 1.0), small(1.02)))
    assert "- `one_flow`, DCTCP, flow 0: FCT +2.0000 %, marks 2 / 3\n" in overview
    assert "\nOutside:\n" not in page(summary(compared(fluid, 1.0), small()))


def row(fct_s: tuple[float, float] = (1.0, 1.0), retransmitted: tuple[int, int] = (0, 0)) -> Row:
    return {"fct_s": fct_s, "retransmitted_pkts": retransmitted, "timeouts": (0, 0), "ce_pkts": (0, 0)}


def test_bounds_are_inclusive_and_each_counts() -> None:
    assert inside(row())
    assert inside(row(fct_s=(1.0099, 1.0)))
    assert not inside(row(fct_s=(1.0101, 1.0)))
    assert not inside(row(fct_s=(0.98, 1.0)))
    assert inside(row(retransmitted=(3, 2)))
    assert not inside(row(retransmitted=(2, 4)))
