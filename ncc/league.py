# SPDX-License-Identifier: BSD-3-Clause
"""Rank all controllers on the same flows, with what each needs.

``with=<yours>`` places yours among those that were published. Finished runs are kept; the same command goes on from
there.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import field

from ncc.cli.mains import run_main
from ncc.core.errors import ConfigError
from ncc.core.options import folded, list_width
from ncc.core.value import Count, Name, from_dict
from ncc.run.compose import ExecutorSpec, experiment_names, load_datapath
from ncc.run.config_files import read_config
from ncc.run.controllers import load_controller


class LeagueSpec(ExecutorSpec, frozen=True, kw_only=True):
    """Settings of `ncc league`, as in configs/league.yaml, except those of experiment and scenario."""

    own: tuple[str | dict[str, Any], ...] = field(name="with")
    """Contenders to add, each a name for `ncc.run.controllers.load_controller` or the fields of a `Contender`; their
    labels differ."""
    only: tuple[Name, ...]
    """Contenders to run, beside those in `own` and the reference; empty: all."""
    all: bool
    published: str | None
    """Result in which `own` are placed; only with `own`, and without `all`, `only` and a scenario."""
    preset: Name
    seeds: Count | None
    out: str | None


def main(plain: dict[str, Any], overrides: list[str]) -> None:
    """Run the contenders, rank them, print the tables and write the page."""
    from rich.console import Console

    from ncc.results.grid import print_grid
    from ncc.study.checks_base import known
    from ncc.study.league import League, write_page
    from ncc.study.league_result import placed, published_in, require_same_flows, runs_facts
    from ncc.study.mains import resumable
    from ncc.study.points import default_datapath, grid_of, require_places
    from ncc.study.result import JSON, read_result
    from ncc.study.run import run_experiment
    from ncc.study.spec import experiment_from

    if "experiment=list" in overrides:
        _list_leagues()
        return
    experiment_plain, scenario = plain.pop("experiment"), plain.pop("scenario", None)
    given = {key: plain[key] for key in ("with", "only")}
    listed = {key: [] if of is None else of if isinstance(of, list) else [of] for key, of in given.items()}
    spec = from_dict(LeagueSpec, {**plain, **listed}, "configuration")
    named = [word.split("=", 1)[1] for word in overrides if word.startswith("experiment=")]
    name = named[-1] if named else "league"
    own = _own(spec.own)
    described = _described(experiment_plain, own, scenario)
    experiment, base = experiment_from(described, f"experiment/{name}")
    if experiment.ranking is None:
        raise ConfigError(f"experiment {name} has no ranking: name one that has, such as league")
    for contender in spec.only:
        known("contender in only", contender, experiment.contenders)
    preset, placing = experiment.preset(spec.preset), bool(own) and not (spec.all or spec.only or scenario)
    if spec.published and not placing:
        raise ConfigError("published is for with alone: leave it out, or leave out all, only and scenario")
    published = published_in(spec.published) if placing else None
    changed = bool(own) or scenario is not None or any(word.startswith("experiment.") for word in overrides)
    only = (*own, *spec.only, experiment.ranking.reference) if placing or spec.only else ()
    grid = grid_of(name, experiment, base, spec.preset, as_written=not changed, only=tuple(dict.fromkeys(only)))
    require_places(grid, tuple(own))
    seeds = range(preset.first_seed, preset.first_seed + (spec.seeds or preset.seeds))
    planned = runs_facts(grid, seeds)
    if published is not None:
        require_same_flows(planned, published)
    for (contender, point), why in grid.cannot.items():
        print(f"{contender} cannot run in {', '.join(map(str, point))}: {why}")
    print(f"{len(grid.cells) * len(seeds)} runs of {len({cell.contender for cell in grid.cells})} contenders")
    datapath = load_datapath(default_datapath(grid))
    out = Path(spec.out) if spec.out else Path("runs") / "experiments" / f"{name}_{spec.preset}_{grid.digest()[:8]}"
    with resumable("Finished runs"):
        run_experiment(grid, datapath, seeds, out / datapath.name, executor=spec.load_executor(), config=plain)
    result = read_result(out / datapath.name / JSON)
    league = League(result if published is None else placed(result, published), tuple(own))
    for table in league.grids():
        print_grid(table, Console())
    for sentence in league.own_places():
        print(sentence)
    print(f"Written to {write_page(league, out)}: open it in any browser")


def _list_leagues() -> None:
    """Print the experiments that have a ranking."""
    found = {name: read_config("experiment", "experiment", name) for name in experiment_names()}
    titles = ((name, plain["title"]) for name, plain in found.items() if "ranking" in plain)
    print(*folded(titles, width=list_width()), sep="\n")


def _own(given: Iterable[str | Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Fields of a user's contenders, by name.

    Raises:
        ConfigError: one names no controller, or two have the same label.
    """
    found: dict[str, dict[str, Any]] = {}
    for each in given:
        contender = {"controller": each} if isinstance(each, str) else dict(each)
        if not isinstance(target := contender.get("controller"), str):
            raise ConfigError(f"with must name controllers, or mappings with the key controller, got {each!r}")
        called = load_controller(target).name
        label = contender["label"] = contender.get("label") or called
        name = "own_" + re.sub(r"[^A-Za-z0-9_-]", "-", str(label))
        if name in found:
            raise ConfigError(f"two contenders in with are called {label!r}: give each a label of its own")
        found[name] = contender
    return found


def _described(
    experiment: Mapping[str, Any], own: Mapping[str, Any], scenario: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Add contenders to a plain experiment and, if there is a scenario, make it the only point of the only axis.

    Raises:
        ConfigError: there is a scenario, and more than one axis.
    """
    described = {**experiment, "contenders": {**experiment["contenders"], **own}}
    if scenario is None:
        return described
    if len(experiment["axes"]) != 1:
        raise ConfigError(
            f"scenario takes the place of an axis of cells, and the experiment has {', '.join(experiment['axes'])}: "
            "name an experiment with one axis, such as league"
        )
    (axis,) = experiment["axes"]
    cases = {str(scenario["name"]): {"scenario": scenario}}
    presets = {name: {**preset, "axes": {}, "changes": {}} for name, preset in experiment["presets"].items()}
    return {**described, "axes": {axis: {**experiment["axes"][axis], "cases": cases}}, "presets": presets}


if __name__ == "__main__":
    run_main("league", main)
