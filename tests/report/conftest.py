# SPDX-License-Identifier: BSD-3-Clause
"""Runs to report of, made once: a short training judged on two datapaths, and an evaluation of which all is invalid."""

from pathlib import Path

import pytest

from ncc.report.write import ReportSpec, write_report
from tests.mains.commands import TINY, ncc

FAST = ("agent=a2c", "agent.racks=1", "agent.epochs=120", "agent.checkpoint_epochs=60")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training's folder; nobody writes into it."""
    cwd = tmp_path_factory.mktemp("trained")
    done = ncc("train", *TINY, *FAST, "out=run", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd / "run"


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
