# SPDX-License-Identifier: BSD-3-Clause
"""The picture of the front page shows what its runs do, and the text below it says so."""

import re
from pathlib import Path

import pytest

from docs import pictures
from ncc.harness.run import Run
from tests.house.files import ROOT


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return pictures.runs()


def test_the_front_page_says_what_the_picture_shows(runs: dict[str, Run]) -> None:
    took = {name: float((run.records.flows.finish_s - run.flows.start_s).mean()) for name, run in runs.items()}
    said = (ROOT / "README.md").read_text().partition("incast.svg)")[2].partition("##")[0]
    assert re.findall(r"\d+\.\d+ ms", said) == [f"{took[name] * 1e3:.1f} ms" for name in ("dctcp", "ncc")]
    lost = {name: int(run.epochs.columns["uplink_dropped_pkts"].sum()) for name, run in runs.items()}
    assert re.findall(r"\d+ packets", said) == [f"{lost[name]} packets" for name in ("dctcp", "ncc")]
    assert not any(run.records.flows.timeouts.any() for run in runs.values())


def test_the_picture_is_of_these_runs(runs: dict[str, Run], tmp_path: Path) -> None:
    pictures.incast(runs, tmp_path / "incast.svg")
    drawn = [
        set(re.findall(r">([^<>]*\d[^<>]*)</text>", path.read_text()))
        for path in (tmp_path / "incast.svg", pictures.INCAST)
    ]
    assert drawn[0] == drawn[1], "draw it anew: python -m docs.pictures"
    assert len(pictures.INCAST.read_bytes()) < 200_000
