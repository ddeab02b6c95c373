# SPDX-License-Identifier: BSD-3-Clause
"""Results that cannot be reported are refused in one sentence, and no file is touched."""

import shutil
from pathlib import Path

import pytest

from ncc.core.errors import ConfigError, NccError, ResultError
from ncc.results.report import write
from ncc.results.report.page import GENERATOR
from ncc.results.report.write import ReportSpec, write_report
from tests.mains.commands import ncc


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    """The training's folder, to be damaged."""
    return shutil.copytree(trained, tmp_path / "run")


def refused(run: Path, out: Path, kind: type[NccError] = ResultError, **choices: object) -> str:
    with pytest.raises(kind) as found:
        write_report(ReportSpec(run=(str(run),), out=str(out), **choices))  # type: ignore[arg-type]
    assert not out.exists()
    return str(found.value)


def test_folders_without_an_evaluation(trained: Path, tmp_path: Path) -> None:
    assert "is no folder; name one" in refused(tmp_path / "gone", tmp_path / "r.html", ConfigError)
    (tmp_path / "empty").mkdir()
    assert "holds no finished evaluation" in refused(tmp_path / "empty", tmp_path / "r.html")
    run = trained / "evaluation" / "ns3" / "dctcp" / "0"
    assert "is of kind 'run' and holds no evaluation" in refused(run, tmp_path / "r.html")


def test_an_unfinished_training(copy: Path, tmp_path: Path) -> None:
    (copy / "manifest.json").unlink()
    assert f"ncc train resume={copy}" in refused(copy, tmp_path / "r.html")


def test_an_unfinished_evaluation(copy: Path, tmp_path: Path) -> None:
    (copy / "evaluation" / "comparison.json").unlink()
    assert "holds no finished evaluation" in refused(copy / "evaluation", tmp_path / "r.html")
    assert "comparison.json is missing" in refused(copy, tmp_path / "r.html")


def test_names_that_were_not_run(trained: Path, tmp_path: Path) -> None:
    assert "Unknown reference" in refused(trained, tmp_path / "r.html", ConfigError, reference="cubic")
    for choice, says in (({"timeline": ("cubic",)}, "'cubic'; known: dctcp"), ({"seed": 9}, "'9'; known: 0, 1")):
        assert says in refused(trained, tmp_path / "r.html", ConfigError, **choice)


def test_a_file_that_is_no_report_is_kept(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "part_of", lambda *_, **__: {"curve": None, "slowdowns": [], "closeups": []})
    monkeypatch.setattr(write, "render", lambda _, title, *__: f"{GENERATOR} {title}")
    other = tmp_path / "mine.html"
    other.write_text("my own page")
    spec = ReportSpec(run=(str(trained / "evaluation" / "packetsim"),), out=str(other))
    with pytest.raises(ConfigError, match="is no report; choose another file, or replace it: overwrite=true"):
        write_report(spec)
    assert other.read_text() == "my own page"
    write_report(spec.replace(overwrite=True))
    write_report(spec.replace(title="Again"))  # its own kind needs no leave
    assert other.read_text() == f"{GENERATOR} Again"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.html"]


@pytest.mark.parametrize(("name", "says"), [("", "is a folder; name a file"), ("page.txt", "must end in .html")])
def test_files_that_cannot_be(trained: Path, tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        write_report(ReportSpec(run=(str(trained),), out=str(tmp_path / name)))


def test_the_command(trained: Path, tmp_path: Path) -> None:
    done = ncc("report", f"run=[{trained}/evaluation/packetsim]", "timeline=[]", "out=page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").stat().st_size > 100_000
    assert "page.html" in done.stdout
    for arguments, says in (
        (("run=gone",), "error: run=gone is no folder"),
        (("out=a.html",), "run names no folder; name one"),
        ((f"run=[{trained},{trained}]",), "names a folder twice"),
        (("run=gone", "colour=red"), "Unknown key 'colour'"),
    ):
        done = ncc("report", *arguments, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert says in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
