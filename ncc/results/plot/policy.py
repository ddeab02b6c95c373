# SPDX-License-Identifier: BSD-3-Clause
"""The effect of each observed number on a policy's rate."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ncc.results.palette import styles
from ncc.results.plot.canvas import INK, entries_of, finish, new_figure

if TYPE_CHECKING:
    from ncc.results.learned import Saliency

SHOWN = 16
"""Most entries in the figure: those with the largest effect."""


def saliency_bars(found: "Saliency", path: Path) -> None:
    """Draw the effect on the rate if an observed number rises by one standard deviation, within the observed range.

    A bar shows the geometric mean of the factor by which the rate changes, for one observed number. A bar to the right
    means that the rate rises, to the left that it falls. Lines span the middle 80 % of the observations.
    """
    order = found.ranked[:SHOWN]
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
    ticks = [f"x {f:.3g}" if f > 1.001 else f"/ {1 / f:.3g}" if f < 0.999 else "same" for f in factors]
    axes.set_xticks([float(np.log(f)) for f in factors], ticks)
    axes.set_xlim(-reach, reach)
    axes.set_xlabel("what one standard deviation more of it does to the rate")
    finish(figure, path, "What matters to the policy", entries_of([axes]))


def _factors(reach: float) -> list[float]:
    """Choose round factors for ticks: 1, and at most four on each side of it, from exp(-reach) to exp(reach)."""
    for step in (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 10.0):
        steps = int(reach / np.log(step))
        if steps <= 4:
            return [step**power for power in range(-steps, steps + 1)]
    return [0.01, 1.0, 100.0]
