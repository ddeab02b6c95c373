# SPDX-License-Identifier: BSD-3-Clause
"""Every experiment of configs/experiment/, run by its quick preset: to the end, measured, judged and drawn.

For `make check-experiments`; `test_experiments.py` has what every change must pass.
"""

import math
from pathlib import Path

import pytest

from ncc.harness.pool import Processes
from ncc.run.compose import experiment_names, load_datapath
from ncc.study.load import load_experiment
from ncc.study.points import default_datapath, grid_of
from ncc.study.result import FIGURE
from ncc.study.run import run_experiment
from tests.support.here import Here
from tests.support.linux import TRAFFIC, needs

NEEDS = dict.fromkeys(("ncc_linux", "spread_linux"), TRAFFIC)
"""Requirements of experiments that no simulator runs."""
pytestmark = pytest.mark.experiments


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(*NEEDS.get(name, ()))) for name in experiment_names()])
def test_the_quick_preset_runs(name: str, tmp_path: Path) -> None:
    experiment, scenario = load_experiment(name)
    grid = grid_of(name, experiment, scenario, "quick")
    datapath = load_datapath(default_datapath(grid))
    seeds = range(experiment.presets["quick"].seeds)
    executor = Processes() if name in NEEDS else Here()
    result = run_experiment(grid, datapath, seeds, tmp_path / "out", executor=executor, config={})
    assert not result.problems
    assert (tmp_path / "out" / FIGURE).read_bytes().startswith(b"\x89PNG")
    assert set(result.findings) == set(experiment.checks)
    judged = [finding for finding in result.findings.values() if finding.holds is not None]
    assert judged, "a preset that leaves everything out says nothing"
    # Whether a shape holds in seconds is not asked; that there is a number behind every measure is.
    for measure in experiment.measures:
        values = [v for (of, _, _), seen in result.table.values.items() if of == measure for v in seen]
        assert any(math.isfinite(value) for value in values), measure
