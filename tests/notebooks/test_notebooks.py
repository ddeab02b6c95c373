# SPDX-License-Identifier: BSD-3-Clause
"""Every notebook, run once from top to bottom in its quick mode; two of them on the run folder that the first left."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ncc.harness.pool import Processes
from ncc.results.notebook import QUICK, RUNS
from tests.house.files import ROOT
from tests.support.here import Here

QUICKSTART = "01_quickstart"
INCAST, PAPER = "02_anatomy_of_an_incast", "03_reproduce_a_paper"
LEARNED, HOSTS = "04_what_the_policy_learned", "05_from_policy_to_hosts"
NETWORK = "06_my_network_my_traffic"


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which the notebooks of these tests keep their runs."""
    return tmp_path_factory.mktemp("notebooks")


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


def executed(name: str, own: Path, run: Path | None = None) -> list[dict[str, Any]]:
    """A notebook's cells after running it by itself or on a run folder."""
    jupyter = own / "jupyter"  # nobody's own kernels and settings
    environment = os.environ | {
        QUICK: "1",
        RUNS: str(own),
        "JUPYTER_DATA_DIR": str(jupyter / "data"),
        "JUPYTER_CONFIG_DIR": str(jupyter / "config"),
        "JUPYTER_RUNTIME_DIR": str(jupyter / "runtime"),
        "IPYTHONDIR": str(jupyter / "ipython"),
    }
    notebook = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())
    for cell in notebook["cells"]:
        cell["source"] = [
            f"RUN = {str(run)!r}\n" if run is not None and line.startswith("RUN = None") else line
            for line in cell["source"]
        ]
    source, target = own / f"{name}.ipynb", own / f"{name}_done.ipynb"
    source.write_text(json.dumps(notebook))
    command = [sys.executable, "-m", "tests.notebooks.execute", str(source), str(target)]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert not ended.returncode, ended.stderr
    return cells(target)


def figures(cells: list[dict[str, Any]]) -> int:
    return sum("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", []))


def said(cells: list[dict[str, Any]]) -> str:
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = [output.get("text") or output.get("data", {}).get("text/markdown", "") for output in outputs]
    return "\n".join("".join(text) for text in texts)


@pytest.fixture(scope="session")
def quickstart(own: Path) -> tuple[list[dict[str, Any]], Path]:
    """The first notebook's cells, and the run folder that it leaves."""
    cells = executed(QUICKSTART, own)
    (run,) = (own / "notebooks").glob("quickstart_*")
    return cells, run


def test_the_quickstart_trains_and_compares(quickstart: tuple[list[dict[str, Any]], Path]) -> None:
    cells, run = quickstart
    assert figures(cells) == 3
    assert "| FCT slowdown, all flows, mean |" in said(cells)
    assert (run / "policy.ncc").is_file()


@pytest.mark.parametrize(("name", "pictures"), [(INCAST, 6), (LEARNED, 5)])
def test_it_runs_on_a_run_folder(
    name: str, pictures: int, own: Path, quickstart: tuple[list[dict[str, Any]], Path]
) -> None:
    _, run = quickstart
    assert figures(executed(name, own, run)) == pictures


@pytest.mark.parametrize(
    ("name", "other", "controllers"),
    [(INCAST, (0, 1), ("ncc", "dctcp", "cubic", "bbr")), (LEARNED, (0, 1, 6), ("ncc", "local_hold"))],
)
def test_without_a_folder_it_makes_runs_of_its_own(
    name: str, other: tuple[int, ...], controllers: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those cells that then do something else, as a script; the rest is as above."""
    code = [cell["source"] for cell in cells(ROOT / "notebooks" / f"{name}.ipynb") if cell["cell_type"] == "code"]
    script = tmp_path / "script.py"
    script.write_text("\n".join("".join(code[i]) for i in other))
    monkeypatch.setenv(QUICK, "1")
    monkeypatch.setenv(RUNS, str(tmp_path))
    monkeypatch.setattr(Processes, "run", Here().run)
    monkeypatch.setattr("ncc.results.notebook.shown", lambda *_, **__: None)
    left = runpy.run_path(str(script))
    assert left["RUN"] is None
    assert left["evaluation"].controllers == controllers


def test_a_figure_of_a_paper_is_reproduced(own: Path) -> None:
    assert figures(executed(PAPER, own)) == 2


def test_the_exported_policy_decides_as_the_original(own: Path) -> None:
    cells = executed(HOSTS, own)
    assert figures(cells) == 1
    assert "as the original decided: True" in said(cells)
    assert "checked in full" in said(cells)


def test_a_network_of_ones_own_has_its_table(own: Path) -> None:
    cells = executed(NETWORK, own)
    assert figures(cells) == 1
    assert "5,000 flows" in said(cells)
    assert "| FCT slowdown, all flows, mean |" in said(cells)
