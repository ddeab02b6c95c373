# SPDX-License-Identifier: BSD-3-Clause
"""The paper's figure, drawn from our numbers: a line per contender with intervals over seeds.

Hollow marks show the values that the paper gives.
"""

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.results.palette import Style, variant_styles
from ncc.results.plot.canvas import TEXT_PT, finish, log_axis, new_figure, panel_title, text_pt, thinned_mean
from ncc.study.measures_base import Course
from ncc.study.result import Result, contender_label
from ncc.study.spec import Panel
from ncc.study.table import At, text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Courses = Mapping[tuple[str, str, At], Course]
"""Values over time in the run of the first seed, by measure, contender and point."""
POINTS_OVER_TIME = 2000
"""Most points of a line over time; if there are more periods, groups of them are averaged."""
DASHES = (":", "--", "-.")


def draw(result: Result, courses: Courses, path: Path) -> None:
    """Draw all panels of the experiment into one file, at most three in a line. The file is written atomically."""
    experiment = result.grid.experiment
    panels = [panel for panel in experiment.panels if result.table.points(panel.at)]
    if not panels:
        panels = [panel.replace(at={}) for panel in experiment.panels]
    lines = -(-len(panels) // 3)
    per_line = -(-len(panels) // lines)
    width = 0.6 + 4.6 * per_line
    tallest = len(experiment.contenders) * 0.2 if any(panel.side_by_side for panel in panels) else 0.0
    height = 0.1 + max(3.5, tallest) * lines
    figure, axes = new_figure(len(panels), width=width, height=height, lines=lines)
    looks = _looks(result)
    for panel, where in zip(panels, axes, strict=True):
        if panel.side_by_side:
            _side_by_side(result, panel, where, looks)
        elif panel.over_time:
            _over_time(result, courses, panel, where, looks)
        else:
            _over_axis(result, panel, where, looks)
    entries = {name: handle for where in axes for handle, name in zip(*where.get_legend_handles_labels(), strict=True)}
    finish(figure, path, _heading(result), entries, columns=4, size_pt=TEXT_PT, grow=True)


def _looks(result: Result) -> dict[str, Style]:
    """Make a style for each contender. Among those with one controller, the least changed gets the controller's own."""
    contenders = result.grid.experiment.contenders
    plain = sorted(contenders, key=lambda name: sum(map(len, contenders[name].departures)))
    variants = variant_styles({name: contenders[name].controller for name in plain})
    return {name: variants[name] for name in contenders}


def _heading(result: Result) -> str:
    """Make the heading: the paper's claim and our outcome."""
    paper = result.grid.experiment.paper
    claim = f"{paper.title}, {paper.figure}: {result.grid.experiment.title}"
    here = f"Here, on {result.datapath} with {result.runs_text}: {result.outcome}"
    return f"{claim}\n{here}"


def _over_axis(result: Result, panel: Panel, where: "Axes", looks: Mapping[str, Style]) -> None:
    experiment, table = result.grid.experiment, result.table
    axis = panel.x or next(iter(experiment.axes))
    measure, spec = experiment.measures[panel.measure], experiment.axes[axis]
    scale = measure.shown.scale
    named = [str(point) for point in table.axes[axis]] if spec.cases else []

    def across(point: At) -> float:
        x = table.along(axis, point)
        return float(named.index(x)) if isinstance(x, str) else x

    shown = table.lines(axis, table.points(panel.at))
    for i, line in enumerate(shown.values()):
        for name, look in looks.items():
            x = np.array([across(point) for point in line])
            cells = [table.cell(panel.measure, name, point) for point in line]
            y = scale * np.array([cell.estimate for cell in cells])
            spread = scale * np.array([[c.estimate - c.low, c.high - c.estimate] for c in cells]).T
            called = contender_label(result.grid, name) + _rest(result, axis, line[0], several=len(shown) > 1)
            style: dict[str, Any] = {
                "color": look.colour,
                "ls": ("-", "--", "-.", ":")[i % 4] if len(shown) > 1 else look.line,
                "marker": look.marker,
                "ms": 5.5,
            }
            where.errorbar(x, y, np.nan_to_num(spread), lw=1.6, capsize=2.5, label=called, **style)
            paper = {a: v for p, a in zip(line, x, strict=True) if (v := table.expected.get((panel.measure, name, p)))}
            if paper:
                values = scale * np.array(list(paper.values()))
                hollow: dict[str, Any] = {"mec": look.colour, "mfc": "none", "ls": "none", "mew": 1.6, "ms": 9}
                where.plot(list(paper), values, marker=look.marker, label=f"{called}, paper", **hollow)
    if named:
        where.set_xticks(range(len(named)), named, rotation=20, ha="right")
    elif spec.log:
        where.set_xscale("log")
        where.set_xticks(list(table.axes[axis]), [f"{x:g}" for x in table.axes[axis]], rotation=45)
        where.minorticks_off()
    where.set_xlabel(spec.label)
    _frame(panel, where, measure.shown.title, scale)


def _side_by_side(result: Result, panel: Panel, where: "Axes", looks: Mapping[str, Style]) -> None:
    table, measure = result.table, result.grid.experiment.measures[panel.measure]
    names = [contender_label(result.grid, name) for name in looks]
    for shift, point in enumerate(table.points(panel.at)):
        for row, (name, look) in enumerate(looks.items()):
            cell = table.cell(panel.measure, name, point)
            spread = np.array([[cell.estimate - cell.low], [cell.high - cell.estimate]])
            style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "ms": 6, "capsize": 2.5, "lw": 1.6}
            scale = measure.shown.scale
            where.errorbar([scale * cell.estimate], [row + 0.15 * shift], xerr=np.nan_to_num(scale * spread), **style)
    where.set_yticks(range(len(names)), names, fontsize=text_pt(8))
    where.invert_yaxis()
    where.set_xlabel(measure.shown.title)
    if panel.log_y:
        where.set_xscale("log")
        log_axis(where.xaxis)
    else:
        where.set_xlim(left=min(0.0, where.get_xlim()[0]))
    panel_title(where, panel.title)


def _over_time(result: Result, courses: Courses, panel: Panel, where: "Axes", looks: Mapping[str, Style]) -> None:
    measure = result.grid.experiment.measures[panel.measure]
    points = result.table.points(panel.at)
    for i, point in enumerate(points):
        for name, look in looks.items():
            time_s, values = thinned_mean(*courses[panel.measure, name, point], POINTS_OVER_TIME)
            more = f", {result.table.where(point)}" if len(points) > 1 else ""
            line = ("-", "--", "-.", ":")[i % 4]
            called = contender_label(result.grid, name) + more
            where.plot(time_s, measure.shown.scale * values, color=look.colour, ls=line, lw=1.1, label=called)
    where.set_xlabel("simulated time (s)")
    _frame(panel, where, measure.shown.title, measure.shown.scale)


def _frame(panel: Panel, where: "Axes", title: str, scale: float) -> None:
    for (called, at), line in zip(panel.lines.items(), cycle(DASHES)):
        where.axvline(at, color="black", ls=line, lw=1.1, label=called)
    for (called, at), line in zip(panel.levels.items(), cycle(DASHES)):
        where.axhline(scale * at, color="#555555", ls=line, lw=1.1, label=called)
    if panel.log_y:
        where.set_yscale("log")
        log_axis(where.yaxis)
    else:
        where.set_ylim(bottom=min(0.0, where.get_ylim()[0]))
    where.set_ylabel(title)
    panel_title(where, panel.title)


def _rest(result: Result, axis: str, point: At, *, several: bool) -> str:
    """Text with the values on the other axes, by which a contender's lines differ; empty if it has one line."""
    if not several:
        return ""
    others = [(name, x) for name, x in zip(result.table.axes, point, strict=True) if name != axis]
    return "".join(f", {name} {text_of(x)}" for name, x in others)
