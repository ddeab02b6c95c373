# SPDX-License-Identifier: BSD-3-Clause
"""Types of the contents of `configs/experiment/<name>.yaml`: an experiment reproduces one figure of a paper.

Each contender is run at each point of a grid, with several seeds. A contender is a controller with parameters and
changes of the network. An axis is a quantity that the figure varies; a point has one value for each axis. Both set
single keys of the plain configuration, with their full names: `scenario.topology.mark_threshold_bytes`,
`contenders.gemini.params.k_pkts`, `contenders.ncc.stack.order`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from ncc.core.errors import ConfigError
from ncc.core.value import Count, Name, Natural, Value, from_dict
from ncc.run.compose import ControllerName
from ncc.study.checks import AnyCheck
from ncc.study.checks_base import Parts, known, known_points
from ncc.study.measures import AnyMeasure, Ratio

Text = Annotated[str, Meta(min_length=1)]
Need = Literal["marks", "tuning", "sizes", "words", "agents", "classes", "routes", "switches", "stack", "oracle"]
"""Something that a contender needs beside TCP and drop-tail ports; `ncc.study.league_result.MEANING` says which."""


class Paper(Value, frozen=True, kw_only=True):
    """The figure that is reproduced, and the paper that it is in."""

    title: Text
    figure: Text
    section: Text
    shows: Text
    """Shape of the figure, in a sentence or two of our own."""


class Contender(Value, frozen=True, kw_only=True):
    """One line of the figure: a controller, and the settings in which it differs from configs/controllers."""

    controller: ControllerName
    """Name in configs/controllers, or another that `ncc.run.controllers.load_controller` takes."""
    label: str = ""
    """Name in tables and figures; empty: the controller's."""
    params: dict[str, int] = field(default_factory=dict)
    """Parameters that replace the controller's own, in its integer units."""
    stack: dict[str, Any] = field(default_factory=dict)
    """Fields of the host stack (`ncc.harness.datapath.HostStack`) that replace those of the controller or its policy.
    If the transport, the order or the tags are replaced, the parameters of the former ones are dropped."""
    limit: dict[str, Any] = field(default_factory=dict)
    """Fields of the limit (`ncc.harness.controller`) that replace the controller's; another `kind` replaces all."""
    receivers: dict[str, Any] = field(default_factory=dict)
    """Fields of the receiver rule that replace the controller's own."""
    tuned: str = ""
    """Name of a set in configs/tuned (`ncc.run.controllers`); empty: none. `params` override the set's parameters. Its
    keys of the scenario are set after those of the axes and before `changes`."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Keys of the configuration that this contender sets, after those of the axes."""
    needs: tuple[Need, ...] = ()
    """Needs that its settings do not show (`ncc.study.league_result.needs_of`), such as `sizes` of a transport."""

    @property
    def departures(self) -> tuple[dict[str, Any], ...]:
        """All differences from the controller: `params`, `stack`, `limit`, `receivers`, `changes` and `tuned`."""
        tuned = {"tuned": self.tuned} if self.tuned else {}
        return self.params, self.stack, self.limit, self.receivers, self.changes, tuned


class Setting(Value, frozen=True, kw_only=True):
    """A key that an axis sets: for a value x it becomes `scale` * x + `offset`, as an integer if that is whole."""

    key: Text
    scale: float = 1.0
    offset: float = 0.0

    def of(self, x: float) -> float | int:
        """Compute the key's value, rounded to nine significant digits so that 0.1 * 30 is 3."""
        value = float(f"{self.scale * x + self.offset:.9g}")
        return int(value) if value.is_integer() else value


class Axis(Value, frozen=True, kw_only=True):
    """A quantity that is varied. It has either numbers, which set keys by formulas, or named cases."""

    label: Text
    values: tuple[float, ...] = ()
    """Numbers, in ascending order."""
    sets: tuple[Setting, ...] = ()
    """Keys that the numbers set."""
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Keys and values that each case sets, by its name."""
    log: bool = False
    """Draw the axis on a logarithmic scale."""

    def check(self) -> None:
        if bool(self.values) == bool(self.cases):
            raise ConfigError("Axis must have either values (with sets) or cases")
        if bool(self.values) != bool(self.sets):
            raise ConfigError("Axis.values and Axis.sets go together: numbers, and the keys that they set")
        if list(self.values) != sorted(set(self.values)):
            raise ConfigError(f"Axis.values must rise, got {list(self.values)}")

    @property
    def points(self) -> tuple[float | str, ...]:
        """Points of the axis: its numbers, or the names of its cases."""
        return self.values or tuple(self.cases)

    def at(self, point: float | str) -> dict[str, Any]:
        """Keys and values that the axis sets at one of its points."""
        if isinstance(point, str):
            return self.cases[point]
        return {setting.key: setting.of(point) for setting in self.sets}


class Preset(Value, frozen=True, kw_only=True):
    """The size of an experiment. It may change durations and numbers of flows, but not the network or its load."""

    seeds: Count = 1
    """Number of seeds."""
    first_seed: Natural = 0
    """First seed. It is above 0 if something in the experiment was chosen by the results of smaller seeds."""
    reduced: str = ""
    """Text on how the published preset is smaller than the paper's experiment; empty: it is not."""
    axes: dict[str, tuple[float | str, ...]] = field(default_factory=dict)
    """Points that are run, by axis; of an axis that is not named, all are."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Keys of the scenario that the preset sets: durations, the period, and start times and numbers of flows
    and requests (`MAY_CHANGE`)."""

    def check(self) -> None:
        for key in self.changes:
            if not MAY_CHANGE.fullmatch(key):
                raise ConfigError(
                    "Preset.changes may set scenario.{duration_s, drain_s, period_s} and, of a workload's component, "
                    "start_s, spread_s, flows and requests: a preset runs less of the same, it never alters rates, "
                    f"buffers, RTT, packet size or load; got {key!r}"
                )


MAY_CHANGE = re.compile(r"scenario\.((duration|drain|period)_s|workload\.[^.]+\.(start_s|spread_s|flows|requests))")
"""Pattern of the keys that a preset may change. `flows` is the number of long flows (`ncc.core.workload.Long`)."""


class PaperValue(Value, frozen=True, kw_only=True):
    """A value of a measure that the paper states, or that follows from a formula in it."""

    measure: Name
    contender: Name
    value: float
    """Value in the SI unit of the measure."""
    source: Text
    """Place in the paper."""
    at: dict[str, float | str] = field(default_factory=dict)
    """Points to which the value belongs, by axis; it belongs to all points of axes that are not named."""


class Panel(Value, frozen=True, kw_only=True):
    """One panel of the figure: a measure against an axis, over time, or as a list of contenders."""

    measure: Name
    x: str = ""
    """Name of the horizontal axis; empty: the experiment's first axis."""
    title: str = ""
    log_y: bool = False
    over_time: bool = False
    """Show the measure in every period of the first seed's run, with a line for each contender and point."""
    side_by_side: bool = False
    """List the contenders by name with a mark for each point; this suits many contenders at few points."""
    at: dict[str, float | str] = field(default_factory=dict)
    """Points that are shown, by axis; of an axis that is not named, all are."""
    lines: dict[str, float] = field(default_factory=dict)
    """Positions of vertical lines on the horizontal axis, by label."""
    levels: dict[str, float] = field(default_factory=dict)
    """Positions of horizontal lines in the measure's SI unit, by label."""

    def check(self) -> None:
        if self.side_by_side and (self.over_time or self.x or self.lines or self.levels):
            raise ConfigError("Panel.side_by_side shows single values: leave x, over_time, lines and levels out")


class Ranking(Value, frozen=True, kw_only=True):
    """The order of all contenders at each point, by a measure.

    A contender that cannot run at a point has no place there; in an experiment without a ranking it is an error.
    """

    measure: Name
    """Measure by which contenders are ranked; the smallest value is first."""
    reference: Name
    """Contender over whose values geometric means are taken. It must run at every point."""
    beside: tuple[Name, ...] = ()
    """Measures whose means over the points are shown beside the ranks."""


class Experiment(Value, frozen=True, kw_only=True):
    """All of an experiment except its scenario, which stays plain data because each point changes it."""

    title: Text
    paper: Paper
    contenders: dict[Name, Contender]
    axes: dict[Name, Axis]
    measures: dict[Name, AnyMeasure]
    checks: dict[Name, AnyCheck]
    panels: Annotated[tuple[Panel, ...], Meta(min_length=1)]
    presets: dict[Name, Preset]
    values: tuple[PaperValue, ...] = ()
    ranking: Ranking | None = None
    notes: str = ""
    """Facts about the set-up that a reader must know, and its differences from the paper's set-up."""

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
        self._check_ranking()
        plain = {name: measure for name, measure in self.measures.items() if not isinstance(measure, Ratio)}
        for name, measure in self.measures.items():
            if isinstance(measure, Ratio):
                for part in (measure.over, measure.under):
                    known(f"measure that is no ratio in measures.{name}", part, plain)
        for name, preset in self.presets.items():
            for axis, points in preset.axes.items():
                for point in points:
                    known_points(f"presets.{name}.axes", {axis: point}, self.points)

    def _check_ranking(self) -> None:
        if self.ranking is None:
            return
        for name in (self.ranking.measure, *self.ranking.beside):
            known("measure in ranking", name, self.measures)
        known("contender in ranking.reference", self.ranking.reference, self.contenders)

    @property
    def points(self) -> dict[str, tuple[float | str, ...]]:
        """All points, by axis."""
        return {name: axis.points for name, axis in self.axes.items()}

    def preset(self, name: str) -> Preset:
        """Return the preset of this name; `UnknownNameError` if there is none."""
        known("preset", name, self.presets)
        return self.presets[name]


PARTS: dict[str, Any] = {
    "contenders": Contender,
    "axes": Axis,
    "measures": AnyMeasure,
    "checks": AnyCheck,
    "presets": Preset,
}
"""Parts of an experiment that are mappings from names to entries, with the types of the entries."""


def experiment_from(plain: Mapping[str, Any], where: str) -> tuple[Experiment, dict[str, Any]]:
    """Read the experiment that a composed YAML describes.

    Args:
        where: name of the experiment's place, such as `experiment/<name>`, with which keys in messages begin.

    Returns:
        The experiment, and its scenario as plain data.

    Raises:
        ConfigError: a value is invalid; the message names its key and what is allowed.
    """
    rest = dict(plain)
    scenario = rest.pop("scenario", None)
    if not isinstance(scenario, dict):
        raise ConfigError(
            f"{where}.scenario must be there: name one in the defaults list, `- /scenario@scenario: <name>`"
        )
    for part, kind in PARTS.items():  # each entry first, so that an error names it
        entries = rest.get(part)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            if isinstance(entry, dict):
                from_dict(kind, entry, f"{where}.{part}.{name}")
    return from_dict(Experiment, rest, where), scenario
