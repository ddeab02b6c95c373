# SPDX-License-Identifier: BSD-3-Clause
"""Compare controllers, learned and classical, on the same flows.

``experiment=<name>`` runs a figure of a paper and says whether its shape holds; exit status 3 if it does not.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ncc.cli.mains import run_main
from ncc.core.errors import ConfigError
from ncc.core.options import folded, list_width
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import CONSENT, Count, Name, Positive, from_dict, require_plausible
from ncc.harness.controller import (
    ClassLimit,
    Controller,
    FlowtuneLimit,
    IctcpLimit,
    LocalLimit,
    ModelLimit,
    NoLimit,
    ReceiverRuleLimit,
)
from ncc.results.figure_layout import FigureLayout, FigureWidth, layout_of
from ncc.run.compose import (
    ControllerName,
    DatapathSpec,
    JudgingSpec,
    datapath_names,
    datapaths_from,
    experiment_names,
    is_available,
    load_datapath,
)
from ncc.run.config_files import read_config
from ncc.run.controllers import controller_names, load_controller, runs_on, tuned_names
from ncc.study.mains import resumable

if TYPE_CHECKING:
    from ncc.run.plan import TrainPlan

SEEDS = 10
STATUS_NO_SHAPE = 3


class EvaluateSpec(JudgingSpec, frozen=True):
    """Settings of the command line except those of scenario, experiment, datapath and env."""

    run: tuple[str, ...]
    controller: tuple[ControllerName, ...]
    seeds: Count | None
    preset: Name
    figures: tuple[Literal["pdf", "svg"], ...]
    width_in: FigureWidth
    titles: bool
    duration_s: Positive | None
    record: bool
    out: str | None
    consent: bool


FIRST = ("ncc", "local_tuned", "dctcp_tuned")
"""Controllers to begin with: NCC, the formula without a neural network, and the TCP that both have to beat."""
BEGIN, FORMULAS, TRANSPORTS = "To begin with", "Formulas without a network", "TCP and the like, without a rate limit"
OTHERS = "Perfect knowledge, and parts of NCC alone"
KINDS = {FORMULAS: (LocalLimit, ReceiverRuleLimit, IctcpLimit, FlowtuneLimit), TRANSPORTS: (NoLimit,)}
"""Kinds of limits of the controllers in a group of the list."""
OWN = ("run", "controller", "params", "scenario", "duration_s", "reference")
"""Settings that an experiment determines itself."""


def main(plain: dict[str, Any], overrides: list[str]) -> None:
    """Evaluate the named controllers and print one table, or run an experiment and print its verdict."""
    typed = {override.split("=")[0].lstrip("+~").split("@")[0] for override in overrides}
    if plain["controller"] in ("list", ["list"]):
        _list_controllers()
        return
    if "experiment=list" in overrides:
        _list_experiments()
        return
    experiment = plain.pop("experiment", None)
    chosen = {key: value for key, value in plain.items() if key not in ("scenario", "datapath", "env")}
    for key in ("run", "controller", "figures"):
        value = chosen[key]
        chosen[key] = [] if value is None else value if isinstance(value, list) else [value]
    chosen["params"] = _params(chosen["params"])
    spec = from_dict(EvaluateSpec, chosen, "configuration")
    if experiment is None and (spec.figures or spec.width_in or not spec.titles):
        raise ConfigError(
            "figures, width_in and titles are for an experiment: ncc report run=<folder> figures=pdf draws all others"
        )
    del plain[CONSENT], plain["figures"], plain["width_in"], plain["titles"]
    layout = layout_of(spec.width_in, titles=spec.titles, figures=spec.figures)
    if not spec.record:
        if seen := sorted(key for key in typed if key.partition(".")[0].partition("/")[0] == "env"):
            raise ConfigError(f"{seen[0]} says how recorded hosts are seen and paid: give record=true, or leave it out")
        del plain["record"], plain["env"]  # neither affects the result
    elif experiment is not None:
        raise ConfigError(
            "an experiment is judged on held-out flows and records nothing: leave record out, or name scenario= in "
            "place of experiment="
        )
    with resumable("Finished runs"):
        if experiment is None:
            _evaluate(spec, plain.get("scenario"), _datapaths(plain, overrides), plain)
            return
        if both := [key for key in OWN if key in typed or (key == "params" and spec.params)]:
            raise ConfigError(f"an experiment says its own {both[0]}: leave {both[0]}= out, or experiment=")
        datapaths = _datapaths(plain, overrides) if "datapath" in typed else ()
        name = next(o.split("=", 1)[1] for o in overrides if o.split("=")[0].lstrip("+") == "experiment")
        changed = any(key.startswith("experiment.") for key in typed)
        _experiment(name, experiment, spec, datapaths, plain, layout=layout, as_written=not changed)


def _params(plain: Any) -> dict[str, dict[str, Any]]:
    """Parameters from `params=`, by controller; their ranges are checked later."""
    for name, given in ({} if plain is None else plain if isinstance(plain, dict) else {"": plain}).items():
        if not isinstance(given, dict):
            key = f"params.{name}".rstrip(".")
            raise ConfigError(f"{key} must name parameters, as +params.gemini.capacity_mbps=10000, got {given!r}")
    return dict(plain or {})


def _datapaths(plain: Mapping[str, Any], overrides: Sequence[str]) -> tuple[DatapathSpec, ...]:
    """Datapaths from `datapath=`: at least one, and none twice (Hydra would merge the two silently)."""
    known, named = ", ".join(datapath_names()), False
    for key, _, value in (override.partition("=") for override in overrides):
        names = [name.strip(" '\"") for name in value.strip().strip("[]").split(",")]
        named |= key.lstrip("+~").partition(".")[0] == "datapath"
        if key == "datapath" and len(set(names)) != len(names):
            raise ConfigError(f"datapath names one twice: {', '.join(names)}; name each once, of {known}")
    if not plain.get("datapath"):
        raise ConfigError(f"datapath names none; name at least one of {known}")
    datapaths = datapaths_from(plain["datapath"])
    return datapaths if named else tuple(datapath for datapath in datapaths if is_available(datapath.name))


def _list_controllers() -> None:
    """Print the controllers in groups: those to begin with, formulas, TCP and the like, and the rest."""
    listed: dict[str, list[tuple[str, str]]] = {title: [] for title in (BEGIN, FORMULAS, TRANSPORTS, OTHERS)}
    for name in controller_names():
        controller = load_controller(name)
        group = next((title for title, kinds in KINDS.items() if isinstance(controller.limit, kinds)), OTHERS)
        where = ", ".join(runs_on(controller)) or "nowhere built"
        listed[BEGIN if name in FIRST else group].append((name, f"{controller.summary} ({where})"))
    for tuned, name in tuned_names().items():
        text = f"{name}, with settings for the scenario's kind of network, from configs/tuned"
        listed[BEGIN if tuned in FIRST else TRANSPORTS].append((tuned, text))
    listed[BEGIN].sort(key=lambda entry: FIRST.index(entry[0]))
    width, column = list_width(), max(len(name) for entries in listed.values() for name, _ in entries)
    for title, entries in listed.items():
        print(f"{title}:", *folded(entries, width=width, column=column, indent=2), sep="\n")


def _list_experiments() -> None:
    titles = ((name, read_config("experiment", "experiment", name)["title"]) for name in experiment_names())
    print(*folded(titles, width=list_width()), sep="\n")  # composing all takes long


def _experiment(
    name: str,
    described: dict[str, Any],
    spec: EvaluateSpec,
    datapaths: tuple[DatapathSpec, ...],
    plain: dict[str, Any],
    *,
    layout: FigureLayout,
    as_written: bool,
) -> None:
    """Run the experiment on each of `datapaths`; if there are none, on the experiment's `default_datapath`."""
    from ncc.study.points import default_datapath, grid_of
    from ncc.study.result import FIGURE
    from ncc.study.run import require_usable, run_experiment
    from ncc.study.spec import experiment_from

    experiment, scenario = experiment_from(described, f"experiment/{name}")
    preset = experiment.preset(spec.preset)
    grid = grid_of(name, experiment, scenario, spec.preset, as_written=as_written)
    first_seed = spec.first_seed + preset.first_seed
    seeds = range(first_seed, first_seed + (spec.seeds or preset.seeds))
    datapaths = datapaths or (load_datapath(default_datapath(grid)),)
    out = Path(spec.out) if spec.out else Path("runs") / "experiments" / f"{name}_{spec.preset}_{grid.digest()[:8]}"
    print(f"{experiment.title}\n{experiment.paper.title}, {experiment.paper.figure}. {experiment.paper.shows.strip()}")
    print(f"Preset {spec.preset}: {len(grid.cells) * len(seeds)} runs")
    held, executor = True, spec.load_executor()
    for datapath in datapaths:
        folder = out / datapath.name
        result = run_experiment(
            grid, datapath, seeds, folder, executor=executor, config=plain, figures=spec.figures, layout=layout
        )
        print(f"\n{name} on {datapath.name}, {len(seeds)} seed{'s' if len(seeds) != 1 else ''}:")
        for check, found in result.findings.items():
            word = {True: "holds", False: "DOES NOT HOLD", None: "not judged"}[found.holds]
            word += ", narrowly" * found.narrow
            print(f"  {word}: {check}: {experiment.checks[check].claim}: {found.text}")
        print(result.verdict)
        print(f"Written to {folder} ({FIGURE})")
        require_usable(result)
        held &= result.holds
    if not held:
        raise SystemExit(STATUS_NO_SHAPE)


def _evaluate(
    spec: EvaluateSpec,
    scenario_plain: Mapping[str, Any] | None,
    datapaths: tuple[DatapathSpec, ...],
    plain: dict[str, Any],
) -> None:
    if not spec.controller:
        known = ", ".join(controller_names())
        raise ConfigError(f"controller must name at least one of {known}; controller=list says what each is")
    # Imported late: `--help` and `controller=list` do not need these modules.
    from ncc.harness.manifest import read_manifest
    from ncc.results.evaluation import judge, require_valid
    from ncc.run.plan import EvaluationSpec, TrainPlan

    if len({Path(run).resolve() for run in spec.run}) < len(spec.run):
        raise ConfigError(f"run names a folder twice: {', '.join(spec.run)}")
    plans = [TrainPlan.load(Path(run)) for run in spec.run]
    scenario = _scenario(spec, scenario_plain, plans)
    evaluation = EvaluationSpec(
        datapaths=tuple(datapath.name for datapath in datapaths),
        controllers=spec.controller,
        seeds=spec.seeds or SEEDS,
        duration_s=scenario.duration_s,
        **{name: getattr(spec, name) for name in JudgingSpec.__struct_fields__},
    )
    controllers = [controller for controller, _ in evaluation.contenders(scenario)]  # refuses unknown parameters now
    if scenario_plain is None and not plans:
        print(f"No scenario is named: {scenario.name}")
    for run in spec.run:
        read_manifest(Path(run), "training")  # refuses unfinished or changed runs
    leaf = _leaf(scenario, spec.params, controllers)
    recording, kind = None, "evaluations"
    if spec.record:
        from ncc.envs.recording import Recording
        from ncc.envs.spec import EnvView

        recording, kind = Recording(from_dict(EnvView, plain["env"], "env")), "recordings"
        leaf += f"_{recording.view.digest()[:8]}"
        print("Recorded runs have flows of their own, never those that are held out for judging.")
    if not plans:
        name = f"evaluate_{leaf}" if recording is None else f"record_{leaf}"
        folder = Path(spec.out) if spec.out else Path("runs") / name
        judged = judge(scenario, evaluation, datapaths, policies=None, folder=folder, config=plain, recording=recording)
        require_valid(judged)
        return
    runs = [Path(run) for run in spec.run]
    if spec.out and len({run.name for run in runs}) < len(runs):
        raise ConfigError("two of the runs have folders of one name, which would meet under out; leave out= out")
    folders = [Path(spec.out) / run.name if spec.out else run / kind / leaf for run in runs]
    judgements = []
    for path, folder in zip(runs, folders, strict=True):
        print(f"\nRun {path}")
        judgements.append(
            judge(scenario, evaluation, datapaths, policies=path, folder=folder, config=plain, recording=recording)
        )
    for judged in judgements:
        require_valid(judged)


def _scenario(spec: EvaluateSpec, plain: Mapping[str, Any] | None, plans: Sequence["TrainPlan"]) -> Scenario:
    """Make the scenario: the named one, else that of the runs, else the default; `spec.duration_s` replaces its own."""
    from ncc.envs.make import DEFAULT_SCENARIO

    scenario: Scenario
    if plain is not None:
        scenario = scenario_from_dict(plain)
    elif plans:
        scenario = plans[0].evaluation_scenario
        if any(plan.evaluation_scenario != scenario for plan in plans):
            raise ConfigError("the runs were evaluated on different scenarios; say which to use here: scenario=<name>")
    else:
        scenario = DEFAULT_SCENARIO
    if spec.duration_s is not None:
        scenario = scenario.replace(duration_s=spec.duration_s)
    if plain is not None or spec.duration_s is not None:  # a run's own scenario was confirmed when it was trained
        require_plausible({"scenario": scenario}, spec.consent)
    return scenario


def _leaf(scenario: Scenario, params: Mapping[str, Any], controllers: Sequence[Controller]) -> str:
    """Name a results folder by everything that may change the decisions of controllers: scenario, params, files."""
    from ncc.run.limiters import LimiterFactory

    files = [LimiterFactory(None).inputs(c) for c in controllers if isinstance(c.limit, ClassLimit | ModelLimit)]
    parts = [hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest() for part in (params, files) if part]
    return "_".join([scenario.name, *(digest[:8] for digest in (scenario.digest(), *parts))])


if __name__ == "__main__":
    run_main("evaluate", main)
