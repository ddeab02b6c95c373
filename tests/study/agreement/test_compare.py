# SPDX-License-Identifier: BSD-3-Clause
"""Verdicts by hand, pairing, and the page that says them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import InvalidRunError, UnknownNameError
from ncc.harness.results import save_run
from ncc.metrics.stats import Interval
from ncc.study.agreement.cases import LoadCase
from ncc.study.agreement.compare import Compared, Figure, FlowByFlow, Sample, compare_runs, figures, sample
from ncc.study.agreement.figures import FIGURE, draw
from ncc.study.agreement.pages import page, tables
from ncc.study.agreement.run import Summary, summarised
from ncc.study.agreement.small import SMALL_CASES, Row, inside
from tests.support.experiments import fluid_run, small_rack

ONE = Interval(1.0, 1.0, 1.0, 2, 0)


@pytest.fixture(scope="module")
def fluid() -> list[Sample]:
    (web,) = small_rack().workload
    scenario = small_rack().replace(workload=(("hadoop", web[1].replace(distribution="hadoop")),))
    return [sample(fluid_run(seed, scenario=scenario)) for seed in (1, 2, 3)]


def slower(samples: list[Sample], factor: float) -> list[Sample]:
    return [replace(s, fct_s=factor * s.fct_s, slowdown=factor * s.slowdown) for s in samples]


def figure(estimate: float, *, enough: bool = True, low: float | None = 0.95, high: float | None = 1.05) -> Figure:
    ratio = replace(ONE, estimate=estimate)
    return Figure("slowdown_all_mean", estimate, 1.0, ratio, ONE, low, high, 1000, enough)


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (figure(1.0), "inside"),
        (figure(1.05), "inside"),
        (figure(0.95), "inside"),
        (figure(1.0501), "outside"),
        (figure(0.9499), "outside"),
        (figure(float("nan")), "outside"),
        (figure(2.0, enough=False), "too few"),
        (figure(2.0, low=None, high=None), ""),
        (replace(figure(float("nan"), enough=False), ours=0.0, reference=0.0), "too few"),
        (replace(figure(float("nan")), ours=0.0, reference=0.0), "nothing"),
    ],
)
def test_verdicts(made: Figure, verdict: str) -> None:
    assert made.verdict == verdict


def test_equal_runs_agree_and_slower_flows_show_in_every_slowdown(fluid: list[Sample]) -> None:
    same = {f.key: f for f in figures(fluid, fluid, fluid)}
    assert same["slowdown_all_mean"].ratio.estimate == 1
    assert same["throughput_bps"].ratio.estimate == 1
    assert same["loss_frac"].verdict == "too few"  # nothing is lost on either side
    assert {f.verdict for f in same.values()} <= {"inside", "too few", "nothing", ""}
    other = {f.key: f for f in figures(slower(fluid, 1.07), fluid, slower(fluid, 1.01))}
    for key, each in other.items():
        if key.startswith("slowdown"):
            assert each.ratio.estimate == pytest.approx(1.07)
            assert each.noise.estimate == pytest.approx(1.01)
    assert other["throughput_bps"].ratio.estimate == 1


def test_queue_of_nothing_has_no_ratio(fluid: list[Sample]) -> None:
    # 0 over 0 says nothing, something over 0 is a difference.
    idle, waiting = ([replace(s, summary={**s.summary, "queue_bytes": n}) for s in fluid] for n in (0.0, 10.0))
    nothing = {f.key: f for f in figures(idle, idle, idle)}["queue_bytes"]
    assert nothing.verdict == "nothing"
    some = {f.key: f for f in figures(waiting, idle, idle)}["queue_bytes"]
    assert some.verdict == "outside"


CASE = LoadCase("rack_fluid_60", "a small rack", small_rack())


def test_flows_are_counted_by_how_near_they_are() -> None:
    flows = FlowByFlow(*(np.ones(4),) * 3, ratio=np.array([1.0, 1.01, 0.95, 1.2]), noise=np.ones(4))  # type: ignore[arg-type]
    assert flows.shares(flows.ratio) == [0.5, 0.75, 0.75]
    assert flows.same(np.array([1.0, 1 + 4e-10, 1 - 6e-10, 1.01])) == 2  # flows of a second: by 0.4 ns and by 0.6 ns


def test_runs_are_paired_and_those_of_other_flows_are_refused(tmp_path: Path) -> None:
    one, two = ([save_run(fluid_run(seed), tmp_path / str(seed), config={})] for seed in (1, 2))
    found = compare_runs(CASE, "fluid", one, one, one)
    assert found.flows.ratio == pytest.approx(1)
    assert found.problems == ()
    with pytest.raises(InvalidRunError, match="other flows on the other side"):
        compare_runs(CASE, "fluid", one, one, two)


def compared(fluid: list[Sample], factor: float, problems: tuple[str, ...] = ()) -> Compared:
    ours = slower(fluid, factor)
    sizes = np.concatenate([s.flows.size_bytes for s in fluid])
    fct, other = (np.concatenate([s.fct_s for s in side]) for side in (ours, fluid))
    flows = FlowByFlow(sizes, fct, other, fct / other, np.ones(len(fct)))
    return Compared(CASE, "dctcp", figures(ours, fluid, fluid), flows, problems)


def small(fct_s: float = 1.001) -> list[Row]:
    rows: list[Row] = [
        {"case": case.name, "controller": "dctcp", "flow": i, "fct_s": [fct_s, 1.0]}
        | {"retransmitted_pkts": [1, 1], "timeouts": [0, 0], "ce_pkts": [2, 3]}
        for case in SMALL_CASES
        for i in range(2)
    ]
    return [{**row, "inside": inside(row)} for row in rows]


def summary(found: Compared, rows: list[Row]) -> Summary:
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


def test_the_page_says_what_was_found_and_tables_have_every_figure(fluid: list[Sample], tmp_path: Path) -> None:
    found = compared(fluid, 1.2, ("seed 1: lost a flow",))
    data = summary(found, small())
    draw(data, [found], tmp_path / FIGURE)
    overview, shown = page(data), tables(data, ["dctcp"])
    assert "Not all bounds hold." in overview
    (row,) = (line for line in overview.splitlines() if line.startswith("| DCTCP |"))
    n, judged = 2 * len(SMALL_CASES), sum(f.verdict in ("inside", "outside") for f in found.figures)
    assert f"| {n} of {n} | {len(found.flows.ratio)} | 0 | 100.0% |" in row
    assert row.endswith(f" of {judged} | {judged} of {judged} |")
    assert "- `rack_fluid_60`, DCTCP: FCT slowdown, all flows, mean: ratio 1.200\n" in overview
    assert "- `rack_fluid_60`, DCTCP: invalid run: seed 1: lost a flow\n" in overview
    assert "| **outside** |" in shown
    assert "| 1.200 |" in shown
    named = {text.split(")")[0] for text in overview.split("](")[1:]}
    assert {name for name in named if not (tmp_path / name).exists()} == {"results.json"}
    assert (tmp_path / FIGURE).read_bytes().startswith(b"\x89PNG")
    assert json.loads(json.dumps(data, allow_nan=False))["agrees"] is False
    (load,) = data["load"]
    assert load["figures"]["slowdown_all_mean"]["ratio"] == pytest.approx([1.2, 1.2, 1.2])
    assert load["flows_within"] == {"0.01": 0.0, "0.05": 0.0, "0.1": 0.0}
    with pytest.raises(UnknownNameError, match="controller of the report 'dctpc'"):
        tables(data, ["dctpc"])


def test_a_small_flow_that_is_outside_is_named(fluid: list[Sample]) -> None:
    overview = page(summary(compared(fluid, 1.0), small(1.02)))
    assert "- `one_flow`, DCTCP, flow 0: FCT +2.0000 %, marks 2 / 3\n" in overview
    assert "\nOutside:\n" not in page(summary(compared(fluid, 1.0), small()))
