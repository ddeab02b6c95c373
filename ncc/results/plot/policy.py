# SPDX-License-Identifier: BSD-3-Clause
"""Figures of a policy's rate against its observation."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from ncc.core.errors import ConfigError
from ncc.results.palette import styles
from ncc.results.plot.canvas import INK, entries_of, finish, new_figure, plain, sparse_minor

if TYPE_CHECKING:
    from ncc.results.insight import Response, Saliency

WORDS = 42
"""Letters in a line below a panel."""
SHOWN = 16
"""Number of entries in a saliency figure, those with the largest effect."""


def policy_response(responses: Sequence["Response"], path: Path) -> None:
    """Rate against one observed number per panel: swept with all else as observed, and as it occurred.

    Raises:
        ConfigError: there is no response.
    """
    if not responses:
        raise ConfigError("no response to draw: name at least one entry of the observation")
    n = len(responses)
    columns = min(n, 3)
    lines = -(-n // columns)
    figure, panels = new_figure(
        lines * columns,
        width=0.7 + 3.3 * columns,
        height=1.0 + 3.0 * lines,
        sharey=True,
        lines=lines,
    )
    colour = styles([responses[0].label])[responses[0].label].colour
    for axes, found in zip(panels, responses, strict=False):
        axes.fill_between(found.values, found.low, found.high, color=colour, alpha=0.18, lw=0, label="middle half")
        axes.plot(found.values, found.mean, color=colour, lw=2, label="set to this, all else as met: mean")
        axes.plot(found.met_values, found.met, "o", ms=4.5, color=INK, mec="white", mew=0.5, label="as met: mean")
        low, high = float(found.values[0]), float(found.values[-1])
        margin = 0.04 * (high - low)
        axes.set_xlim(low - margin, high + margin)
        within = _apart([at for at in found.places if low - margin <= at[0] <= high + margin], 2.2 * margin)
        if within:
            axes.set_xticks([at for at, _ in within], [text for _, text in within])
        axes.set_xlabel(fill(found.words, WORDS), fontsize=9)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(plain)
        axes.yaxis.set_minor_formatter(sparse_minor(25.0))
        axes.tick_params(labelsize=9, which="both")
    least = min(float(min(found.low.min(), found.met.min())) for found in responses)
    panels[0].set_ylim(min(0.28, 0.85 * least), 1.15)
    for i, axes in enumerate(panels):
        axes.set_visible(i < n)
        if i % columns == 0:
            axes.set_ylabel("rate [share of link rate]")
    finish(figure, path, "Rate that the policy leans to (1: no limit)", entries_of(panels[:1]), columns=3)


def saliency_bars(found: "Saliency", path: Path) -> None:
    """Effect of each observed number on the rate: the size of that of a usual change, and its direction.

    Bars show the factor on the rate, on average, of a rise by one standard deviation within the observed range: to the
    right it raises the rate, to the left it lowers it. The lines span the middle 80 % of the observations.
    """
    order = np.argsort(-found.effect)[:SHOWN]
    moved = found.change[order]
    middle, (low, high) = moved.mean(axis=1), np.percentile(moved, [10, 90], axis=1)
    rows = np.arange(len(order))
    figure, (axes,) = new_figure(1, width=9.0, height=1.4 + 0.27 * len(order))
    colour = styles([found.label])[found.label].colour
    axes.barh(rows, middle, height=0.65, color=colour, alpha=0.75, lw=0, label="mean")
    axes.hlines(rows, low, high, color=INK, lw=1.4, label="middle 80 % of the observations")
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_yticks(rows, [found.names[i] for i in order], fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    reach = 1.08 * max(np.abs(low).max(), np.abs(high).max(), np.abs(middle).max(), np.log(1.05))
    factors = _factors(float(reach))
    said = [f"x {f:.3g}" if f > 1.001 else f"/ {1 / f:.3g}" if f < 0.999 else "same" for f in factors]
    axes.set_xticks([float(np.log(f)) for f in factors], said)
    axes.set_xlim(-reach, reach)
    axes.set_xlabel("what one standard deviation more of it does to the rate")
    finish(figure, path, "What matters to the policy", entries_of([axes]))


def _apart(places: Sequence[tuple[float, str]], least: float) -> list[tuple[float, str]]:
    """Places, out of rising ones, that are far enough apart for their text; the last is always kept."""
    kept: list[tuple[float, str]] = []
    for place in reversed(places):
        if not kept or kept[-1][0] - place[0] >= least:
            kept.append(place)
    return kept[::-1]


def _factors(reach: float) -> list[float]:
    """Round factors within exp(-reach) to exp(reach), at most four on each side."""
    for step in (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 10.0):
        each = int(reach / np.log(step))
        if each <= 4:
            return [step**power for power in range(-each, each + 1)]
    return [0.01, 1.0, 100.0]
