# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.evaluate``: compare controllers, learned and classical, on the same held-out flows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ncc.cli import run_main
from ncc.compose import DatapathSpec, controller_names, datapaths_from, load_controller
from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import Count, Name, Natural, Positive, Value, from_dict


class EvaluateSpec(Value, frozen=True):
    """What the command line asked for, scenario and datapath apart."""

    run: tuple[str, ...]
    controller: tuple[Name, ...]
    seeds: Count
    first_seed: Natural
    duration_s: Positive | None
    workers: Count
    out: str | None


def main(plain: dict[str, Any], _: list[str]) -> None:
    """Evaluate the named controllers and print one table."""
    if plain["controller"] in ("list", ["list"]):
        for name in controller_names():
            print(f"{name:16} {load_controller(name).summary}")
        return
    chosen = {key: value for key, value in plain.items() if key not in ("scenario", "datapath")}
    for key in ("run", "controller"):
        value = chosen[key]
        chosen[key] = [] if value is None else value if isinstance(value, list) else [value]
    spec = from_dict(EvaluateSpec, chosen, "configuration")
    datapaths = datapaths_from(plain["datapath"])
    try:
        _evaluate(spec, plain.get("scenario"), datapaths, plain)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted. Finished runs are kept; the same command goes on from there.") from None


def _evaluate(
    spec: EvaluateSpec,
    scenario_plain: Mapping[str, Any] | None,
    datapaths: tuple[DatapathSpec, ...],
    plain: dict[str, Any],
) -> None:
    # Imported here: `--help` and `controller=list` answer without what only a run needs.
    from ncc.evaluation import judge, judge_runs, require_valid
    from ncc.harness.manifest import read_manifest
    from ncc.plan import EvaluationSpec, TrainPlan

    if len({Path(run).resolve() for run in spec.run}) < len(spec.run):
        raise ConfigError(f"run names a folder twice: {', '.join(spec.run)}")
    plans = [TrainPlan.load(Path(run)) for run in spec.run]
    scenario: Scenario
    if scenario_plain is not None:
        scenario = scenario_from_dict(scenario_plain)
    elif plans:
        scenario = plans[0].evaluation_scenario
        if any(plan.evaluation_scenario != scenario for plan in plans):
            raise ConfigError("the runs were evaluated on different scenarios; say which to use here: scenario=<name>")
    else:
        raise ConfigError("name a run to evaluate (run=<folder>) or a scenario (scenario=rack)")
    if spec.duration_s is not None:
        scenario = scenario.replace(duration_s=spec.duration_s)
    evaluation = EvaluationSpec(
        datapaths=tuple(datapath.name for datapath in datapaths),
        controllers=spec.controller,
        seeds=spec.seeds,
        first_seed=spec.first_seed,
        duration_s=scenario.duration_s,
        workers=spec.workers,
    )
    for run in spec.run:
        read_manifest(Path(run), "training")  # refuses what is unfinished, or was changed since
    leaf = f"{scenario.name}_{scenario.digest()[:8]}"
    if not plans:
        folder = Path(spec.out) if spec.out else Path("runs") / f"evaluate_{leaf}"
        require_valid(judge(scenario, evaluation, datapaths, policies=None, folder=folder, config=plain))
        return
    runs = [Path(run) for run in spec.run]
    if spec.out and len({run.name for run in runs}) < len(runs):
        raise ConfigError("two of the runs have folders of one name, which would meet under out; leave out= away")
    folders = [Path(spec.out) / run.name if spec.out else run / "evaluations" / leaf for run in runs]
    require_valid(judge_runs(scenario, evaluation, datapaths, runs=runs, folders=folders, config=plain))


if __name__ == "__main__":
    run_main("evaluate", main)
