# SPDX-License-Identifier: BSD-3-Clause
"""What the notebooks share: runs of the user's or quick ones of their own, and figures and tables where one reads.

With the environment variable NCC_QUICK=1 notebooks run in seconds, as tests do. Their own runs lie in
`runs/notebooks` below the current folder, or below NCC_RUNS, and are kept: the same cell finds them again.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ncc.compose import LimiterFactory, load_controller, load_datapath, plain_config, register
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.harness.manifest import read_manifest
from ncc.harness.results import Evaluation
from ncc.harness.run import Run, eval_flow_seed, limiter_seed, run_once
from ncc.harness.trace import WindowTrace, trace_windows
from ncc.report.sources import Source, Training, read_source, require_folder

if TYPE_CHECKING:
    from ncc.experiment.draw import Courses
    from ncc.experiment.result import Result

T = TypeVar("T")
QUICK, RUNS = "NCC_QUICK", "NCC_RUNS"


class Picture:
    """A figure, shown by whatever shows notebooks."""

    def __init__(self, png: bytes) -> None:
        self.png = png

    def _repr_png_(self) -> bytes:
        return self.png


class Page:
    """Text in Markdown, likewise."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


def shown(draw: Callable[..., None], *args: Any, **kwargs: Any) -> Picture:
    """What a function of `ncc.plot` draws from these arguments, its `path` apart."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figure.png"
        draw(*args, path=path, **kwargs)
        return Picture(path.read_bytes())


def quick() -> bool:
    """Whether notebooks run as tests do."""
    said = os.environ.get(QUICK, "0")
    if said not in ("0", "1", ""):
        raise ConfigError(f"{QUICK} must be 1 (run in seconds) or 0 (as the notebooks are meant), got {said!r}")
    return said == "1"


def choose(*, quick: T, full: T) -> T:
    """One of two values: for tests, and for readers."""
    return quick if _quick() else full


_quick = quick  # whose name is that of an argument above


def own_folder(name: str, what: Any) -> Path:
    """Where a notebook keeps a run of its own: named after it and `what` it is, plain data."""
    digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:8]
    return Path(os.environ.get(RUNS) or "runs") / "notebooks" / f"{name}_{digest}"


def scenario_of(name: str, *overrides: str) -> Scenario:
    """The scenario of configs/scenario/<name>.yaml, with overrides as on the command line (``scenario.period_s=1e-4``).

    Raises:
        ConfigError: no such scenario or key, or a value that it cannot have.
    """
    return scenario_from_dict(_composed("evaluate", f"scenario={name}", *overrides)["scenario"])


def train_here(name: str, *overrides: str) -> Path:
    """The folder of a training as `python -m ncc.train <overrides>` would do it, done now unless it is there already.

    An interrupted one is continued. The table that it ends with is left to `comparison_in`.
    """
    from ncc.plan import CONFIG, TrainPlan
    from ncc.training import train

    composed = _composed("train", *overrides)
    plan = TrainPlan.from_plain({key: value for key, value in composed.items() if key not in ("resume", "out")})
    folder = own_folder(name, plan.plain)
    with _undisplayed():
        train(plan, folder, resume=(folder / CONFIG).is_file())
    return folder


def opened(run: str | Path) -> Source:
    """A folder that ncc.train or ncc.evaluate made, every file of it checked.

    Raises:
        ConfigError: there is no such folder.
        ResultError: it is unfinished, damaged, of another version, or holds no evaluation.
    """
    return read_source(Path(run))


def trained_in(run: str | Path) -> Path:
    """The folder of a finished training, likewise.

    Raises:
        NccError: as `opened`.
        ResultError: nothing was trained.
    """
    _training(opened(run))
    return Path(run)


def evaluate_here(
    name: str, scenario: Scenario, controllers: Sequence[str], *, seeds: int = 1, run: Path | None = None
) -> Evaluation:
    """Every controller on the same flows of packetsim, run now unless that is done already.

    Args:
        controllers: names of configs/controllers, of which learned ones take the policy of the training `run`, or else
            the package's.
    """
    from ncc.evaluation import run_controllers
    from ncc.plan import require_marks

    factory, datapath = LimiterFactory(run), load_datapath("packetsim")
    loaded = [factory.resolved(load_controller(controller)) for controller in controllers]
    require_marks(scenario, loaded)
    inputs = [factory.inputs(controller) for controller in loaded]
    what = [scenario.digest(), *(controller.digest() for controller in loaded), inputs, seeds]
    return run_controllers(
        scenario,
        loaded,
        range(seeds),
        datapath,
        factory,
        called="running",
        folder=own_folder(name, what) / datapath.name,
        workers=1,
        config={"notebook": name},
    )


def evaluation_in(run: str | Path, datapath: str | None = None) -> Evaluation:
    """The evaluation in a folder that ncc.train or ncc.evaluate made.

    Args:
        run: the folder.
        datapath: whose, where there are several; None: packetsim's, or else the first.

    Raises:
        NccError: as `opened`.
        UnknownNameError: not judged on that datapath; the message lists where it was.
    """
    found = opened(run).evaluations
    if datapath is not None and datapath not in found:
        raise UnknownNameError(f"datapath in {run}", datapath, found)
    return found[datapath or ("packetsim" if "packetsim" in found else next(iter(found)))]


def run_of(evaluation: Evaluation, controller: str, seed: int | None = None) -> Run:
    """One run of an evaluation; of its first seed unless another is named.

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


def windows_of(evaluation: Evaluation, run: Run, flows: Sequence[int] | None = None) -> WindowTrace:
    """Congestion windows of a stored run, which is done again for it.

    Args:
        evaluation: whose run it is; a learned controller's policy is that of the training whose folder it lies in, or
            else the package's.
        run: as `run_of` gives it.
        flows: indices of those to watch; None: all.

    Raises:
        NccError: as `ncc.harness.trace.trace_windows`.
    """
    above = evaluation.folder.resolve().parents[:3]  # <training>/evaluation/<datapath>, or one more
    training = next((folder for folder in above if _is_training(folder)), None)
    limiter = LimiterFactory(training)(run.controller, run.scenario)
    return trace_windows(run, load_datapath(run.datapath).load()(), limiter, flows=flows)


def training_curve(run: str | Path, path: Path) -> None:
    """The learning curve of a finished training, beside what each controller earns on the held-out flows.

    Raises:
        NccError: as `trained_in`.
        ConfigError: its agent plays no episodes.
    """
    from ncc.plot import learning_curve

    training = _training(opened(run))
    returns: Mapping[str, Mapping[str, list[float]]] = training.manifest.facts["held_out_returns"]
    judged_on = "packetsim" if "packetsim" in returns else next(iter(returns))
    references = {name: sum(values) / len(values) for name, values in returns[judged_on].items()}
    title = f"Return while learning; horizontal lines: mean on held-out flows on {judged_on}"
    learning_curve(training.rows, path, references=references, title=title)


def comparison_in(run: str | Path, rows: Sequence[str] | None = None) -> Page:
    """The table of a finished evaluation, worked out from its runs.

    Args:
        run: as for `evaluation_in`.
        rows: keys of `ncc.metrics.catalogue`; None: the usual ones.
    """
    from ncc.table import ROWS, markdown

    return Page(markdown(opened(run).judgement, rows or ROWS))


def experiment_here(name: str, preset: str) -> "tuple[Result, Courses]":
    """A paper's experiment as `python -m ncc.evaluate experiment=<name>` runs it; finished runs are kept.

    Returns:
        What `ncc.experiment.draw.draw` takes.
    """
    from ncc.experiment.load import load_experiment, source_digest
    from ncc.experiment.points import default_datapath, grid_of
    from ncc.experiment.run import reread, run_experiment

    experiment, scenario = load_experiment(name)
    grid = grid_of(name, experiment, scenario, preset, source=source_digest(name))
    datapath, chosen = load_datapath(default_datapath(grid)), experiment.preset(preset)
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    folder = own_folder(f"{name}_{preset}", grid.digest()) / datapath.name
    run_experiment(grid, datapath, seeds, folder, workers=2, config={"notebook": name})
    return reread(folder)


def experiment_in(folder: str | Path) -> "tuple[Result, Courses]":
    """The same of an experiment's folder, such as runs/experiments/gemini_g5_full_1a2b3c4d/packetsim; nothing is run.

    Raises:
        ConfigError: there is no such folder.
        ResultError: as `ncc.experiment.run.reread`.
    """
    from ncc.experiment.run import reread

    require_folder(Path(folder))
    return reread(Path(folder))


def verdict_of(result: "Result") -> Page:
    """Every check of an experiment, whether it holds, and its numbers."""
    words = {True: "holds", False: "**does not hold**", None: "not judged"}
    rows = [
        f"| {result.grid.experiment.checks[name].says} | {words[found.holds]} | {found.text} |".replace("\n", " ")
        for name, found in result.findings.items()
    ]
    return Page("\n".join(["| what the paper shows | here | numbers |", "|---|---|---|", *rows]))


def watched_run(
    scenario: Scenario, controller: str, *, seed: int = 0, training: Path | None = None
) -> tuple[Run, list[Measurement], FloatArray]:
    """A run on packetsim with everything that its limiter was told and decided.

    Returns:
        The run; [epochs + 1] measurements, the first from before anything was sent; [epochs, n_agents] limits in
        bits/s, each decided on the measurement of the same index.
    """
    factory = LimiterFactory(training)
    found = factory.resolved(load_controller(controller))
    told: list[Measurement] = []
    decided: list[FloatArray] = []

    def watch(measurement: Measurement, limits_bps: FloatArray | None) -> None:
        told.append(measurement)
        if limits_bps is not None:
            decided.append(limits_bps.copy())

    limiter = factory(found, scenario)
    with closing(load_datapath("packetsim").load()()) as datapath:
        run = run_once(datapath, scenario, found, limiter, seed, flow_seed=eval_flow_seed(seed), watch=watch)
    return run, told, np.array(decided)


def replayed(
    scenario: Scenario, controller: str, told: Sequence[Measurement], *, seed: int = 0, training: Path | None = None
) -> FloatArray:
    """[epochs, n_agents] limits in bits/s that a controller decides on measurements of another's run.

    Args:
        told: as `watched_run` gives them.
    """
    factory = LimiterFactory(training)
    limiter = factory(factory.resolved(load_controller(controller)), scenario)
    limiter.reset(scenario, limiter_seed(seed))
    return np.array([limiter.decide(measurement).copy() for measurement in told[:-1]])


def _is_training(folder: Path) -> bool:
    try:
        read_manifest(folder, "training", verify=False)
    except ResultError:
        return False
    return True


def _undisplayed() -> AbstractContextManager[object]:
    """In a notebook, no output but plain lines: rich's tables are as wide as a terminal."""
    if "IPython" not in sys.modules:
        return nullcontext()
    from IPython.utils.capture import capture_output

    captured: AbstractContextManager[object] = capture_output(stdout=False, stderr=False, display=True)
    return captured


def network_options(scenario: Scenario) -> list[str]:
    """What `python -m ncc.host` must be told of a scenario's first neighbourhood, as a host cannot measure it."""
    from ncc.envs.scales import scales_of

    scales = scales_of(scenario)
    told = {
        "--link-rate": scales.link_rate_bps,
        "--upper-rate": scales.upper_rate_bps,
        "--upper-buffer": scales.upper_buffer_bytes,
        "--base-rtt": scales.base_rtt_s,
    }
    return [word for name, values in told.items() for word in (name, f"{values[0]:.9g}")]


def host_says(*arguments: str) -> Page:
    """What `python -m ncc.host <arguments>` prints: its findings, or what keeps it from them."""
    plain = {key: value for key, value in os.environ.items() if "COLOR" not in key}  # a kernel asks for colours
    command = [sys.executable, "-m", "ncc.host", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=plain | {"COLUMNS": "110"})
    return Page(f"```text\n{(ended.stdout or ended.stderr).strip()}\n```")


def _training(source: Source) -> Training:
    if source.training is None:
        raise ResultError(f"{source.folder} holds no training: name a folder that python -m ncc.train made")
    return source.training


def _composed(main: str, *overrides: str) -> dict[str, Any]:
    """What the command line of a main would be composed to."""
    import hydra
    from hydra.errors import HydraException

    register()
    try:
        with hydra.initialize_config_module("ncc.configs", version_base=None):
            return plain_config(hydra.compose(main, list(overrides)))
    except HydraException as error:
        said = "; ".join(line.strip().rstrip(".") for line in str(error).splitlines() if line.strip())
        raise ConfigError(f"{' '.join(overrides)}: {said}") from None
