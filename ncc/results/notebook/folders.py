# SPDX-License-Identifier: BSD-3-Clause
"""Trainings and evaluations for notebooks: the user's, which are checked first, or new ones, which are kept."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.scenario import Scenario
from ncc.harness.pool import Processes
from ncc.harness.results import Evaluation
from ncc.results.notebook.show import Page, own_folder
from ncc.results.report.figures import curve_figure
from ncc.results.report.sources import read_source, training_of
from ncc.run.compose import composed, load_datapath
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory


def train_here(name: str, *overrides: str) -> Path:
    """Train like `ncc train <overrides>`, unless that is done already, and return the run folder.

    An interrupted training is continued. `comparison_in` shows the final table.

    Args:
        name: beginning of the folder's name.
    """
    from ncc.results.training import train
    from ncc.run.plan import CONFIG, TrainPlan, planned

    whole = composed("train", overrides)
    plan = TrainPlan.from_plain(planned(whole))
    folder = own_folder(name, plan.plain)
    with _undisplayed():
        train(plan, folder, resume=(folder / CONFIG).is_file())
    return folder


def trained_in(run: str | Path) -> Path:
    """Check every file in the folder of a finished training, and return the folder.

    Raises:
        ConfigError: there is no such folder.
        ResultError: it is unfinished, damaged or of another version, or holds no training.
    """
    training_of(read_source(Path(run)))
    return Path(run)


def evaluate_here(name: str, scenario: Scenario, controllers: Sequence[str], *, run: Path | None = None) -> Evaluation:
    """Run every controller once on packetsim, on the same flows, unless that is done already.

    Args:
        name: beginning of the folder's name.
        controllers: names in configs/controllers.
        run: folder of the training whose policy learned controllers take; None: the policy in the package.
    """
    from ncc.results.evaluation import run_controllers
    from ncc.run.plan import require_parts

    factory, datapath = LimiterFactory(run), load_datapath("packetsim")
    loaded = [factory.resolved(load_controller(controller), scenario) for controller in controllers]
    require_parts(scenario, loaded)
    inputs = [factory.inputs(controller) for controller in loaded]
    what = [scenario.digest(), *(controller.digest() for controller in loaded), inputs]
    return run_controllers(
        scenario,
        loaded,
        range(1),
        datapath,
        factory,
        called="running",
        folder=own_folder(name, what) / datapath.name,
        executor=Processes(),
        config={"notebook": name},
    )


def evaluation_in(run: str | Path, datapath: str | None = None) -> Evaluation:
    """Read an evaluation from a folder that ncc train or ncc evaluate made.

    Args:
        run: the folder.
        datapath: datapath of the evaluation; None: packetsim if there is one, else the first.

    Raises:
        NccError: as `ncc.results.report.sources.read_source`.
        UnknownNameError: there is no evaluation on that datapath; the message lists those that exist.
    """
    evaluations = read_source(Path(run)).evaluations
    if datapath is not None and datapath not in evaluations:
        raise UnknownNameError(f"datapath in {run}", datapath, evaluations)
    return evaluations[datapath or ("packetsim" if "packetsim" in evaluations else next(iter(evaluations)))]


def training_curve(run: str | Path, path: Path) -> None:
    """Draw the learning curve of a finished training, as its report does.

    Args:
        run: folder of the training.
        path: file to write; its suffix says the form.

    Raises:
        NccError: as `trained_in`.
        ConfigError: no episode ended, or its agent plays none.
    """
    source = read_source(Path(run))
    training_of(source)
    if (drawing := curve_figure(source)) is None:
        raise ConfigError("the agent played no episodes in training, so there is no learning curve")
    drawing.draw(path)


def comparison_in(run: str | Path, rows: Sequence[str] | None = None) -> Page:
    """Compute the full table of a finished evaluation from its runs.

    Args:
        run: folder that ncc train or ncc evaluate made.
        rows: metrics to show, by their keys in `ncc.metrics.catalogue`; None: all.
    """
    from ncc.metrics.catalogue import CATALOGUE
    from ncc.results.table import markdown

    return Page(markdown(read_source(Path(run)).judgement, rows or CATALOGUE))


def _undisplayed() -> AbstractContextManager[object]:
    """Hide rich's output in a notebook, where its tables are as wide as a terminal; plain lines are still shown."""
    if "IPython" not in sys.modules:
        return nullcontext()
    from IPython.utils.capture import capture_output

    captured: AbstractContextManager[object] = capture_output(stdout=False, stderr=False, display=True)
    return captured
