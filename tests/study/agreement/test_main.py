# SPDX-License-Identifier: BSD-3-Clause
"""The command: what it writes, what it keeps, and what it refuses before anything runs."""

import json
from pathlib import Path

import pytest

from ncc.agreement import main

pytestmark = pytest.mark.usefixtures("in_one_process")


def test_the_quick_preset_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--preset", "quick", "--controllers", "dctcp", "--cases", "incast", "--workers", "1"]
    assert main([*asked, "--runs", str(tmp_path / "runs")]) == 0
    report = tmp_path / "runs" / "quick" / "report"
    assert "Equal to the nanosecond: 42 of 42 flows of small cases, and " in capsys.readouterr().out
    data = json.loads((report / "results.json").read_text())
    assert (data["agrees"], data["ours"], data["reference"], data["preset"]) == (True, "packetsim", "ns3", "quick")
    assert [(each["case"], each["controller"]) for each in data["load"]] == [("incast", "dctcp")]
    assert data["load"][0]["flows_same"] == data["load"][0]["n_flows"] > 0
    assert set(data["cpu_s"]) == {"packetsim", "ns3"}
    assert {path.name for path in report.iterdir()} == {"README.md", "results.json"}
    assert not (tmp_path / "docs").exists()

    manifests = sorted((tmp_path / "runs").rglob("incast/*/dctcp/*/manifest.json"))
    before = [path.stat().st_mtime_ns for path in manifests]
    assert len(before) == 6, "two sides, three seeds"
    assert main([*asked, "--runs", str(tmp_path / "runs")]) == 0
    assert [path.stat().st_mtime_ns for path in manifests] == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--ours", "packetsin"], "Did you mean 'packetsim'?"),
        (["--cases", "rack_websearch_41"], "Unknown case 'rack_websearch_41'"),
        (["--controllers", "dctpc"], "Unknown controller 'dctpc'"),
        (["--workers", "0"], "workers must be"),
        (["--preset", "fll"], "Unknown preset 'fll'. Did you mean 'full'? Known: full, quick."),
        (["--sides", "2"], "unrecognized arguments: --sides 2; see ncc agreement --help"),
    ],
)
def test_what_is_refused(arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--runs", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
