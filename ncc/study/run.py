# SPDX-License-Identifier: BSD-3-Clause
"""Execution of an experiment: all runs of its grid, which are kept if interrupted, then table, figure and verdict."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ncc.core.errors import InvalidRunError, ResultError
from ncc.harness.atomic import remove
from ncc.harness.pool import Executor
from ncc.harness.results import StoredRun, load_evaluation
from ncc.metrics.catalogue import worst
from ncc.results.evaluation import run_controllers
from ncc.results.figure_layout import SCREEN, FigureLayout
from ncc.results.plot import laid_out
from ncc.run.compose import DatapathSpec
from ncc.run.plan import require_transports
from ncc.study.draw import Courses, draw
from ncc.study.load import load_experiment
from ncc.study.measures import measure_all
from ncc.study.measures_base import Course, MeasuredRun
from ncc.study.points import Grid, grid_of
from ncc.study.result import FIGURE, JSON, Result, commits_of
from ncc.study.spec import Experiment
from ncc.study.table import At, Table


def run_experiment(
    grid: Grid,
    datapath: DatapathSpec,
    seeds: Sequence[int],
    folder: Path,
    *,
    executor: Executor,
    config: Mapping[str, Any],
    figures: Sequence[str] = (),
    layout: FigureLayout = SCREEN,
) -> Result:
    """Do the runs that `folder` does not hold yet; measure and judge all; write result and figure there.

    Invalid runs raise no error here. The result lists their problems, for which `require_usable` raises.

    Args:
        config: resolved configuration, for the manifests of the runs.
        figures: forms in which the figure is written too, such as ``pdf``.
        layout: width of these, and whether they have titles.

    Raises:
        ConfigError: the datapath lacks a contender's transport.
        ResultError, WorkerDiedError, NccError: see `ncc.harness.pool.evaluate`.
    """
    require_transports([datapath], [cell.controller for cell in grid.cells])
    for name in (JSON, FIGURE):
        remove(folder / name)  # results of earlier runs must not stay if these runs fail
    done = run_controllers(
        {cell.controller.name: cell.scenario for cell in grid.cells},
        [cell.controller for cell in grid.cells],
        seeds,
        datapath,
        grid.policies,
        called=grid.name,
        folder=folder,
        executor=executor,
        config=config,
    )
    result, courses = _measured(
        grid, datapath.name, tuple(seeds), {(run.controller, run.seed): run for run in done.runs}
    )
    draw(result, courses, folder / FIGURE)
    with laid_out(layout):
        for form in figures:
            draw(result, courses, (folder / FIGURE).with_suffix(f".{form}"))
    result.save(folder)
    return result


def reread(folder: Path) -> tuple[Result, Courses]:
    """Measure and judge the stored runs of a finished experiment again; nothing is run.

    Returns:
        The result, and the values over time that the figure needs.

    Raises:
        ResultError: the folder holds no finished experiment or another version of it, or a file is missing or changed.
    """
    path = folder / JSON
    try:
        plain = json.loads(path.read_bytes())
        name, preset, datapath, seeds = (plain[key] for key in ("name", "preset", "datapath", "seeds"))
    except FileNotFoundError:
        raise ResultError(
            f"{folder} holds no finished experiment: it has no {JSON}; name a folder that ncc evaluate "
            "experiment=<name> made, with its datapath"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"{path} cannot be read ({error!r}); run the experiment again") from None
    experiment, scenario = load_experiment(name)
    grid = grid_of(name, experiment, scenario, preset)
    runs = {(run.controller, run.seed): run for run in load_evaluation(folder).runs}
    for cell in grid.cells:
        for seed in seeds:
            stored = runs.get((cell.controller.name, seed))
            if stored is None or stored.manifest.facts["scenario_digest"] != cell.scenario.digest():
                raise ResultError(
                    f"{folder} was made by another version of experiment {name} (controller {cell.controller.name!r}, "
                    f"seed {seed}, is {'missing' if stored is None else 'of another scenario'}); run it again"
                )
    return _measured(grid, datapath, tuple(seeds), runs)


def require_usable(result: Result) -> None:
    """Raise `InvalidRunError` with the problems of invalid runs, if there are any."""
    if result.problems:
        raise InvalidRunError(f"some runs are invalid and count against their contenders: {'; '.join(result.problems)}")


def _measured(
    grid: Grid, datapath: str, seeds: tuple[int, ...], runs: Mapping[tuple[str, int], StoredRun]
) -> tuple[Result, Courses]:
    experiment = grid.experiment
    timed = {panel.measure for panel in experiment.panels if panel.over_time}
    values_of: dict[tuple[str, str, At], list[float]] = {}
    invalid: dict[tuple[str, At], list[int]] = {}
    courses: dict[tuple[str, str, At], Course] = {}
    problems: list[str] = []
    warnings: dict[str, dict[str, None]] = {}
    n_flows = 0
    for cell in grid.cells:
        if found_here := grid.policies.warnings(cell.controller, cell.scenario):
            warnings.setdefault(cell.contender, {}).update(dict.fromkeys(found_here))
        for seed in seeds:
            stored = runs[cell.controller.name, seed]
            problems += [f"{stored.label}: {problem}" for problem in stored.problems]
            n_flows += int(stored.manifest.facts["n_flows"])
            run = stored.load()
            if stored.problems:
                invalid.setdefault((cell.contender, cell.point), []).append(seeds.index(seed))
            for name, value in measure_all(experiment.measures, run).items():
                values_of.setdefault((name, cell.contender, cell.point), []).append(value)
            if seed == seeds[0]:
                for name in timed:
                    courses[name, cell.contender, cell.point] = experiment.measures[name].course(MeasuredRun(run))
    _count_as_worst(experiment, values_of, invalid)
    facts = [run.manifest.facts for run in runs.values()]
    table = Table(
        axes=grid.axes,
        contenders=tuple(experiment.contenders),
        values={key: tuple(values) for key, values in values_of.items()},
        expected=_expected(grid),
        invalid={key: len(bad) for key, bad in invalid.items()},
    )
    findings = {
        name: check.judge(table, experiment.measures[check.measure]) for name, check in experiment.checks.items()
    }
    result = Result(
        grid=grid,
        datapath=datapath,
        seeds=seeds,
        table=table,
        findings=findings,
        problems=tuple(problems),
        n_flows=n_flows,
        wall_s=sum(float(fact["wall_s"]) for fact in facts),
        cpu_s=sum(float(fact["cpu_s"]) for fact in facts),
        commits=commits_of(run.manifest.provenance for run in runs.values()),
        warnings={name: tuple(texts) for name, texts in warnings.items()},
    )
    return result, courses


def _count_as_worst(
    experiment: Experiment,
    found: Mapping[tuple[str, str, At], list[float]],
    invalid: Mapping[tuple[str, At], Sequence[int]],
) -> None:
    """Replace undefined values of invalid runs by the worst value that any contender has at that point for the seed.

    Args:
        found: one value per seed, by measure, contender and point.
        invalid: positions of the seeds of invalid runs, by contender and point.
    """
    for (contender, point), bad in invalid.items():
        for name, measure in experiment.measures.items():
            values = found[name, contender, point]
            for i in bad:
                if math.isnan(values[i]):
                    others = (at[i] for other in experiment.contenders if (at := found.get((name, other, point))))
                    values[i] = worst(others, measure.shown.better)


def _expected(grid: Grid) -> dict[tuple[str, str, At], float]:
    """Collect the paper's values by measure, contender and point.

    A value that does not name an axis belongs to all points of that axis.
    """
    empty = Table(axes=grid.axes, contenders=(), values={})
    return {
        (value.measure, value.contender, point): value.value
        for value in grid.experiment.values
        for point in empty.points(value.at)
    }
