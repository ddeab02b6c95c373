# SPDX-License-Identifier: BSD-3-Clause
"""The picture of the front page shows what its runs do, and the text below it says so."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
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


def test_the_picture_moves_as_the_runs_did(runs: dict[str, Run], tmp_path: Path) -> None:
    pictures.incast(runs, tmp_path / "incast.svg")
    film = ElementTree.parse(tmp_path / "incast.svg").iter("{http://www.w3.org/2000/svg}animate")
    moves: dict[str, list[list[float]]] = {}
    for move in film:
        times = [float(time) for time in move.attrib["keyTimes"].split(";")]
        assert times == sorted(times)
        assert (times[0], times[-1]) == (0, 1)
        assert len(times) == move.attrib["values"].count(";") + 1
        moves.setdefault(move.attrib["attributeName"], []).append(times)
    per_ms = pictures.FILM_S / (pictures.FILM_S + pictures.HELD_S) / pictures.FILM_MS
    answers = [
        (run.records.flows.finish_s - run.flows.start_s.min()) * 1e3 * per_ms for run in (runs["dctcp"], runs["ncc"])
    ]
    assert [times[1] for times in moves["fill"]] == pytest.approx(np.concatenate(answers), rel=1e-3)
    assert len(moves["width"]) == 4, "a queue and its losses, for each run"
