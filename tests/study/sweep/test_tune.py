# SPDX-License-Identifier: BSD-3-Clause
"""Ray Tune runs jobs of any kind: in order, ends bad ones early, and lets the others go on when one fails."""

from pathlib import Path

import pytest

from ncc.harness.trials import FAILED, FINISHED, RUNNING, STOPPED, Report
from tests.study.sweep.jobs import Scripted

pytestmark = [pytest.mark.rllib, pytest.mark.usefixtures("ray_here")]


def test_bad_jobs_are_stopped_and_failing_ones_are_told(tmp_path: Path) -> None:
    from ncc.agents.rllib.sweep import TuneSettings, run_jobs

    jobs = [
        Scripted("good", 1.0, tmp_path),
        Scripted("bad", 0.0, tmp_path),
        Scripted("failing", 2.0, tmp_path, fails=True),
        Scripted("better", 2.0, tmp_path),
    ]
    reports: dict[str, list[Report]] = {}
    settings = TuneSettings(concurrent=1, cpus=1, asha=(20.0, 3.0), address=None, wheel=None, storage=tmp_path / "tune")
    run_jobs(jobs, settings, lambda name, report: reports.setdefault(name, []).append(report), pytest.fail)
    assert list(reports) == ["good", "bad", "failing", "better"]
    last = {name: each[-1] for name, each in reports.items()}
    assert {name: report.state for name, report in last.items()} == {
        "good": FINISHED,
        "bad": STOPPED,
        "failing": FAILED,
        "better": FINISHED,
    }
    assert last["failing"].said == "on purpose"
    assert last["bad"].percent == 20, "at the first rung"
    assert [report.percent for report in reports["good"]] == [*range(10, 101, 10), 100]
    assert {report.state for report in reports["good"][:-1]} == {RUNNING}
    assert {path.name for path in tmp_path.iterdir()} == {f"{job.name}.ended" for job in jobs}
    assert (tmp_path / "bad.ended").read_text() == "2"
