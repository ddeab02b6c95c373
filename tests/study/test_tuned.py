# SPDX-License-Identifier: BSD-3-Clause
"""Opponents at their best: sets that were chosen on networks of NCC's training, and the rule that chose them."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncc.core.errors import ConfigError, ResultError
from ncc.core.workload import Poisson
from ncc.envs.scenarios import make_scenario
from ncc.run.compose import experiment_names
from ncc.run.config_files import config_paths, read_config
from ncc.run.tuned import GROUP, tuned_for, tuned_names, tuning_of
from ncc.study import tuning
from ncc.study.load import load_experiment
from ncc.study.points import Grid, grid_of
from ncc.study.spec import experiment_from
from ncc.study.table import At, Table
from tests.study.grids import grid
from tests.study.toy import toy

SWEEPS = tuple(name for name in experiment_names() if name.startswith("tuning_"))


def test_no_sweep_runs_on_a_network_or_on_flow_sizes_that_ncc_is_judged_on() -> None:
    judged = [c.scenario for name in experiment_names() if name.startswith("ncc_") for c in grid(name, "full").cells]
    topologies = {scenario.topology.replace(mark_threshold_bytes=0).digest() for scenario in judged}
    sizes = {part.distribution for each in judged for _, part in each.workload if isinstance(part, Poisson)}
    for name in SWEEPS:
        for cell in grid(name, "quick").cells:
            own = {part.distribution for _, part in cell.scenario.workload if isinstance(part, Poisson)}
            assert own
            assert not own & sizes
            if name != "tuning_incast":  # there the network may be the same: what comes through it is not
                assert cell.scenario.topology.replace(mark_threshold_bytes=0).digest() not in topologies


@pytest.mark.parametrize("name", config_paths(GROUP))
def test_a_committed_set_is_a_point_of_its_sweep(name: str) -> None:
    experiment, scenario = load_experiment(f"tuning_{name}")
    swept = [axis.at(x) for axis_name, axis in experiment.axes.items() if axis_name != tuning.CELL for x in axis.points]
    for contender in experiment.contenders.values():
        chosen = tuning_of(name, contender.controller, scenario)
        keys = {
            **chosen.changes,
            **{f"contenders.{contender.controller}.params.{key}": value for key, value in chosen.params.items()},
        }
        assert all(any(point.get(key) == value for point in swept) for key, value in keys.items())


TUNED = {
    "topology": "many_to_one",
    "controllers": {
        "dctcp": {
            "changes": {"scenario.topology.mark_threshold_bytes": 12000},
            "params": {"g_shift": 6, "alpha_init": 0},
        }
    },
}


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(group: str, what: str, name: str) -> Any:
        return TUNED if (group, name) == (GROUP, "mine") else read_config(group, what, name)

    monkeypatch.setattr("ncc.run.tuned.read_config", read)


def toy_grid(**contender: Any) -> Grid:
    return grid_of("toy", *experiment_from(toy(contenders__gentle=contender), "toy"), "full")


@pytest.mark.usefixtures("sets")
def test_a_contender_s_own_settings_lie_over_its_tuned_set_s() -> None:
    of = toy_grid(
        controller="dctcp", tuned="mine", params={"g_shift": 3},
        changes={"scenario.topology.mark_threshold_bytes": 45000},
    )  # fmt: skip
    gentle = [cell for cell in of.cells if cell.contender == "gentle"]
    assert {cell.scenario.topology.mark_threshold_bytes for cell in gentle} == {45000}
    assert all(dict(cell.controller.stack.params)["alpha_init"] == 0 for cell in gentle)
    assert all(dict(cell.controller.stack.params)["g_shift"] != 6 for cell in gentle)
    tuned = toy_grid(controller="dctcp", tuned="mine")
    marks = {c.contender: c.scenario.topology.mark_threshold_bytes for c in tuned.cells}
    assert marks == {"gentle": 12000, "plain": 0}, "over the axis, which sets it too"


@pytest.mark.usefixtures("sets")
@pytest.mark.parametrize(
    ("contender", "said"),
    [
        (
            {"controller": "dctcp", "tuned": "rack"},
            "tuned set 'rack' .* kind rack, and this one is of kind many_to_one: name incast; or leave tuned out",
        ),
        ({"controller": "dctcp", "tuned": "rakc"}, "Unknown tuned set 'rakc'.* Did you mean 'rack'"),
        ({"controller": "newreno", "tuned": "mine"}, "Unknown controller in tuned set 'mine' 'newreno'"),
    ],
)
def test_what_a_set_does_not_have_is_refused_by_name(contender: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        toy_grid(**contender)


def test_a_set_for_each_kind_of_network_gives_a_tuned_controller_its_settings() -> None:
    names = tuned_names()
    assert {"dctcp_tuned", "vegas_tuned"} <= set(names)
    assert "local_tuned" not in names, "a controller of its own"
    scenario = make_scenario("incast")
    params, tuned = tuned_for("dctcp", scenario)
    chosen = tuning_of("incast", "dctcp", scenario.to_dict())
    assert params == chosen.params
    assert tuned.topology.mark_threshold_bytes == chosen.changes["scenario.topology.mark_threshold_bytes"]
    assert tuned.workload == scenario.workload
    assert tuned.name == scenario.name


def sweep(**changes: Any) -> tuple[Any, Any]:
    plain = toy(
        axes={
            "threshold": {
                "label": "K", "values": [20, 50],
                "sets": [{"key": "scenario.topology.mark_threshold_bytes", "scale": 1500}],
            },
            "own": {"label": "g", "cases": {"default": {}, "slow": {"contenders.dctcp.params.g_shift": 6}}},
            "cell": {"label": "cell", "cases": {"a": {}, "b": {"scenario.duration_s": 0.2}}},
        },
        contenders={"dctcp": {"controller": "dctcp"}},
        measures={"mean": {"kind": "fct"}, "goodput": {"kind": "summary", "metric": "goodput_bps"}},
        checks={"c": {"kind": "within", "claim": "", "measure": "mean", "contender": "dctcp", "low": 0}},
        values=[], panels=[{"measure": "mean"}], presets__quick__axes={},
        scenario__topology__mark_threshold_bytes=30000,
        **changes,
    )  # fmt: skip
    return experiment_from(plain, "toy")


def table(fct: dict[tuple[float, str], tuple[float, float]], goodput: dict[tuple[float, str], float]) -> Table:
    values: dict[tuple[str, str, At], tuple[float, ...]] = {}
    for (k, own), cells in fct.items():
        for cell, value in zip("ab", cells, strict=True):
            values["mean", "dctcp", (k, own, cell)] = (value,)
            values["goodput", "dctcp", (k, own, cell)] = (goodput.get((k, own), 1.0),)
    axes: dict[str, At] = {"threshold": (20.0, 50.0), "own": ("default", "slow"), "cell": ("a", "b")}
    return Table(axes=axes, contenders=("dctcp",), values=values)


AS_IS, WIDE, SLOW, BOTH = (20.0, "default"), (50.0, "default"), (20.0, "slow"), (50.0, "slow")


def test_the_lowest_geometric_mean_wins_among_settings_that_keep_the_goodput() -> None:
    experiment, scenario = sweep()
    # WIDE is best in the mean of ratios of nothing: 1 and 0.5; SLOW has 0.6 twice; BOTH would be best, at less goodput.
    fct = {AS_IS: (1.0, 4.0), WIDE: (1.0, 2.0), SLOW: (0.6, 2.4), BOTH: (0.1, 0.1)}
    best = tuning.chosen(experiment, scenario, table(fct, {BOTH: 0.97}))
    assert best["dctcp"][0] == SLOW
    assert best["dctcp"][1] == pytest.approx(0.6)
    found = tuning.tuned_set(experiment, scenario, table(fct, {BOTH: 0.97}))
    assert found.topology == "many_to_one"
    assert found.controllers["dctcp"].to_dict() == {
        "changes": {"scenario.topology.mark_threshold_bytes": 30000}, "params": {"g_shift": 6},
    }  # fmt: skip
    assert tuning.chosen(experiment, scenario, table(fct, {BOTH: 0.985}))["dctcp"][0] == BOTH


def test_a_sweep_without_cells_or_without_the_setting_as_it_is_is_refused() -> None:
    experiment, scenario = sweep()
    flat = {AS_IS: (1.0, 1.0), WIDE: (1.0, 1.0), SLOW: (1.0, 1.0), BOTH: (1.0, 1.0)}
    full = table(flat, {})
    with pytest.raises(ResultError, match="must have an axis 'cell'"):
        tuning.chosen(experiment, scenario, Table(axes={"threshold": (20.0,)}, contenders=("dctcp",), values={}))
    other = {**scenario, "topology": {**scenario["topology"], "mark_threshold_bytes": 45000}}
    with pytest.raises(ResultError, match="leaves the scenario as it is"):
        tuning.chosen(experiment, other, full)


def test_a_setting_under_which_flows_do_not_finish_is_not_chosen() -> None:
    experiment, scenario = sweep()
    undefined = (math.nan, math.nan)
    fct = {AS_IS: (1.0, 1.0), WIDE: undefined, SLOW: (0.9, 0.9), BOTH: (1.0, math.nan)}
    assert tuning.chosen(experiment, scenario, table(fct, {}))["dctcp"] == (SLOW, 0.9)
    with pytest.raises(ResultError, match="dctcp has no setting at which all flows finish"):
        tuning.chosen(experiment, scenario, table(dict.fromkeys(fct, undefined), {}))


def test_a_result_without_the_reference_or_a_measure_is_refused() -> None:
    experiment, scenario = sweep()
    full = table(dict.fromkeys((AS_IS, WIDE, SLOW, BOTH), (1.0, 1.0)), {})
    for wrong in (
        replace(full, contenders=("cubic",)),
        replace(full, values={key: value for key, value in full.values.items() if key[0] != "goodput"}),
    ):
        with pytest.raises(ResultError, match="must have contender 'dctcp' and measures 'mean' and 'goodput'"):
            tuning.chosen(experiment, scenario, wrong)


def test_the_command_prints_the_set_with_the_command_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuning, "load_experiment", lambda _: sweep())
    of = table({AS_IS: (1.0, 1.0), WIDE: (1.0, 2.0), SLOW: (0.5, 0.5), BOTH: (3.0, 3.0)}, {})
    result = {
        "format": 2, "name": "tuning_toy", "datapath": "packetsim", "complete": False, "written_at": "", "source": "",
        "commits": ["abc"], "holds": True, "verdict": "", "cells": [], "preset": "sweep", "seeds": [0, 1],
        "contenders": {"dctcp": "DCTCP"}, "axes": {name: {"points": list(points)} for name, points in of.axes.items()},
    }  # fmt: skip
    (tmp_path / "result.json").write_text(json.dumps(result))
    rows = [
        {"measure": m, "contender": c, **dict(zip(of.axes, at, strict=True)), "seed": 0, "value": each}
        for (m, c, at), values in of.values.items()
        for each in values
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "result.parquet")
    assert tuning.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "experiment=tuning_toy preset=sweep seeds=2` (commit abc)" in said
    assert "topology: many_to_one" in said
    assert "g_shift: 6" in said
    parquet = tmp_path / "result.parquet"
    pq.write_table(pa.Table.from_pylist([{"measure": "mean", "value": 1.0}]), parquet)
    assert tuning.main([str(tmp_path)]) == 1
    assert "result.parquet has no column cell, contender, own, threshold" in capsys.readouterr().err
    parquet.unlink()
    assert tuning.main([str(tmp_path)]) == 1
    assert "result.parquet cannot be read as Parquet" in capsys.readouterr().err
    assert tuning.main([str(tmp_path / "nowhere")]) == 1
    assert "run the experiment again" in capsys.readouterr().err
