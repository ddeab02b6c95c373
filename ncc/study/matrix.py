# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of every controller in every kind of network; each network is an evaluation of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ncc.core.errors import ConfigError, InvalidRunError, UnknownNameError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import Name, Natural, Value, from_dict
from ncc.harness.controller import Controller, PolicyLimit
from ncc.harness.manifest import provenance
from ncc.harness.results import Evaluation
from ncc.metrics.catalogue import CATALOGUE
from ncc.results.comparison import compare
from ncc.results.evaluation import run_controllers
from ncc.results.palette import label
from ncc.run.compose import DatapathSpec, ExecutorSpec, composed, datapaths_from
from ncc.run.controllers import controller_names, load_controller
from ncc.run.plan import require_parts, require_transports, with_params
from ncc.study.page import number, render
from ncc.study.points import PACKAGED
from ncc.study.result import commits_of
from ncc.study.table import rounded

METRICS = (
    "slowdown_all_mean",
    "slowdown_all_p99",
    "slowdown_small_p99",
    "goodput_bps",
    "queue_delay_mean_s",
    "timeouts_per_flow",
    "loss_frac",
)
"""Metrics in the summary, by their keys in `ncc.metrics.catalogue`, in the order shown."""
DEPTH = 4
"""Number of outer levels of results.json whose entries have a line each: summary, cases, one case, its controllers."""
Summary = dict[str, Any]
"""Plain data: the contents of results.json."""


class CaseSpec(Value, frozen=True):
    """A network and its traffic."""

    title: Annotated[str, Meta(min_length=1)]
    overrides: tuple[str, ...]
    """Overrides of `ncc evaluate`; one of them chooses the scenario."""
    params: dict[Name, dict[Name, int]] = msgspec.field(default_factory=dict)
    """Parameters to set in this network, by controller and name, in the controller's own integer units."""


class MatrixSpec(ExecutorSpec, frozen=True):
    """The contents of configs/matrix.yaml without the datapath."""

    controller: Annotated[tuple[Name, ...], Meta(min_length=1)] | None
    """Names of controllers; None: all that run on the datapath without a training of the user's."""
    seeds: Annotated[int, Meta(ge=1, le=10_000)]
    """Number of runs of each controller in each network."""
    first_seed: Natural
    """Seed of the first run; the others follow."""
    out: Annotated[str, Meta(min_length=1)]
    """Folder of the runs and the summary; finished runs are kept."""
    docs: str | None
    """Second folder for the summary; None: there is none."""
    cases: Annotated[dict[Name, CaseSpec], Meta(min_length=1)]
    """Networks, by name."""

    def check(self) -> None:
        super().check()
        if self.controller and len(set(self.controller)) != len(self.controller):
            raise ConfigError(f"controller names one twice: {', '.join(self.controller)}")
        for name, case in self.cases.items():
            for controller in case.params:
                if controller not in (known := controller_names()):
                    raise UnknownNameError(f"controller in cases.{name}.params", controller, known)


@dataclass(frozen=True)
class Matrix:
    """All networks and controllers, checked before anything runs."""

    spec: MatrixSpec
    datapath: DatapathSpec
    cases: Mapping[str, tuple[Scenario, tuple[Controller, ...]]]
    """Scenario and controllers of each case, by its name."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Matrix":
        """Compose every case of a configuration, and check it.

        Raises:
            ConfigError: a key, case or controller is invalid; the message names it, and what is allowed.
        """
        spec = from_dict(MatrixSpec, {key: value for key, value in plain.items() if key != "datapath"}, "configuration")
        datapaths = datapaths_from(plain["datapath"])
        if len(datapaths) != 1:
            raise ConfigError(f"a matrix is of one datapath, got {len(datapaths)}: choose datapath=<name>")
        controllers = _all_on(datapaths[0]) if spec.controller is None else [*map(load_controller, spec.controller)]
        cases = {name: _case(name, case, controllers) for name, case in spec.cases.items()}
        require_transports(datapaths, [controller for _, ready in cases.values() for controller in ready])
        return cls(spec, datapaths[0], cases)


def _all_on(datapath: DatapathSpec) -> list[Controller]:
    """Load the controllers that run on the datapath without a training of the user's.

    Controllers in which receivers alone decide are left out: these networks have no neighbourhoods of receivers.
    """
    has = datapath.load()().transports()
    return [
        c
        for c in map(load_controller, controller_names())
        if c.stack.transport in has
        and not (c.stack.hold and c.receivers is None)
        and not (isinstance(c.limit, PolicyLimit) and not c.limit.pretrained)
    ]


def _case(name: str, spec: CaseSpec, controllers: Sequence[Controller]) -> tuple[Scenario, tuple[Controller, ...]]:
    plain = composed("evaluate", spec.overrides).get("scenario")
    if plain is None:
        raise ConfigError(f"cases.{name}.overrides must choose a scenario: scenario=<name>")
    scenario = scenario_from_dict(plain)
    ready = tuple(
        PACKAGED.resolved(with_params(controller, spec.params.get(controller.name, {})), scenario)
        for controller in controllers
    )
    for controller in ready:
        PACKAGED(controller, scenario)  # refuses a policy that is missing or does not fit
    require_parts(scenario, ready)
    return scenario, ready


def run_matrix(matrix: Matrix, config: Mapping[str, Any], command: str) -> Summary:
    """Do the runs that `matrix.spec.out` does not hold yet, and summarise all runs.

    Args:
        config: resolved configuration, for the manifests of the runs.
        command: command line to show in the summary.

    Raises:
        InvalidRunError: a run is invalid, for instance because a flow was not delivered. It is raised after all cases
            have run; the message names each such run and its problem.
    """
    out, spec = Path(matrix.spec.out), matrix.spec
    seeds = range(spec.first_seed, spec.first_seed + spec.seeds)
    executor = spec.load_executor()
    done: dict[str, Evaluation] = {}
    with executor.opened():
        for name, (scenario, controllers) in matrix.cases.items():
            done[name] = run_controllers(
                scenario,
                controllers,
                seeds,
                matrix.datapath,
                PACKAGED,
                called=name,
                folder=out / name,
                executor=executor,
                config=config,
            )
    runs = [(name, run) for name, evaluation in done.items() for run in evaluation.runs]
    if problems := [f"{name}: {run.label}: {problem}" for name, run in runs for problem in run.problems]:
        raise InvalidRunError(f"some runs must not be used, and no summary is written: {'; '.join(problems)}")
    origin = provenance()
    return {
        "command": command,
        "datapath": matrix.datapath.name,
        "controllers": {name: label(name) for name in next(iter(done.values())).controllers},
        "seeds": list(seeds),
        "commits": list(commits_of(run.manifest.provenance for _, run in runs)),
        "processor": origin["processor"],
        "cpus": origin["cpus_usable"],
        "cases": {name: _summarised(spec.cases[name], *matrix.cases[name], done[name]) for name in done},
    }


def _summarised(spec: CaseSpec, scenario: Scenario, ready: Sequence[Controller], done: Evaluation) -> Summary:
    compared = compare(done)
    controllers = {}
    for controller in ready:
        name = controller.name
        facts, values = [run.manifest.facts for run in done.of(name)], compared.values[name]
        flows = sum(fact["n_flows"] for fact in facts)
        cells = {metric: compared.cell(name, metric) for metric in METRICS}
        controllers[name] = {
            "flows": flows,
            "finished": flows - int(sum(values["unfinished"])),
            "cpu_s": rounded(sum(fact["cpu_s"] for fact in facts), 3),
            "params": dict(controller.stack.params),
            "metrics": {
                metric: {
                    "mean": rounded(cell.estimate),
                    "low": rounded(cell.low),
                    "high": rounded(cell.high),
                    "per_seed": [rounded(value) for value in values[metric]],
                }
                for metric, cell in cells.items()
            },
        }
    return {
        "title": spec.title,
        "scenario": scenario.name,
        "scenario_digest": scenario.digest(),
        "overrides": list(spec.overrides),
        "hosts": scenario.n_agents,
        "duration_s": scenario.duration_s,
        "controllers": controllers,
    }


def page(summary: Summary) -> str:
    """Render the page of a summary, as Markdown."""
    runs = [entry for case in summary["cases"].values() for entry in case["controllers"].values()]
    return render("matrix.md.jinja", **summary, runs=runs, tables=[*map(_table, summary["cases"].values())])


def _table(case: Summary) -> tuple[list[str], list[list[str]]]:
    """Make the head and the rows of a case's table: a row of means per controller.

    Metrics that are undefined for all controllers are left out.
    """
    entries = case["controllers"]
    shown = [CATALOGUE[m] for m in METRICS if any(e["metrics"][m]["mean"] is not None for e in entries.values())]
    rows = []
    for name, entry in entries.items():
        rows.append([label(name), *(number(entry["metrics"][m.key]["mean"], m.scale, m.digits) for m in shown)])
    return ["", *(metric.title.replace("<", "&lt;") for metric in shown)], rows
