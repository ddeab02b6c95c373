# SPDX-License-Identifier: BSD-3-Clause
"""Learning curves."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.metrics.stats import Interval
from ncc.results.palette import styles
from ncc.results.plot.canvas import INK, entries_of, finish, legend_columns, new_figure, thinned, thousands

COINCIDE_FRAC = 0.006
"""Distance below which horizontal lines would cover each other, as a share of the range of returns: a line's width.

Such lines are dashed in turn, so that each of them can be seen.
"""
DASH = 6.0
"""Length of a dash, in line widths."""
FENCE = 3.0
"""Distance from the quartiles to the ends of the axis of returns, in interquartile ranges; more if the curve or a line
needs it."""


def learning_curve(
    rows: Iterable[Mapping[str, Any]],
    path: Path,
    *,
    references: Mapping[str, float] | None = None,
    title: str = "",
) -> None:
    """Draw the return of every episode against epochs, with the running mean and the running interquartile range.

    A few episodes far from all others do not set the axis: they are counted in the legend.

    Args:
        rows: reports of a training: `epochs` is the number of periods so far, `returns` has the returns of the episodes
            that ended since the last report.
        references: returns to draw as horizontal lines, by controller, such as that of the untrained policy.

    Raises:
        ConfigError: no episode ended.
    """
    points = [(row["epochs"], value) for row in rows for value in row["returns"]]
    if not points:
        raise ConfigError("no episode ended during training, so there is no learning curve: raise the number of epochs")
    epochs, returns = np.array(points, dtype=np.float64).T
    window = min(len(returns), max(5, len(returns) // 20))
    at, middle, low, high = (column[thinned(len(column))] for column in _running(epochs, returns, window))
    figure, (axes,) = new_figure(1, width=9.0, height=4.6)
    axes.plot(at, middle, color=INK, lw=2, label=f"mean of {window} episodes", zorder=3)
    axes.fill_between(at, low, high, color=INK, alpha=0.15, lw=0, label="middle half of them")
    levels = dict(references or {})
    quartiles = np.percentile(returns, [25, 75])
    reach = FENCE * (quartiles[1] - quartiles[0])
    near = returns[(returns >= quartiles[0] - reach) & (returns <= quartiles[1] + reach)]
    seen = [*near, *low, *high, *levels.values()]
    bottom, top = min(seen), max(seen)
    beyond = int(((returns < bottom) | (returns > top)).sum())
    text = "one episode" + (f" ({beyond} of {len(returns)} beyond the axis)" if beyond else "")
    axes.plot(epochs, returns, ".", ms=4, color=INK, alpha=0.25, label=text, rasterized=True)
    margin = 0.05 * (top - bottom) or 0.5
    axes.set_ylim(bottom - margin, top + margin)
    turns = _turns(levels, COINCIDE_FRAC * (top - bottom))
    for name, style in styles(list(levels)).items():
        turn, n = turns[name]
        line: Any = (DASH * turn, (DASH, DASH * (n - 1))) if n > 1 else style.line or "--"
        axes.axhline(levels[name], color=style.colour, ls=line, lw=1.6)
        axes.plot([], [], color=style.colour, ls=style.line or "--", lw=1.6, label=style.label)
    axes.set_xlabel("training epochs (decisions, all racks together)")
    axes.set_ylabel("return (mean reward\nper host and epoch)")
    axes.xaxis.set_major_formatter(thousands)
    axes.set_xlim(0, 1.01 * epochs.max())
    finish(figure, path, title or "Learning curve", entries_of([axes]), columns=legend_columns(figure))


def held_out_curve(
    points: Mapping[int, Interval], others: Mapping[str, float], path: Path, *, over: str, title: str = ""
) -> None:
    """Draw a policy's mean FCT on held-out flows, divided by a controller's, against epochs of training.

    A band shows the intervals over seeds; there is none for one seed.

    Args:
        points: the policy's ratios, by the number of epochs that it learned from.
        others: ratios of other controllers, drawn as horizontal lines.
        over: name of the controller in the denominator, shown on the axis.
    """
    figure, (axes,) = new_figure(1, width=9.0, height=4.6)
    at, found = list(points), list(points.values())
    axes.plot(at, [point.estimate for point in found], "o-", color=INK, lw=2, label="policy", zorder=3)
    low, high = [point.low for point in found], [point.high for point in found]
    if np.isfinite(low).all():
        axes.fill_between(at, low, high, color=INK, alpha=0.15, lw=0, label="95 % interval over seeds")
    for name, style in styles(list(others)).items():
        axes.axhline(others[name], color=style.colour, ls=style.line or "--", lw=1.6, label=style.label)
    axes.set_xlabel("training epochs (decisions, all racks together)")
    axes.set_ylabel(f"mean FCT over that of {over}")
    axes.xaxis.set_major_formatter(thousands)
    finish(figure, path, title or "Learning curve", entries_of([axes]), columns=legend_columns(figure))


def _turns(levels: Mapping[str, float], near: float) -> dict[str, tuple[int, int]]:
    """Position of each name in its group, and the size of the group. Neighbours in a group differ by at most `near`."""
    groups: list[list[str]] = []
    for name in sorted(levels, key=lambda name: levels[name]):
        if groups and levels[name] - levels[groups[-1][-1]] <= near:
            groups[-1].append(name)
        else:
            groups.append([name])
    return {name: (turn, len(group)) for group in groups for turn, name in enumerate(group)}


def _running(epochs: FloatArray, values: FloatArray, window: int) -> tuple[FloatArray, ...]:
    """Compute mean and quartiles over centred windows of episodes; the windows shrink towards both ends.

    Returns:
        Four curves: the epochs, ascending and each once, and the mean, lower and upper quartile there. If several
        episodes end at the same epoch, they have no order, so the values of the windows around them are averaged.
    """
    at, which, count = np.unique(epochs, return_inverse=True, return_counts=True)
    half = window // 2
    padded = np.pad(values[np.argsort(epochs, kind="stable")], half, constant_values=np.nan)
    view = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    curves = np.nanmean(view, axis=1), np.nanpercentile(view, 25, axis=1), np.nanpercentile(view, 75, axis=1)
    return at, *(np.bincount(np.sort(which), weights=curve) / count for curve in curves)
