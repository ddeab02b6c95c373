# SPDX-License-Identifier: BSD-3-Clause
"""Every notebook, run once from top to bottom in its quick mode; two of them on the run folder that the first left."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from IPython.core.formatters import format_display_data
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from ncc.harness.networks import Networks
from ncc.harness.pool import Processes
from ncc.results import training
from ncc.results.notebook import QUICK, RUNS
from ncc.run.compose import experiment_names
from ncc.study.draw import Courses
from ncc.study.notebook import experiment_here
from ncc.study.result import Result
from tests.house.files import ROOT
from tests.support.here import Here

QUICKSTART = "01_quickstart"
INCAST, PAPER = "02_anatomy_of_an_incast", "03_reproduce_a_paper"
LEARNED, HOSTS = "04_what_the_policy_learned", "05_from_policy_to_hosts"
NETWORK = "06_my_network_my_traffic"
LEAGUE = "07_a_league_of_my_own"
JOB = "08_a_job_of_my_own"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Current folder, in which notebooks keep their runs; they start no process for them."""
    folder = tmp_path_factory.mktemp("my notebooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(QUICK, "1")
        patch.setenv(RUNS, str(folder))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))  # nobody's own settings
        patch.chdir(folder)
        for name in ("ps1", "ps2", "ps3"):  # IPython's prompts, by which others tell that somebody is typing
            patch.setattr(sys, name, "", raising=False)
        patch.setattr(Processes, "run", Here().run)
        patch.setattr(training, "WorkerNetworks", Networks)
        patch.setattr("ncc.results.evaluation._draw", lambda *_: None)  # of each flow, which no notebook shows
        yield folder
        InteractiveShell.clear_instance()


class Ran:
    """Code cells of a notebook, run by IPython in this process: what they display, print and define."""

    def __init__(self, name: str, run: Path | None = None, only: Iterable[int] | None = None) -> None:
        """Run all cells or those at the indices `only`, on a run folder or by themselves."""
        InteractiveShell.clear_instance()
        settings = Config(HistoryManager={"enabled": False})
        shell = InteractiveShell.instance(config=settings, user_module=ModuleType(name))
        cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        displayed: list[dict[str, Any]] = []
        self.text = ""
        for i in range(len(code)) if only is None else only:
            source = code[i] if run is None else code[i].replace("\nRUN = None ", f"\nRUN = {str(run)!r} ")
            with capture_output() as captured:
                done = shell.run_cell(source)  # type: ignore[no-untyped-call]
            done.raise_error()
            self.text += captured.stdout
            displayed += [output.data for output in captured.outputs]
            if done.result is not None:
                displayed.append(format_display_data(done.result)[0])  # type: ignore[no-untyped-call]
        self.figures = sum("image/png" in data for data in displayed)
        self.text += "\n".join(data.get("text/markdown", "") for data in displayed)
        self.names: dict[str, Any] = shell.user_ns


@pytest.fixture(scope="module")
def quickstart(own: Path) -> tuple[Ran, Path]:
    """The first notebook, and the run folder that it leaves."""
    ran = Ran(QUICKSTART)
    (run,) = (own / "notebooks").glob("quickstart_*")
    return ran, run


def test_the_quickstart_trains_and_compares(quickstart: tuple[Ran, Path]) -> None:
    ran, run = quickstart
    assert ran.figures == 3
    assert "| FCT slowdown, all flows, mean |" in ran.text
    assert (run / "policy.ncc").is_file()


@pytest.mark.parametrize(("name", "pictures"), [(INCAST, 6), (LEARNED, 4)])
def test_it_runs_on_a_run_folder(name: str, pictures: int, quickstart: tuple[Ran, Path]) -> None:
    _, run = quickstart
    assert Ran(name, run).figures == pictures


@pytest.mark.parametrize(
    ("name", "other", "controllers"),
    [(INCAST, (0, 1), ("ncc", "dctcp", "cubic", "bbr")), (LEARNED, (0, 1, 5), ("ncc", "local_hold"))],
)
@pytest.mark.usefixtures("own")
def test_without_a_folder_it_makes_runs_of_its_own(
    name: str, other: tuple[int, ...], controllers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those cells that then do something else; the rest is as above."""
    monkeypatch.setattr("ncc.results.notebook.shown", lambda *_, **__: None)
    left = Ran(name, only=other).names
    assert left["RUN"] is None
    assert left["evaluation"].controllers == controllers


@pytest.mark.usefixtures("own")
def test_a_figure_of_a_paper_is_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest experiment stands for those that the notebook names, which tests/study runs."""
    asked: list[str] = []

    def shortest(name: str, preset: str) -> tuple[Result, Courses]:
        asked.append(name)
        return experiment_here("bcc_b4", preset)

    monkeypatch.setattr("ncc.study.notebook.experiment_here", shortest)
    assert Ran(PAPER).figures == len(asked) == 2
    assert set(asked) <= set(experiment_names())


@pytest.mark.parametrize("name", [NETWORK, LEAGUE])
@pytest.mark.usefixtures("own")
def test_sizes_are_drawn_with_the_mean_of_the_measured_ones(name: str) -> None:
    """Sizes are uniform between two lines of the table, so a line for each per cent would blow up the largest."""
    ran = Ran(name, only=[0, 1])
    size_bytes, share = np.loadtxt(ran.names["folder"] / "sizes.csv", delimiter=",").T
    drawn_bytes = np.sum(np.diff(share) * (size_bytes[1:] + size_bytes[:-1]) / 2)
    assert drawn_bytes == pytest.approx(ran.names["measured"].mean(), rel=0.02)


@pytest.mark.usefixtures("own")
def test_a_league_of_ones_own_goes_from_sizes_to_a_page() -> None:
    ran = Ran(LEAGUE)
    assert "league.html: open it in any browser" in ran.text
    assert [name for name in ("NewReno", "PIAS", "NCC", "Homa", "DCTCP, tuned") if f"| {name} |" not in ran.text] == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (HOSTS, ("as the original decided: True", "checked in full")),
        (NETWORK, ("5,000 flows", "| FCT slowdown, all flows, mean |")),
        (JOB, ("0,1,10000,0,0", "112 flows, 8 computations", "| QCT, mean (ms) |", "| QCT slowdown, mean |")),
    ],
)
@pytest.mark.usefixtures("own")
def test_it_draws_a_figure_and_says_what_it_promises(name: str, said: tuple[str, ...]) -> None:
    ran = Ran(name)
    assert ran.figures == 1
    assert [text for text in said if text not in ran.text] == []
