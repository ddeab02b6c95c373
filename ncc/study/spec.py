# SPDX-License-Identifier: BSD-3-Clause
"""An experiment as a frozen value: `configs/experiment/<name>.yaml`, one per figure of a paper.

Its grid is contenders x the values of each axis x seeds. A contender is a controller with parameters and changes of the
network; an axis is a quantity that the figure varies. Both set single keys of the plain configuration, named from its
top: `scenario.topology.mark_threshold_bytes`, `contenders.gemini.params.k_pkts`, `contenders.ncc.stack.order`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, field

from ncc.core.errors import ConfigError
from ncc.core.value import Count, Name, Natural, Value, from_dict
from ncc.study.checks import AnyCheck
from ncc.study.checks_base import Parts, known, known_points
from ncc.study.measures import AnyMeasure, Ratio

Text = Annotated[str, Meta(min_length=1)]


class Paper(Value, frozen=True, kw_only=True):
    """The figure of a paper that is reproduced."""

    title: Text
    figure: Text
    section: Text
    shows: Text
    """The shape, in a sentence or two of our own."""


class Contender(Value, frozen=True, kw_only=True):
    """One line of the figure."""

    controller: Name
    """A name of configs/controllers."""
    label: str = ""
    """Display name; empty: that of the controller."""
    params: dict[str, int] = field(default_factory=dict)
    """Parameters that replace the controller's own, in its integer units."""
    stack: dict[str, Any] = field(default_factory=dict)
    """Fields of the stack (`ncc.harness.datapath.HostStack`) that replace the controller's own, or its policy's. With
    another transport or order, the parameters of the former are dropped."""
    limit: dict[str, Any] = field(default_factory=dict)
    """Fields of the limit (`ncc.harness.controller`) that replace the controller's own; another `kind` replaces all."""
    receivers: dict[str, Any] = field(default_factory=dict)
    """Fields of the receiver rule that replace the controller's own."""
    tuned: str = ""
    """A set of configs/tuned (`ncc.run.controllers`): `params` override its parameters, and its keys of the scenario
    are set after the axes and before `changes`."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Keys of the configuration that this contender sets, after the axes."""

    @property
    def departures(self) -> tuple[dict[str, Any], ...]:
        """Differences from its controller: `params`, `stack`, `limit`, `receivers`, `changes`, and `tuned` if it is."""
        tuned = {"tuned": self.tuned} if self.tuned else {}
        return self.params, self.stack, self.limit, self.receivers, self.changes, tuned


class Setting(Value, frozen=True, kw_only=True):
    """A formula that sets a key from a value x of an axis: `scale` * x + `offset`, as an integer if it is whole."""

    key: Text
    scale: float = 1.0
    offset: float = 0.0

    def of(self, x: float) -> float | int:
        """The key's value, rounded to nine digits so that 0.1 * 30 is 3."""
        value = float(f"{self.scale * x + self.offset:.9g}")
        return int(value) if value.is_integer() else value


class Axis(Value, frozen=True, kw_only=True):
    """A quantity that is varied: numbers that set keys by a formula, or cases that each name their keys and values."""

    label: Text
    values: tuple[float, ...] = ()
    sets: tuple[Setting, ...] = ()
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    log: bool = False
    """Draw the axis by its logarithm."""

    def check(self) -> None:
        if bool(self.values) == bool(self.cases):
            raise ConfigError("Axis must have either values (with sets) or cases")
        if bool(self.values) != bool(self.sets):
            raise ConfigError("Axis.values and Axis.sets go together: numbers, and the keys that they set")
        if list(self.values) != sorted(set(self.values)):
            raise ConfigError(f"Axis.values must rise, got {list(self.values)}")

    @property
    def points(self) -> tuple[float | str, ...]:
        """Its values, or the names of its cases."""
        return self.values or tuple(self.cases)

    def at(self, point: float | str) -> dict[str, Any]:
        """Keys and their values at a point."""
        if isinstance(point, str):
            return self.cases[point]
        return {setting.key: setting.of(point) for setting in self.sets}


class Preset(Value, frozen=True, kw_only=True):
    """The size of an experiment. It may change durations and numbers, never the network or its load."""

    seeds: Count = 1
    first_seed: Natural = 0
    """First seed; above 0 if something was chosen by the results of the seeds before."""
    reduced: str = ""
    """Differences of the published preset from the size of the paper's experiment; empty: there is none."""
    axes: dict[str, tuple[float | str, ...]] = field(default_factory=dict)
    """Points that are run, by axis; all points of axes that are not named."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Keys of the scenario: duration_s, drain_s, period_s, and start times and numbers of a workload's flows."""

    def check(self) -> None:
        for key in self.changes:
            if not MAY_CHANGE.fullmatch(key):
                raise ConfigError(
                    "Preset.changes may set scenario.{duration_s, drain_s, period_s} and, of a workload's component, "
                    "start_s, spread_s and flows: a preset runs less of the same, it never alters rates, buffers, RTT, "
                    f"packet size or load; got {key!r}"
                )


MAY_CHANGE = re.compile(r"scenario\.((duration|drain|period)_s|workload\.[^.]+\.(start_s|spread_s|flows))")
"""Keys that a preset may change. `flows` is the number of long flows (`ncc.core.workload.Long`)."""


class PaperValue(Value, frozen=True, kw_only=True):
    """A number that the paper gives, or that its formula gives."""

    measure: Name
    contender: Name
    value: float
    source: Text
    at: dict[str, float | str] = field(default_factory=dict)


class Panel(Value, frozen=True, kw_only=True):
    """One picture: a measure against an axis, or over time."""

    measure: Name
    x: str = ""
    """An axis; empty: the first."""
    title: str = ""
    log_y: bool = False
    over_time: bool = False
    """Show the measure's course in the first seed, a line per contender and point, in place of its value."""
    side_by_side: bool = False
    """List contenders by name in place of lines along an axis; for many contenders at few points."""
    at: dict[str, float | str] = field(default_factory=dict)
    """Points that are shown, by axis; axes that are not named show all."""
    lines: dict[str, float] = field(default_factory=dict)
    """Positions of vertical lines, by label."""
    levels: dict[str, float] = field(default_factory=dict)
    """Positions of horizontal lines in the measure's SI unit, by label."""

    def check(self) -> None:
        if self.side_by_side and (self.over_time or self.x or self.lines or self.levels):
            raise ConfigError("Panel.side_by_side shows single values: leave x, over_time, lines and levels out")


class Experiment(Value, frozen=True, kw_only=True):
    """Everything but the scenario, which stays plain until a point is chosen."""

    title: Text
    paper: Paper
    contenders: dict[Name, Contender]
    axes: dict[Name, Axis]
    measures: dict[Name, AnyMeasure]
    checks: dict[Name, AnyCheck]
    panels: Annotated[tuple[Panel, ...], Meta(min_length=1)]
    presets: dict[Name, Preset]
    values: tuple[PaperValue, ...] = ()
    notes: str = ""
    """Facts about the set-up that a reader must know, and differences from the paper's."""

    def check(self) -> None:
        for part in PARTS:
            if not getattr(self, part):
                raise ConfigError(f"Experiment.{part} must name at least one")
        parts = Parts(self.measures, self.contenders, self.points)
        for name, check in self.checks.items():
            check.fits(f"checks.{name}", parts)
        for i, value in enumerate(self.values):
            known(f"measure in values[{i}]", value.measure, self.measures)
            known(f"contender in values[{i}]", value.contender, self.contenders)
            known_points(f"values[{i}].at", value.at, self.points)
        for i, panel in enumerate(self.panels):
            known(f"measure in panels[{i}]", panel.measure, self.measures)
            if panel.x:
                known(f"axis in panels[{i}]", panel.x, self.axes)
            known_points(f"panels[{i}].at", panel.at, self.points)
        plain = {name: measure for name, measure in self.measures.items() if not isinstance(measure, Ratio)}
        for name, measure in self.measures.items():
            if isinstance(measure, Ratio):
                for part in (measure.over, measure.under):
                    known(f"measure that is no ratio in measures.{name}", part, plain)
        for name, preset in self.presets.items():
            for axis, points in preset.axes.items():
                for point in points:
                    known_points(f"presets.{name}.axes", {axis: point}, self.points)

    @property
    def points(self) -> dict[str, tuple[float | str, ...]]:
        """Every point of every axis."""
        return {name: axis.points for name, axis in self.axes.items()}

    def preset(self, name: str) -> Preset:
        """The preset of this name; `UnknownNameError` if there is none."""
        known("preset", name, self.presets)
        return self.presets[name]


PARTS: dict[str, Any] = {
    "contenders": Contender,
    "axes": Axis,
    "measures": AnyMeasure,
    "checks": AnyCheck,
    "presets": Preset,
}
"""Parts that are mappings of named entries, and the types of entries."""


def experiment_from(plain: Mapping[str, Any], where: str) -> tuple[Experiment, dict[str, Any]]:
    """The experiment that a composed YAML describes, and its plain scenario.

    Raises:
        ConfigError: names the key below `where` and what is allowed.
    """
    rest = dict(plain)
    scenario = rest.pop("scenario", None)
    if not isinstance(scenario, dict):
        raise ConfigError(
            f"{where}.scenario must be there: name one in the defaults list, `- /scenario@scenario: <name>`"
        )
    for part, kind in PARTS.items():  # one by one, so that an error names the entry
        entries = rest.get(part)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            if isinstance(entry, dict):
                from_dict(kind, entry, f"{where}.{part}.{name}")
    return from_dict(Experiment, rest, where), scenario
