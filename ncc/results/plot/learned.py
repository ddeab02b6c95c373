# SPDX-License-Identifier: BSD-3-Clause
"""Figures of what a policy learned: its limits by what goes before a host, and what it goes by."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.flows import BoolArray
from ncc.results.palette import Style, styles
from ncc.results.plot.canvas import INK, entries_of, finish, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ncc.results.insight import Importance, Waiting

BEFORE = (1, 2, 4)
"""Numbers of hosts before, a panel each."""
EDGES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Edges in periods of the groups of states that a point is the mean of."""
LEAST = 15
"""Fewest states that make a point."""


def waiting_limits(found: "Waiting", path: Path) -> None:
    """Limits of hosts that do not wait and, over the bytes that go before, of hosts that do; a line per controller.

    Points are geometric means over the states that were met, vertical lines and the band the middle half of them.
    """
    looks = styles(list(found.limits))
    figure, (first, *panels) = new_figure(1 + len(BEFORE), width=8.2, height=6.4, sharey=True, lines=2)
    waits = found.busy & found.known
    cases = {
        "nothing\nto send": ~found.busy,
        "has just\nbegun": found.busy & ~found.known,
        "first\nin order": waits & (found.hosts_before == 0),
    }
    for place, (name, look) in enumerate(looks.items()):
        for at, met in enumerate(cases.values()):
            if met.sum() >= LEAST:
                middle, low, high = _spread(np.log(found.limits[name][met]))
                x = at + 0.16 * (place - (len(looks) - 1) / 2)
                first.vlines(x, low, high, color=look.colour, lw=1.8)
                first.plot(x, middle, color=look.colour, marker=look.marker, ms=6, mec="white", mew=0.6)
    first.set_xticks(range(len(cases)), list(cases), fontsize=9)
    first.set_xlim(-0.5, len(cases) - 0.5)
    first.grid(visible=False, axis="x")
    first.set_title("hosts for which nobody goes before", loc="left", fontsize=10)
    for axes, hosts in zip(panels, BEFORE, strict=True):
        _over_periods(axes, found, waits & (found.hosts_before == hosts), looks)
        axes.set_title(f"{hosts} host{'s' * (hosts > 1)} before", loc="left", fontsize=10)
        axes.set_xlim(-0.15, EDGES[-1])
        axes.set_xlabel("bytes before [periods of the uplink]", fontsize=9)
    for axes in (first, *panels):
        axes.set_yscale("log")
        axes.set_ylim(8e-4, 1.3)
        axes.yaxis.set_major_formatter(plain)
    for axes in (first, panels[1]):
        axes.set_ylabel("limit [share of link rate; 1: none]", fontsize=9)
    finish(figure, path, entries=entries_of(panels), columns=4)


def _spread(logs: np.ndarray) -> tuple[float, float, float]:
    """Geometric mean and the middle half."""
    low, high = np.percentile(logs, [25, 75])
    return float(np.exp(logs.mean())), float(np.exp(low)), float(np.exp(high))


def _over_periods(axes: "Axes", found: "Waiting", met: BoolArray, looks: dict[str, Style]) -> None:
    """Draw limits of these states over the bytes before."""
    group = np.digitize(found.periods_before, EDGES)
    groups = [rows for at in range(1, len(EDGES)) if (rows := met & (group == at)).sum() >= LEAST]
    if not groups:
        axes.text(0.5, 0.5, "hardly ever met", ha="center", color=INK, transform=axes.transAxes)
        return
    x = [found.periods_before[rows].mean() for rows in groups]
    for place, (name, look) in enumerate(looks.items()):
        middle, low, high = np.array([_spread(np.log(found.limits[name][rows])) for rows in groups]).T
        if place == 0:
            axes.fill_between(x, low, high, color=look.colour, alpha=0.18, lw=0, label=f"{look.label}, middle half")
        style: dict[str, Any] = {"color": look.colour, "ls": look.line, "marker": look.marker, "ms": 4.5}
        axes.plot(x, middle, lw=1.6 + (place == 0), label=look.label, **style)


def importance_bars(found: "Importance", path: Path) -> None:
    """Change of the decision by each group of numbers, and time of flows without it; the most important first."""
    order = found.ranked
    rows = np.arange(len(order))
    figure, (decision, flows) = new_figure(2, width=8.2, height=1.3 + 0.3 * len(order), sharey=True)
    colour = styles([found.label])[found.label].colour
    decision.barh(rows, np.exp(found.change[order]) - 1, height=0.62, color=colour, alpha=0.75, lw=0)
    decision.set_yticks(rows, [found.names[i] for i in order], fontsize=9)
    decision.set_ylim(len(rows) - 0.4, -0.6)
    decision.xaxis.set_major_formatter(lambda x, _: f"{1 + x:g}")
    decision.set_xlabel("usual factor between limits, if it is\ntold of another state (1: none)", fontsize=9)
    decision.set_title("the decision", loc="left", fontsize=10)
    middle, low, high = found.without[order].T
    style: dict[str, Any] = {"fmt": "o", "color": colour, "ecolor": INK, "capsize": 2.5, "ms": 5.5, "lw": 1.4}
    flows.errorbar(middle, rows, xerr=[middle - low, high - middle], **style)
    flows.axvline(1, color=INK, lw=0.8)
    flows.set_xlabel("mean FCT if it always says its mean,\nover that of the policy", fontsize=9)
    flows.set_title("what flows take without it", loc="left", fontsize=10)
    for axes in (decision, flows):
        axes.grid(visible=False, axis="y")
    finish(figure, path)
