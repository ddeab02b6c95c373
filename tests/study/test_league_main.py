# SPDX-License-Identifier: BSD-3-Clause
"""`ncc league` as a user runs it, in a league of three."""

import json
from pathlib import Path

import pytest

from tests.house.files import ROOT
from tests.mains.commands import ncc

LEAGUES = str(ROOT / "tests/study/leagues")
SMALL = ("--config-dir", LEAGUES, "experiment=small_league", "workers=1")
MINE = """
import numpy as np

class Mine:
    "Half of the line for each host."
    def reset(self, scenario, seed):
        self.bps = np.full(scenario.n_agents, 0.5e9)

    def decide(self, measurement):
        return self.bps
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished league and a class of one's own."""
    made = tmp_path_factory.mktemp("league")
    (made / "my_league.py").write_text(MINE)
    done = ncc("league", *SMALL, "out=all", cwd=made)
    assert "6 runs of 3 contenders" in done.stdout, done.stderr
    assert "New transports of both ends" in done.stdout
    return made


def test_ones_own_is_run_alone_and_placed_among_the_published(folder: Path) -> None:
    published = folder / "all/packetsim/result.json"
    second = (
        "{controller: cubic, label: second, params: {beta_permille: 500}, changes: {scenario.transport.sack: true}}"
    )
    words = (f"with=[my_league:Mine,{second}]", f"published={published}", "out=mine")
    done = ncc("league", *SMALL, *words, cwd=folder)
    assert "6 runs of 3 contenders" in done.stdout, done.stderr
    assert "Mine (yours)" in done.stdout
    assert "second (yours)" in done.stdout
    page = (folder / "mine/league.html").read_text()
    assert all(name in page for name in ("Mine (yours)", "homa", "CUBIC", "TCP, and ports that drop or mark"))
    assert "Agents on hosts" in page


def test_what_a_contender_of_ones_own_lacks_is_refused_before_a_run(folder: Path) -> None:
    published = folder / "all/packetsim/result.json"
    done = ncc("league", *SMALL, "with=ndp", f"published={published}", "out=ndp", cwd=folder)
    assert done.returncode == 2
    assert "can run at no point" in done.stderr
    assert "needs ports that trim: set programs of Scenario.topology to a list with trim in it" in done.stderr
    assert not (folder / "ndp").exists()


def test_an_old_table_is_not_compared_with(folder: Path) -> None:
    plain = json.loads((folder / "all/packetsim/result.json").read_text())
    plain["flows"][0]["digests"][0] = "other"
    (folder / "old.json").write_text(json.dumps(plain))
    done = ncc("league", *SMALL, "with=my_league:Mine", "published=old.json", "out=old", cwd=folder)
    assert done.returncode == 1
    assert "the published table has other flows at incast: run all contenders here: add all=true" in done.stderr
    assert not (folder / "old").exists(), "nothing was run"


@pytest.mark.parametrize("text", ['{"per_seed": []}', "[1]", '{"results": {"packetsim": {"name": "other"}}}'])
def test_a_file_without_ranks_is_refused_before_a_run(text: str, folder: Path) -> None:
    (folder / "half.json").write_text(text)
    done = ncc("league", *SMALL, "with=dctcp", "published=half.json", "out=half", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("error: half.json holds no result with ranks")
    assert not (folder / "half").exists()


def test_other_flows_of_ones_own_are_refused_before_a_run(folder: Path) -> None:
    longer = "with={controller: dctcp, changes: {scenario.duration_s: 0.1}}"
    done = ncc("league", *SMALL, longer, f"published={folder / 'all/packetsim/result.json'}", "out=longer", cwd=folder)
    assert done.returncode == 2
    assert "has other flows than the others at incast" in done.stderr
    assert not (folder / "longer").exists()


def test_a_network_of_ones_own_is_the_only_cell(folder: Path) -> None:
    words = ("scenario=rack", "scenario.duration_s=0.02", "scenario.transport.handshake=false", "seeds=1", "out=own")
    done = ncc("league", *SMALL, *words, "with=cubic", cwd=folder)
    assert "4 runs of 4 contenders" in done.stdout, done.stderr
    assert "cubic (yours)" in done.stdout, "beside CUBIC of the experiment"
    result = json.loads((folder / "own/packetsim/result.json").read_text())
    assert [entry["at"] for entry in result["flows"]] == [["rack"]]
    assert not result["complete"]


def test_a_network_in_which_a_contender_cannot_run_has_the_others(folder: Path) -> None:
    late = "with={controller: cubic, changes: {scenario.period_s: 0.03}}"
    words = ("scenario=rack", "scenario.duration_s=0.02", "scenario.transport.handshake=false", "seeds=1", "out=late")
    slow = "+experiment.contenders.slow={controller: cubic, changes: {scenario.period_s: 0.03}}"
    done = ncc("league", *SMALL, *words, slow, cwd=folder)
    said = "scenario.period_s must not exceed duration_s (0.02 s), got 0.03 s"
    assert f"slow cannot run in rack: {said}" in done.stdout, done.stderr
    assert "3 runs of 3 contenders" in done.stdout
    done = ncc("league", *SMALL, *words, late, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error: contender 'own_cubic' can run at no point")
    assert said in done.stderr


def test_experiments_with_ranks_are_listed(tmp_path: Path) -> None:
    listed = ncc("league", "--config-dir", LEAGUES, "experiment=list", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in listed if not line.startswith(" ")] == ["league", "small_league"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("experiment=dctcp_incast",), "experiment dctcp_incast has no ranking: name one that has, such as league"),
        (("with=nobody",), "Unknown controller 'nobody'"),
        (("with={label: me}",), "with must name controllers, or mappings with the key controller"),
        (("with=[cubic,cubic]",), "two contenders in with are called 'cubic': give each a label of its own"),
        (("with={controller: cubic, label: 3}",), "label must be `str`, got 3"),
        (("published=none.json",), "published is for with alone: leave it out, or leave out all, only and scenario"),
        (("+experiment.axes.load={label: load, cases: {low: {}}}", "scenario=rack"), "the experiment has cell, load"),
        (("with=dctcp", "published=none.json"), "there is no file none.json: run all contenders here, all=true"),
        (("preset=huge",), "Unknown preset 'huge'"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    given = [word for word in SMALL if not (word.startswith("experiment=") and words[0].startswith("experiment="))]
    done = ncc("league", *given, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
