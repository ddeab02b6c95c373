# SPDX-License-Identifier: BSD-3-Clause
"""Verdicts by hand, pairing, and the pages that say them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncc.agreement.cases import LoadCase
from ncc.agreement.compare import Figure, Sample, figures, flow_ratios, paired, sample
from ncc.agreement.figures import draw
from ncc.agreement.page import write_pages
from ncc.agreement.report import Compared, FlowByFlow, Report
from ncc.agreement.small import SMALL_CASES, SmallRow
from ncc.core.errors import InvalidRunError
from ncc.harness.manifest import provenance
from ncc.harness.results import save_run
from ncc.metrics.stats import Interval
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
    # The fluid has no queue: 0 over 0 says nothing, something over 0 is a difference.
    nothing = {f.key: f for f in figures(fluid, fluid, fluid)}["queue_bytes"]
    assert nothing.verdict == "nothing"
    some = {f.key: f for f in figures([replace(s, queue_bytes=10.0) for s in fluid], fluid, fluid)}["queue_bytes"]
    assert some.verdict == "outside"


def test_flow_ratios_pair_by_row(fluid: list[Sample]) -> None:
    assert flow_ratios(slower(fluid, 1.5), fluid) == pytest.approx(1.5)
    flows = FlowByFlow(*(np.ones(4),) * 3, ratio=np.array([1.0, 1.01, 0.95, 1.2]), noise=np.ones(4))  # type: ignore[arg-type]
    assert flows.shares(flows.ratio) == [0.5, 0.75, 0.75]
    assert flows.same(np.array([1.0, 1 + 4e-10, 1 - 6e-10, 1.01])) == 2  # flows of a second: by 0.4 ns and by 0.6 ns


def test_runs_of_other_flows_are_refused(tmp_path: Path) -> None:
    stored = [save_run(fluid_run(seed), tmp_path / str(seed), config={}) for seed in (1, 2)]
    a, b = paired(stored[:1], stored[:1])
    assert np.array_equal(a[0].fct_s, b[0].fct_s)
    with pytest.raises(InvalidRunError, match="other flows on the other side"):
        paired(stored[:1], stored[1:])


def report(fluid: list[Sample], factor: float, *, problems: tuple[str, ...] = ()) -> Report:
    ours = slower(fluid, factor)
    small = tuple(
        SmallRow(case.name, "dctcp", i, 1460, (1.001, 1.0), (1, 1), (0, 0), (2, 3))
        for case in SMALL_CASES
        for i in range(2)
    )
    sizes = np.concatenate([s.flows.size_bytes for s in fluid])
    fct, other = (np.concatenate([s.fct_s for s in side]) for side in (ours, fluid))
    flows = FlowByFlow(sizes, fct, other, fct / other, np.ones(len(fct)))
    case = LoadCase("rack_fluid_60", "a small rack", small_rack())
    return Report(
        ours="packetsim",
        reference="ns3",
        preset="quick",
        controllers=("dctcp",),
        seeds=(1, 2, 3),
        small=small,
        compared=(Compared(case, "dctcp", figures(ours, fluid, fluid), flows, problems),),
        provenance=provenance(),
        made_of={"packetsim": ["0123456789"], "ns3": ["0123456789+"]},
        cpu_s={"packetsim": 1.0, "ns3": 20.0},
        wall_s=3.0,
    )


def test_a_report_agrees_unless_a_bound_or_a_run_fails(fluid: list[Sample]) -> None:
    assert report(fluid, 1.0).agrees
    assert not report(fluid, 1.2).agrees
    assert not report(fluid, 1.0, problems=("flow 3 was not delivered",)).agrees
    one = report(fluid, 1.0)
    assert not replace(one, small=(replace(one.small[0], fct_s=(1.02, 1.0)), *one.small[1:])).agrees


def test_pages_say_what_was_found_and_keep_the_causes(fluid: list[Sample], tmp_path: Path) -> None:
    (tmp_path / "causes.md").write_text("<!-- SPDX-License-Identifier: BSD-3-Clause -->\nTies are broken otherwise.\n")
    made = report(fluid, 1.2, problems=("seed 1: lost a flow",))
    draw(made, tmp_path)
    write_pages(made, tmp_path)
    overview, page = ((tmp_path / name).read_text() for name in ("README.md", "dctcp.md"))
    assert "Not all bounds hold." in overview
    assert "Ties are broken otherwise." in overview
    assert overview.count("SPDX") == 1
    assert "0.1000 %, ce 2 / 3" in overview
    assert "invalid runs" in overview
    assert "| **outside** |" in page
    assert "1.200 [1.200, 1.200]" in page
    assert "lost a flow" in page
    named = {text.split(")")[0] for text in (overview + page).split("](")[1:]}
    assert {name for name in named if not (tmp_path / name).exists()} == set()
    for picture in tmp_path.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    data = json.loads((tmp_path / "results.json").read_text())
    assert data["agrees"] is False
    (load,) = data["load"]
    assert load["figures"]["slowdown_all_mean"]["ratio"] == pytest.approx([1.2, 1.2, 1.2])
    assert load["flows_within"] == {"0.01": 0.0, "0.05": 0.0, "0.1": 0.0}
    assert len(data["small"]) == 2 * len(SMALL_CASES)
