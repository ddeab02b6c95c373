# SPDX-License-Identifier: BSD-3-Clause
"""An evaluation of which all is invalid, and the report of it and of the training of `tests/conftest.py`."""

from pathlib import Path

import pytest

from ncc.results.report.write import ReportSpec, write_report
from tests.mains.commands import ncc


@pytest.fixture(scope="session")
def invalid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation's folder whose flows had no time to be delivered."""
    cwd = tmp_path_factory.mktemp("invalid")
    done = ncc(
        "evaluate", "scenario=rack", "scenario.drain_s=0.001", "scenario.workload.websearch.load_frac=0.9", "seeds=1",
        "duration_s=0.05", "controller=[dctcp,newreno]", "datapath=packetsim", "workers=1", "out=judged", cwd=cwd,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    return cwd / "judged"


@pytest.fixture(scope="session")
def page(trained: Path, invalid: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of both."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(ReportSpec(run=(str(trained), str(invalid)), out=str(path)))
