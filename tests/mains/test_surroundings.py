# SPDX-License-Identifier: BSD-3-Clause
"""Mains in surroundings that users have: other encodings, names that a shell hands on as they are, many at a time."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ncc.core.options import exit_status
from ncc.run.folders import new_folder
from tests.mains.commands import SYNC, TINY, command, ncc

SHORT = ("scenario=rack", "datapath=packetsim", "duration_s=0.05", "workers=1", "bounds=false")


@pytest.fixture(autouse=True)
def undrawn() -> None:
    """Draw: pictures lie in these surroundings too."""


@pytest.mark.parametrize(("encoding", "printed"), [("ascii", b"-5 u +-3 ? x"), ("iso8859-1", b"-5 \xb5 \xb13 ? \xd7")])
def test_texts_are_printed_in_any_encoding(
    encoding: str, printed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "out").open("w", encoding=encoding) as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert exit_status(lambda: 0 * file.write("\N{MINUS SIGN}5 µ ±3 ✓ \N{MULTIPLICATION SIGN}")) == 0
    assert (tmp_path / "out").read_bytes() == printed


def test_an_error_is_told_where_stdout_is_closed(tmp_path: Path) -> None:
    words = " ".join(command("evaluate", "controller=dctcp", "scenario=incas"))
    done = subprocess.run(f"{words} >&-", shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: Unknown scenario 'incas'")
    assert len(done.stderr.splitlines()) == 1


def test_an_evaluation_prints_in_any_encoding(tmp_path: Path) -> None:
    line = command("evaluate", "controller=newreno,dctcp", *SHORT, "seeds=2", "out=run")
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"+-" in done.stdout


@pytest.mark.parametrize("quotes", ["", '"'])
def test_a_tilde_is_the_home_directory(quotes: str, tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    (here := tmp_path / "here").mkdir()
    out = f"out={quotes}~/judged{quotes}"
    done = ncc("evaluate", "controller=[dctcp]", *SHORT, "seeds=1", out, cwd=here, HOME=str(home))
    assert done.returncode == 0, done.stderr
    page = f"out={quotes}~/page.html{quotes}"
    assert ncc("report", "run=~/judged", page, cwd=here, HOME=str(home)).returncode == 0
    assert {path.name for path in home.iterdir() if path.name[0] != "."} == {"judged", "page.html"}
    assert not list(here.iterdir())


@pytest.mark.parametrize("name", ["lr=0.1", "größe #(2)", 'said "so"'])
def test_folders_may_have_any_name(name: str, tmp_path: Path) -> None:
    done = ncc("evaluate", "controller=[dctcp]", *SHORT, "seeds=1", f"out=runs/{name}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [name]
    assert ncc("report", f"run=runs/{name}", "out=page.html", cwd=tmp_path).returncode == 0


def test_a_name_too_long_is_refused_in_a_sentence(tmp_path: Path) -> None:
    done = ncc("evaluate", "controller=[dctcp]", *SHORT, "seeds=1", f"out=runs/{'x' * 300}", cwd=tmp_path)
    assert done.returncode == 1
    assert "File name too long; choose a folder that can be written" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("words", [("report", "run={}", "out=page.html"), ("export", "policy=ncc", "out={}.ncc")])
def test_a_file_s_name_too_long_is_refused_too(words: tuple[str, ...], tmp_path: Path) -> None:
    main, *arguments = (word.format("x" * 300) for word in words)
    done = ncc(main, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("is too long for a file or folder\n")
    assert "Traceback" not in done.stderr


def test_a_seed_without_flows_is_refused_before_the_first_run(tmp_path: Path) -> None:
    few = "scenario.workload.websearch.load_frac=0.1"
    done = ncc("evaluate", "controller=[dctcp]", *SHORT, few, "seeds=20", "out=run", cwd=tmp_path)
    assert done.returncode == 2
    assert "draws no flow" in done.stderr
    assert not list(tmp_path.rglob("run.json"))


def test_folders_that_are_made_at_once_differ(tmp_path: Path) -> None:
    def taken(_: int) -> Path:
        with new_folder(tmp_path / "runs", "now") as folder:
            (folder / "file").touch()
            return folder

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(taken, range(8)))
    assert sorted(path.name for path in found) == sorted(["now", *(f"now_{i}" for i in range(1, 8))])


def test_a_training_that_is_refused_leaves_no_folder_of_its_own(tmp_path: Path) -> None:
    done = ncc("train", *TINY, *SYNC, "agent.epochs=7", "evaluation.seeds=0", cwd=tmp_path)
    assert done.returncode == 2
    assert os.listdir(tmp_path) == []  # noqa: PTH208
