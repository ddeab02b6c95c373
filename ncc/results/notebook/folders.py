# SPDX-License-Identifier: BSD-3-Clause
"""Trainings and evaluations for notebooks: the user's, which are checked first, or new ones, which are kept."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from ncc.core.errors import NccError, ResultError, UnknownNameError
from ncc.core.scenario import Scenario
from ncc.harness.pool import Processes
from ncc.harness.results import Evaluation, StoredRun
from ncc.harness.run import Run
from ncc.harness.trace import WindowTrace, trace_windows
from ncc.results.notebook.show import Page, own_folder
from ncc.results.report.figures import held_out_returns
from ncc.results.report.sources import read_source, require_folder, training_of
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


def run_of(evaluation: Evaluation, controller: str, seed: int | None = None) -> Run:
    """Load one run of an evaluation.

    Args:
        seed: seed of the run; None: the smallest.

    Raises:
        ResultError: the evaluation has no such run, or a table was written by another version of ncc.
    """
    seeds = {stored.seed: stored for stored in evaluation.of(controller)}
    if not seeds or (seed is not None and seed not in seeds):
        raise ResultError(
            f"{evaluation.folder} has no run of {controller!r}{'' if seed is None else f' with seed {seed}'}; it has "
            f"{', '.join(evaluation.controllers)}, seeds {', '.join(map(str, evaluation.manifest.facts['seeds']))}"
        )
    return seeds[min(seeds) if seed is None else seed].load()


def windows_of(
    evaluation: Evaluation, run: Run, flows: Sequence[int] | None = None, *, training: str | Path | None = None
) -> WindowTrace:
    """Do a stored run again and record the congestion windows of its flows.

    Args:
        evaluation: evaluation that holds the run.
        run: the run, as `run_of` returns it.
        flows: indices of the flows to record; None: all.
        training: run folder with the policy of a learned controller; None: it is looked for in the folders above the
            evaluation, then in the package.

    Raises:
        NccError: as `ncc.harness.trace.trace_windows`.
        ConfigError: `training` is no folder.
        ResultError: the evaluation has no such run, or the policy that made the run is not found.
    """
    stored = next((s for s in evaluation.of(run.controller.name) if s.seed == run.seed), None)
    if stored is None:
        raise ResultError(f"{evaluation.folder} has no run of {run.label}; take one that run_of gives")
    factory = LimiterFactory(_policies_of(evaluation, stored, run, None if training is None else Path(training)))
    return trace_windows(run, load_datapath(run.datapath).load()(), factory(run.controller, run.scenario), flows=flows)


def _policies_of(evaluation: Evaluation, stored: StoredRun, run: Run, training: Path | None) -> Path | None:
    """Find the run folder of a run's policy; None: the policy is in the package, or the controller has none."""
    made_with = stored.manifest.facts["inputs"].get("policy")
    places: list[Path | None] = [training]
    if training is None:  # the evaluation is <training>/evaluation/<datapath>, or one level deeper
        places = [*evaluation.folder.resolve().parents[:3], None]
    else:
        require_folder(training)
    for place in places:
        try:
            if LimiterFactory(place).inputs(run.controller).get("policy") == made_with:
                return place
        except (NccError, OSError):
            continue  # no policy there, or none of that name
    tried = training or "a training above its evaluation, nor of the package"
    raise ResultError(
        f"the policy that the run of {run.label} was made with is not that of {tried}; name the folder of the training "
        "that made it: training=<folder>"
    )


def training_curve(run: str | Path, path: Path) -> None:
    """Draw the learning curve of a finished training, with the mean return of each controller on held-out flows.

    Args:
        run: folder of the training.
        path: file to write, PNG or SVG.

    Raises:
        NccError: as `trained_in`.
        ConfigError: no episode ended, or its agent plays none.
    """
    from ncc.results.plot import learning_curve

    source = read_source(Path(run))
    judged_on, returns = held_out_returns(source)
    title = f"Return while learning; horizontal lines: mean on held-out flows on {judged_on}"
    learning_curve(training_of(source).rows, path, references=returns, title=title)


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
