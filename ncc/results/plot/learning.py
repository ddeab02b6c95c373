# SPDX-License-Identifier: BSD-3-Clause
"""Returns during learning."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.results.palette import styles
from ncc.results.plot.canvas import INK, entries_of, finish, legend_columns, new_figure, thinned, thousands

COINCIDE_FRAC = 0.006
"""Share of the range of returns, about a line's width, within which levels coincide and are dashed in turn."""
DASH = 6.0
"""Length of a dash in line widths."""


def learning_curve(
    rows: Iterable[Mapping[str, Any]],
    path: Path,
    *,
    references: Mapping[str, float] | None = None,
    title: str = "",
) -> None:
    """Returns against epochs: every episode faint, their running mean strong, its interquartile range shaded.

    Args:
        rows: reports with `epochs` (periods so far) and `returns` (of the episodes that ended since).
        references: levels to compare with, by controller name, in the same unit (e.g. the untrained policy's).

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
    axes.plot(epochs, returns, ".", ms=4, color=INK, alpha=0.25, label="one episode", rasterized=True)
    levels = dict(references or {})
    seen = [*returns, *levels.values()]
    turns = _turns(levels, COINCIDE_FRAC * (max(seen) - min(seen)))
    for name, style in styles(list(levels)).items():
        turn, n = turns[name]
        line: Any = (DASH * turn, (DASH, DASH * (n - 1))) if n > 1 else style.line or "--"
        axes.axhline(levels[name], color=style.colour, ls=line, lw=1.6)
        axes.plot([], [], color=style.colour, ls=style.line or "--", lw=1.6, label=style.label)
    axes.set_xlabel("training epochs (decisions, all racks together)")
    axes.set_ylabel("return (mean reward per host and epoch)")
    axes.set_title(title or "Learning curve", loc="left")
    axes.xaxis.set_major_formatter(thousands)
    axes.set_xlim(0, 1.01 * epochs.max())
    finish(figure, path, entries=entries_of([axes]), columns=legend_columns(figure))


def _turns(levels: Mapping[str, float], near: float) -> dict[str, tuple[int, int]]:
    """Position of each name in its group of coinciding levels, each within `near` of the next, and the group's size."""
    groups: list[list[str]] = []
    for name in sorted(levels, key=lambda name: levels[name]):
        if groups and levels[name] - levels[groups[-1][-1]] <= near:
            groups[-1].append(name)
        else:
            groups.append([name])
    return {name: (turn, len(group)) for group in groups for turn, name in enumerate(group)}


def _running(epochs: FloatArray, values: FloatArray, window: int) -> tuple[FloatArray, ...]:
    """Mean and quartiles over centred windows of episodes, which shrink towards both ends.

    Returns:
        Epochs, ascending and unique; mean, lower and upper quartile there. Racks in step end their episodes together
        and have no order among them: the windows around each of them are averaged.
    """
    at, which, count = np.unique(epochs, return_inverse=True, return_counts=True)
    half = window // 2
    padded = np.pad(values[np.argsort(epochs, kind="stable")], half, constant_values=np.nan)
    view = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    curves = np.nanmean(view, axis=1), np.nanpercentile(view, 25, axis=1), np.nanpercentile(view, 75, axis=1)
    return at, *(np.bincount(np.sort(which), weights=curve) / count for curve in curves)
