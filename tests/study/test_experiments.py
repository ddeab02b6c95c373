# SPDX-License-Identifier: BSD-3-Clause
"""Every experiment of configs/experiment/: its grid, its networks on both simulators, and its page from one run.

`make check-experiments` runs all contenders at all points of a preset.
"""

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ncc.baselines.registry import transport_params
from ncc.harness.datapath import announce
from ncc.harness.pool import Job, evaluate
from ncc.harness.run import eval_flow_seed
from ncc.run.compose import experiment_names, load_datapath
from ncc.study.draw import draw
from ncc.study.experiments_page import full_tables, pages
from ncc.study.load import load_experiment
from ncc.study.measures import measure_all
from ncc.study.measures_base import MeasuredRun
from ncc.study.page import plain as text_of
from ncc.study.points import Cell
from ncc.study.result import FIGURE, JSON, Result, read_result
from ncc.study.table import Table
from tests.study.grids import grid
from tests.support.here import Here

SIMULATORS = ("packetsim", "ns3")
LONG = {
    "bcc_b2", "bcc_b3", "credit_dumbbell", "gemini_g2", "gemini_g3", "gemini_g6", "letflow_asymmetry",
    "pfabric_websearch", "pias_lab", "pias_websearch",
}  # fmt: skip
"""Experiments of which a fifth of a run is enough for every measure, and a whole one takes most of a second."""
EVERY = pytest.mark.parametrize("name", experiment_names())


def has(name: str, cell: Cell) -> bool:
    """True if a datapath has the cell's transports: ours, or those that go by its name."""
    return all(each in transport_params() or each.startswith(f"{name}::") for each in cell.controller.stack.transports)


@EVERY
def test_every_preset_can_be_run(name: str) -> None:
    presets = load_experiment(name)[0].presets
    assert {"quick", "sweep" if name.startswith("tuning_") else "full"} <= set(presets)
    places = (*SIMULATORS, "linux") if "linux" in name else SIMULATORS
    for preset in presets:
        cells = grid(name, preset).cells
        assert len({cell.controller.name for cell in cells}) == len(cells)
        for cell in cells:
            assert any(has(place, cell) for place in places), cell.controller


@EVERY
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_every_contender_starts_at_every_point(simulator: str, name: str) -> None:
    of = grid(name, "quick")
    cells = [cell for cell in of.cells if has(simulator, cell)]
    assert cells
    with closing(load_datapath(simulator).load()()) as datapath:
        for cell in cells:
            placed = cell.controller.placed(cell.scenario)
            flows, limiter = placed.flows(eval_flow_seed(0)), of.policies(cell.controller, cell.scenario)
            limiter.reset(placed, 0)
            decision = limiter.decide(datapath.start(placed, flows, cell.controller.stack, 0))
            assert datapath.step(announce(datapath, decision)).epoch == 1


@EVERY
def test_a_run_is_measured_judged_and_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of one contender at one point stand for those of all. Pictures are laid out, not painted."""
    monkeypatch.setattr("ncc.results.plot.canvas.save_figure", lambda figure, _: figure.draw_without_rendering())
    of = grid(name, "quick")
    experiment = of.experiment
    cell, simulator = next((cell, each) for cell in of.cells for each in SIMULATORS if has(each, cell))
    scenario = cell.scenario.replace(duration_s=cell.scenario.duration_s * (0.2 if name in LONG else 1))
    jobs = [Job(scenario, cell.controller, 0)]
    (stored,) = evaluate(jobs, tmp_path, load_datapath(simulator).load(), of.policies, executor=Here()).runs
    run = stored.load().require_valid()
    values = measure_all(experiment.measures, run)
    assert all(map(math.isfinite, values.values())), values
    everywhere = {(at.contender, at.point) for at in of.cells}
    empty = Table(axes=of.axes, contenders=tuple(experiment.contenders), values={})
    table = replace(
        empty,
        values={(measure, *at): (value,) for measure, value in values.items() for at in everywhere},
        expected={(v.measure, v.contender, p): v.value for v in experiment.values for p in empty.points(v.at)},
    )
    found = {key: check.judge(table, experiment.measures[check.measure]) for key, check in experiment.checks.items()}
    assert any(each.holds is not None for each in found.values()), "a preset that leaves everything out says nothing"
    result = Result(
        grid=of, datapath=simulator, seeds=(0,), table=table, findings=found, problems=(), n_flows=len(run.flows),
        wall_s=run.wall_s, cpu_s=run.cpu_s, commits=(),
    )  # fmt: skip
    timed = {panel.measure: experiment.measures[panel.measure] for panel in experiment.panels if panel.over_time}
    courses = {(key, *at): measure.course(MeasuredRun(run)) for key, measure in timed.items() for at in everywhere}
    draw(result, courses, tmp_path / FIGURE)
    result.save(tmp_path)
    plain = {simulator: read_result(tmp_path / JSON)}
    index, page = pages({name: plain}, {name: experiment}, {}).values()
    assert text_of(experiment.title) in index
    assert text_of(experiment.title) in page
    shown = full_tables(name, plain)
    assert all(text_of(measure.shown.title) in shown for measure in experiment.measures.values())
