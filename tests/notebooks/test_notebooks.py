# SPDX-License-Identifier: BSD-3-Clause
"""Every notebook, run from top to bottom in its quick mode: on runs of its own, and on a folder that is named to it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ncc.results.notebook import QUICK, RUNS
from tests.house.files import ROOT

NOTEBOOKS = {"02_anatomy_of_an_incast": 4, "03_reproduce_a_paper": 2, "04_what_the_policy_learned": 7}
"""Number of figures in each; the first and the last have more tests below."""


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which the notebooks of these tests keep their runs."""
    return tmp_path_factory.mktemp("notebooks")


def executed(name: str, own: Path, **parameters: str) -> tuple[list[dict[str, Any]], str]:
    """A notebook's cells after running it, `parameters` in place of their None, and standard error."""
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
    for parameter, value in parameters.items():
        for cell in notebook["cells"]:
            for i, line in enumerate(cell["source"]):
                if line.startswith(f"{parameter} = None"):
                    cell["source"][i] = f"{parameter} = {value!r}\n"
    source, target = own / f"{name}.ipynb", own / f"{name}_done.ipynb"
    source.write_text(json.dumps(notebook))
    command = [sys.executable, "-m", "tests.notebooks.execute", str(source), str(target)]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    cells: list[dict[str, Any]] = json.loads(target.read_text())["cells"]
    return cells, ended.stderr if ended.returncode else ""


def figures(cells: list[dict[str, Any]]) -> int:
    return sum("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", []))


def said(cells: list[dict[str, Any]]) -> str:
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = [output.get("text") or output.get("data", {}).get("text/markdown", "") for output in outputs]
    return "\n".join("".join(text) for text in texts)


@pytest.fixture(scope="session")
def quickstart(own: Path) -> tuple[list[dict[str, Any]], Path]:
    """The first notebook's cells, and the run folder that it leaves."""
    cells, wrong = executed("01_quickstart", own)
    assert not wrong
    (run,) = (own / "notebooks").glob("quickstart_*")
    return cells, run


def test_the_quickstart_trains_and_compares(quickstart: tuple[list[dict[str, Any]], Path]) -> None:
    cells, run = quickstart
    assert figures(cells) == 3
    assert "| FCT slowdown, all flows, mean |" in said(cells)
    assert (run / "policy.npz").is_file()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs_from_top_to_bottom(name: str, own: Path) -> None:
    cells, wrong = executed(name, own)
    assert not wrong
    assert figures(cells) == NOTEBOOKS[name]


def test_the_exported_policy_decides_as_the_original(own: Path) -> None:
    cells, wrong = executed("05_from_policy_to_hosts", own)
    assert not wrong
    assert figures(cells) == 1
    assert "as the original decided: True" in said(cells)
    assert "checked in full" in said(cells)


@pytest.mark.parametrize("name", ["02_anatomy_of_an_incast", "04_what_the_policy_learned"])
def test_it_runs_on_a_run_folder(name: str, own: Path, quickstart: tuple[list[dict[str, Any]], Path]) -> None:
    _, run = quickstart
    cells, wrong = executed(name, own, RUN=str(run))
    assert not wrong
    assert figures(cells) == NOTEBOOKS[name]


def test_a_folder_that_is_none_is_one_sentence(own: Path) -> None:
    cells, wrong = executed("02_anatomy_of_an_incast", own, RUN="nowhere")
    assert "ConfigError" in wrong
    (error,) = (o for cell in cells for o in cell.get("outputs", []) if o["output_type"] == "error")
    assert error["traceback"] == ["error: run=nowhere is no folder; name one that ncc train or ncc evaluate made"]
