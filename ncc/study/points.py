# SPDX-License-Identifier: BSD-3-Clause
"""The grid of an experiment: each contender at each point, with the scenario and the controller to run."""

import copy
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.keys import set_key
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import from_dict
from ncc.harness.controller import Controller, PolicyLimit
from ncc.run.controllers import load_controller, transports_here, tuning_of
from ncc.run.limiters import LimiterFactory
from ncc.run.plan import require_parts, with_params
from ncc.study.spec import Experiment
from ncc.study.table import At, text_of

PACKAGED = LimiterFactory(None)
_OF_STACK = (
    ("transport", "params"), ("order", "order_params"), ("tags", "tag_params"), ("front", "front_params")
)  # fmt: skip


class UnmetNeedError(ConfigError):
    """A contender needs something that the network at a point does not have; the message says what would meet it."""


@dataclass(frozen=True)
class Cell:
    """One contender at one point of the grid, as it is run with each seed."""

    contender: str
    point: At
    scenario: Scenario
    controller: Controller
    """Controller, named after the contender and the point, so that all runs of an experiment can be in one folder."""
    inputs: Mapping[str, str]
    """Digests of the files that the run depends on, such as its policy, by kind of file."""


@dataclass(frozen=True)
class Grid:
    """All contenders at all points of a preset."""

    name: str
    """Name of the experiment."""
    experiment: Experiment
    preset: str
    """Name of the preset."""
    axes: Mapping[str, tuple[float | str, ...]]
    """Points that are run, by axis."""
    cells: tuple[Cell, ...]
    as_written: bool
    """False if the command line changed something of the experiment's YAML."""
    policies: LimiterFactory
    """Factory of the contenders' limiters, which knows where their policies are."""
    cannot: Mapping[tuple[str, At], str] = field(default_factory=dict)
    """Reasons why contenders cannot run, by contender and point; empty unless the experiment has a ranking."""

    def digest(self) -> str:
        """Digest (16 hex digits) of everything that is run except the seeds and the datapath."""
        whole = "".join(
            "".join((cell.scenario.digest(), cell.controller.digest(), *cell.inputs.values())) for cell in self.cells
        )
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def grid_of(
    name: str,
    experiment: Experiment,
    scenario: Mapping[str, Any],
    preset: str,
    *,
    as_written: bool = True,
    policies: LimiterFactory = PACKAGED,
    only: Collection[str] = (),
) -> Grid:
    """Make the grid of a preset: every contender at every point.

    Args:
        name: name of the experiment.
        scenario: plain data of the scenario, which points and contenders change.
        preset: name of the preset.
        as_written: False if the command line changed something of the experiment's YAML.
        policies: factory that knows where the policies of learned contenders are; by default, in the package.
        only: contenders to run; empty: all. A grid of some is not as written.

    Raises:
        ConfigError: a point cannot be run; the message names it and says why. If the experiment has a ranking, unmet
            needs of contenders are `Grid.cannot`; only those of the ranking's reference are errors.
    """
    chosen = experiment.preset(preset)
    axes = {axis: tuple(chosen.axes.get(axis, points)) for axis, points in experiment.points.items()}
    cells = []
    cannot: dict[tuple[str, At], str] = {}
    for point in product(*axes.values()):
        for contender in only or experiment.contenders:
            at = dict(zip(axes, point, strict=True))
            try:
                cells.append(_cell(experiment, {**scenario, "name": name}, preset, contender, at, policies=policies))
            except ConfigError as error:
                if experiment.ranking is not None and isinstance(error, UnmetNeedError):
                    cannot[contender, point] = str(error)
                    continue
                where = ", ".join(f"{axis} {text_of(x)}" for axis, x in at.items())
                raise ConfigError(f"experiment {name}, contender {contender!r}, {where}: {error}") from None
    grid = Grid(name, experiment, preset, axes, tuple(cells), as_written and not only, policies, cannot)
    if experiment.ranking is not None:
        for (contender, point), why in cannot.items():
            if contender == experiment.ranking.reference:
                where = ", ".join(map(text_of, point))
                raise ConfigError(f"experiment {name}: {contender!r}, the reference, cannot run at {where}: {why}")
    return grid


def require_places(grid: Grid, contenders: Collection[str]) -> None:
    """Raise `ConfigError` if one of these contenders can run at no point; it says what would meet its need.

    Of several needs it is that of the most points.
    """
    running = {cell.contender for cell in grid.cells}
    for contender in contenders:
        if contender not in running:
            reasons = Counter(why for (name, _), why in grid.cannot.items() if name == contender)
            ((why, _),) = reasons.most_common(1)
            raise ConfigError(f"contender {contender!r} can run at no point of experiment {grid.name}: {why}")


def default_datapath(grid: Grid) -> str:
    """Name the datapath to use: packetsim or, if it lacks a contender's transport, the first that has all of them.

    Raises:
        ConfigError: no datapath has all of them.
    """
    built, missing = transports_here()
    needed = {name for cell in grid.cells for name in cell.controller.stack.transports}
    for name in sorted(built, key=lambda name: name != "packetsim"):
        if needed <= set(built[name]):
            return name
    absent = "".join(f"; {name} is not built here: {reason}" for name, reason in missing.items())
    raise ConfigError(
        f"experiment {grid.name}: no datapath runs all of {', '.join(grid.experiment.contenders)}{absent}"
    )


def _cell(
    experiment: Experiment,
    scenario: Mapping[str, Any],
    preset: str,
    contender: str,
    point: Mapping[str, float | str],
    *,
    policies: LimiterFactory,
) -> Cell:
    chosen = experiment.contenders[contender]
    plain = {
        "scenario": copy.deepcopy(dict(scenario)),
        "contenders": {
            name: copy.deepcopy(
                {key: getattr(c, key) for key in ("params", "stack", "limit", "receivers", "tuned", "changes")}
            )
            for name, c in experiment.contenders.items()
        },
    }

    def change(keys: Mapping[str, Any]) -> None:
        for key, value in keys.items():
            set_key(plain, key, copy.deepcopy(value))  # a copy, because a contender may change parts of the value

    for axis, x in point.items():
        change(experiment.axes[axis].at(x))
    settings = plain["contenders"][contender]
    changes = settings.pop("changes")
    if tuned := settings.pop("tuned"):
        tuning = tuning_of(tuned, chosen.controller, plain["scenario"])
        change(tuning.changes)
        settings["params"] = {**tuning.params, **settings["params"]}
    change(changes)
    change(experiment.presets[preset].changes)
    try:
        changed = scenario_from_dict({**plain["scenario"], "name": scenario["name"]})
    except ConfigError as error:  # such as a period that is longer than the run
        raise UnmetNeedError(str(error)) from None
    controller = _controller(chosen.controller, **settings, scenario=changed, policies=policies)
    try:
        policies(controller, changed)  # refuses a policy that does not fit the network
        require_parts(changed, [controller])
    except UnknownNameError:
        raise
    except ConfigError as error:
        raise UnmetNeedError(str(error)) from None
    for measure, kind in experiment.measures.items():
        kind.fits(f"measures.{measure}", changed)
    label = re.sub(r"[^A-Za-z0-9_.-]", "-", "+".join([contender, *(f"{k}-{text_of(x)}" for k, x in point.items())]))
    inputs = policies.inputs(controller)
    return Cell(contender, tuple(point.values()), changed, controller.replace(name=label), inputs)


def _controller(
    name: str,
    *,
    params: Mapping[str, int],
    stack: Mapping[str, Any],
    limit: Mapping[str, Any],
    receivers: Mapping[str, Any],
    scenario: Scenario,
    policies: LimiterFactory,
) -> Controller:
    """Load a controller and replace some of its parameters, and fields of its stack, limit and receiver rule."""
    controller = load_controller(name)
    if receivers:
        plain = controller.to_dict()
        beside = {"kind": "receiver_rule", **(plain["receivers"] or {}), **receivers}
        controller = from_dict(Controller, {**plain, "receivers": beside}, "contender")
    if limit:
        limit_now = controller.limit.to_dict()
        kept = limit_now if limit.get("kind", limit_now["kind"]) == limit_now["kind"] else {}
        controller = from_dict(Controller, {**controller.to_dict(), "limit": {**kept, **limit}}, "contender")
    controller = policies.resolved(controller, scenario)
    if stack:
        merged = controller.stack.to_dict()
        for part, its in _OF_STACK:
            if part in stack and stack[part] != merged.get(part):
                merged[its] = []
        plain = {**controller.to_dict(), "stack": {**merged, **stack}}
        if isinstance(controller.limit, PolicyLimit):
            plain["limit"]["stack"] = "own"  # it is no longer the stack that the policy was trained on
        controller = from_dict(Controller, plain, "contender")
    return with_params(controller, params)
