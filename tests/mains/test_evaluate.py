# SPDX-License-Identifier: BSD-3-Clause
"""`ncc evaluate`: controllers with parameters, and a paper's experiment with its figure, table and verdict."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from ncc.results.report.sources import read_source
from ncc.run.config_files import read_config
from ncc.run.controllers import GROUP
from tests.mains.commands import ncc

RACK = ("scenario=rack", "seeds=1", "workers=1", "duration_s=0.02", "datapath=packetsim", "bounds=false")
QUICK = ("experiment=dctcp_queue", "preset=quick", "workers=1")


def test_parameters_are_set_and_recorded(tmp_path: Path) -> None:
    for params in ("+params.gemini.capacity_mbps=10000", "params={gemini: {capacity_mbps: 20000}}"):
        done = ncc("evaluate", "controller=gemini", *RACK, params, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    runs = tmp_path.glob("runs/*/packetsim/gemini/0/manifest.json")
    manifests = [json.loads(path.read_text()) for path in runs]
    found = [manifest["facts"]["controller"]["stack"]["params"] for manifest in manifests]
    assert sorted(found) == [[["capacity_mbps", 10000]], [["capacity_mbps", 20000]]], "a folder each"


def test_a_tuned_controller_is_a_contender_by_name(tmp_path: Path) -> None:
    """It has its set's parameters, and its hosts and switches those of the set; the flows are the same."""
    words = ("controller=dctcp,dctcp_tuned", *RACK, "+params.dctcp_tuned.g_shift=5", "out=judged")
    done = ncc("evaluate", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tuned DCTCP" in done.stdout
    chosen = read_config(GROUP, "tuned set", "rack")["controllers"]["dctcp"]
    facts = {
        name: json.loads((tmp_path / f"judged/packetsim/{name}/0/manifest.json").read_text())["facts"]
        for name in ("dctcp", "dctcp_tuned")
    }
    own = facts["dctcp_tuned"]
    assert dict(own["controller"]["stack"]["params"]) == {**chosen["params"], "g_shift": 5}
    for key, value in chosen["changes"].items():
        _, part, field = key.split(".")
        assert own["scenario"][part][field] == value
    assert own["scenario_digest"] != facts["dctcp"]["scenario_digest"]
    flows = [pq.read_table(tmp_path / f"judged/packetsim/{name}/0/flows.parquet") for name in facts]
    for column in ("start_s", "size_bytes", "src", "dst"):
        assert flows[0].column(column).equals(flows[1].column(column))


def test_the_reference_is_chosen(tmp_path: Path) -> None:
    """Named or not, kept runs are the same, and a report goes by what was named last."""
    few = ("controller=dctcp,cubic,newreno", *RACK, "seeds=5", "out=judged")
    for reference, label in (("cubic", "CUBIC"), ("newreno", "NewReno")):
        done = ncc("evaluate", *few, f"reference={reference}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert re.match(rf"(DCTCP|CUBIC|NewReno) (finishes flows .* than|and) {label} ", done.stdout), done.stdout
    assert read_source(tmp_path / "judged").judgement.any.reference == "newreno"
    assert read_source(tmp_path / "judged", "dctcp").judgement.any.reference == "dctcp"
    refused = ncc("evaluate", *few, "reference=bbr", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == "error: Unknown reference 'bbr'; known: cubic, dctcp, newreno.\n"


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    # A limit on the size of any file stands in for a full disk: EFBIG comes where ENOSPC would.
    words = " ".join(("controller=dctcp", *RACK, "out=judged"))
    limited = f"ulimit -f 8; exec {sys.executable} -m ncc.evaluate {words}"
    done = subprocess.run(
        ["bash", "-c", limited], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 1
    assert "judged" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "judged" / "manifest.json").exists()


def test_an_experiment_end_to_end(tmp_path: Path) -> None:
    done = ncc("evaluate", *QUICK, "out=tried", "figures=svg", "width_in=3.4", "titles=false", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "tried" / "packetsim" / "figure.svg").read_text()
    assert re.search(r'<svg [^>]*?width="244.8pt"', drawn), "3.4 inches"
    assert "Here, on packetsim" not in drawn, "the heading is left to the caption"
    assert "shape holds: 4 of 4 checks hold; queue_is_k: k 20: 2" in done.stdout
    folder = tmp_path / "tried" / "packetsim"
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((folder / "result.json").read_text())
    assert not result["complete"], "a quick result is not published"
    assert {"seeds", "commits", "verdict", "cells", "checks", "paper"} <= set(result)
    assert len(result["cells"]) == 3 * 2 * 2, "measures x contenders x thresholds"
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
