# SPDX-License-Identifier: BSD-3-Clause
"""A paper's experiment by command: runs, figure, table and verdict; and what is refused."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ncc.compose import experiment_names
from tests.mains.commands import ncc

QUICK = ("experiment=dctcp_queue", "preset=quick", "workers=1")


def test_an_experiment_end_to_end(tmp_path: Path) -> None:
    done = ncc("evaluate", *QUICK, "out=tried", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "shape holds: 4 of 4 checks hold; queue_is_k: k 20: 2" in done.stdout
    folder = tmp_path / "tried" / "packetsim"
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    table = pq.read_table(folder / "result.parquet")
    assert table.num_rows == 3 * 2 * 2, "measures x contenders x thresholds, one seed"
    assert set(table.column_names) == {"measure", "contender", "k", "seed", "value"}
    result = json.loads((folder / "result.json").read_text())
    assert not result["complete"], "a quick result is not published"
    assert {"seeds", "commits", "verdict", "cells", "checks", "paper", "reduced"} <= set(result)
    cell = next(c for c in result["cells"] if (c["measure"], c["contender"], c["at"]) == ("queue", "dctcp", [20.0]))
    assert 15_000 < cell["value"] < 45_000
    first = (folder / "manifest.json").stat().st_mtime_ns

    again = ncc("evaluate", *QUICK, "out=tried", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (folder / "manifest.json").stat().st_mtime_ns > first
    assert json.loads((folder / "result.json").read_text())["cells"] == result["cells"]


def test_a_shape_that_does_not_hold_is_said_and_has_a_status_of_its_own(tmp_path: Path) -> None:
    done = ncc("evaluate", *QUICK, "experiment.checks.queue_is_k.high=0.9", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "DOES NOT HOLD: queue_is_k" in done.stdout
    assert "shape does not hold: 3 of 4 checks hold; queue_is_k: k 20: 2" in done.stdout


def test_experiments_are_listed_with_their_paper(tmp_path: Path) -> None:
    done = ncc("evaluate", "experiment=list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(experiment_names())
    assert "SIGCOMM 2010" in done.stdout


def test_controllers_are_listed_with_where_they_run(tmp_path: Path) -> None:
    done = ncc("evaluate", "controller=list", cwd=tmp_path)
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "ns3, packetsim" in lines["dctcp"]
    assert "packetsim" not in lines["ns3_cubic"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("experiment=dctcp_quee",), "Did you mean 'dctcp_queue'"),
        ((*QUICK, "scenario=rack"), "an experiment says its own scenario"),
        ((*QUICK, "controller=dctcp"), "an experiment says its own controller"),
        (("experiment=dctcp_queue", "preset=qick"), "Did you mean 'quick'"),
        (
            (*QUICK, "experiment.axes.k.values=[20,65,1000]", "experiment.presets.quick.axes.k=[1000]"),
            "k 1000: scenario.topology.mark_threshold_bytes must be below buffer_bytes",
        ),
        ((*QUICK, "experiment.contenders.dctcp.controller=cubik"), "Unknown controller 'cubik'"),
        (
            ("controller=dctcp", "scenario=rack", "scenario.topology.mark_threshold_bytes=0"),
            "'dctcp' needs ECN, and no",
        ),
    ],
)
def test_refused(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ncc("evaluate", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("manifest.json"))
