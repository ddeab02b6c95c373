# SPDX-License-Identifier: BSD-3-Clause
"""Opponents at their best: sets that were chosen on networks of NCC's training."""

from typing import Any

import pytest

from ncc.core.errors import ConfigError
from ncc.core.workload import Poisson
from ncc.envs.scenarios import make_scenario
from ncc.run.compose import experiment_names
from ncc.run.config_files import config_paths, read_config
from ncc.run.controllers import GROUP, tuned_for, tuned_names, tuning_of
from ncc.study.load import load_experiment
from ncc.study.points import Grid, grid_of
from ncc.study.spec import experiment_from
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
    swept = [axis.at(x) for axis_name, axis in experiment.axes.items() if axis_name != "cell" for x in axis.points]
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

    monkeypatch.setattr("ncc.run.controllers.read_config", read)


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
