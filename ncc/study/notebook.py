# SPDX-License-Identifier: BSD-3-Clause
"""Papers' experiments in notebooks: functions that run an experiment and keep its runs, or read a finished one."""

from pathlib import Path

from ncc.harness.pool import Processes
from ncc.results.grid import markdown_grid, markdown_table
from ncc.results.notebook.show import Page, own_folder
from ncc.results.report.sources import require_folder
from ncc.run.compose import load_datapath
from ncc.study.draw import Courses
from ncc.study.experiments_page import NARROWLY, WORDS
from ncc.study.league import League
from ncc.study.league_result import published_in
from ncc.study.load import load_experiment
from ncc.study.page import plain
from ncc.study.points import default_datapath, grid_of
from ncc.study.result import JSON, Result
from ncc.study.run import reread, run_experiment


def experiment_here(name: str, preset: str) -> tuple[Result, Courses]:
    """Run a paper's experiment like `ncc evaluate experiment=<name>`; finished runs are kept.

    Args:
        name: name in configs/experiment.
        preset: one of the experiment's presets.

    Returns:
        The result, and the values over time: the first two arguments of `ncc.study.draw.draw`.
    """
    experiment, scenario = load_experiment(name)
    grid = grid_of(name, experiment, scenario, preset)
    datapath, chosen = load_datapath(default_datapath(grid)), experiment.preset(preset)
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    folder = own_folder(f"{name}_{preset}", grid.digest()) / datapath.name
    run_experiment(grid, datapath, seeds, folder, executor=Processes(2), config={"notebook": name})
    return reread(folder)


def ranks_in(folder: str | Path) -> Page:
    """Show the tables of a league, whose folder `ncc league` printed; nothing is run.

    Raises:
        ConfigError: there is no such folder.
        ResultError: it holds no result with ranks.
    """
    league = League(published_in(str(Path(folder) / "packetsim" / JSON)))
    return Page("\n\n".join(map(markdown_grid, league.grids())))


def experiment_in(folder: str | Path) -> tuple[Result, Courses]:
    """Read the folder of an experiment, such as runs/experiments/gemini_g5_full_1a2b3c4d/packetsim; nothing is run.

    Raises:
        ConfigError: there is no such folder.
        ResultError: see `ncc.study.run.reread`.
    """
    require_folder(Path(folder))
    return reread(Path(folder))


def verdict_of(result: Result) -> Page:
    """Make a table of an experiment's checks, with their outcomes and numbers."""
    checks = result.grid.experiment.checks
    rows = [
        [plain(checks[name].claim), WORDS[f.holds] + NARROWLY * f.narrow, plain(f.text)]
        for name, f in result.findings.items()
    ]
    return Page(markdown_table(["what the paper shows", "here", "numbers"], rows))
