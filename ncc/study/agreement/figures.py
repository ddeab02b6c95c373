# SPDX-License-Identifier: BSD-3-Clause
"""The picture of the report: how far the flows of one controller are from the reference's."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.flows import FloatArray
from ncc.results.palette import styles
from ncc.results.plot import new_figure, save_figure
from ncc.study.agreement.compare import Compared
from ncc.study.agreement.run import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURE = "flows.png"
GREY = "#777777"
DRAWN = "dctcp"
"""The controller that is drawn if it was compared; otherwise it is the first."""


def draw(summary: Summary, compared: Sequence[Compared], path: Path) -> None:
    """Distributions of flows' ratios of FCT, ours strong and the yardstick dashed."""
    theirs, names = summary["reference"], summary["controllers"]
    controller = DRAWN if DRAWN in names else names[0]
    shown = _heaviest([each for each in compared if each.controller == controller])
    figure, panels = new_figure(len(shown), width=4.3 * len(shown), height=4.2)
    (look,) = styles([controller]).values()
    for axes, (name, group) in zip(panels, shown.items(), strict=True):
        for step, each in enumerate(group):
            strength = 0.25 + 0.75 * (step + 1) / len(group)  # the heaviest load is the darkest
            _cdf(axes, each.flows.ratio, color=look.colour, alpha=strength, label=each.case.name)
            _cdf(axes, each.flows.noise, color=GREY, ls="--", alpha=strength)
        axes.set_xlim(0.5, 2.0)
        axes.set_xscale("log")
        axes.set_xticks([0.5, 0.7, 0.9, 1.0, 1.1, 1.4, 2.0], ["0.5", "0.7", "0.9", "1", "1.1", "1.4", "2"])
        axes.set_xticks([], minor=True)
        axes.set_ylim(0, 1)
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_xlabel(f"FCT over that on {theirs}")
        axes.set_ylabel("share of flows")
        axes.legend(loc="upper left", frameon=False, fontsize=8)
    figure.suptitle(
        f"{look.label}, {summary['ours']}, flow by flow; dashed: {theirs} perturbed over {theirs}", x=0.01, ha="left"
    )
    save_figure(figure, path)


def _heaviest(compared: Sequence[Compared]) -> dict[str, list[Compared]]:
    """Cases that differ in their load alone, lightest first."""
    groups: dict[str, list[Compared]] = {}
    for each in compared:
        name, _, load = each.case.name.rpartition("_")
        groups.setdefault(name if name and load.isdigit() else each.case.name, []).append(each)
    return groups


def _cdf(axes: "Axes", ratio: FloatArray, **look: Any) -> None:
    share = np.linspace(0, 1, 801)
    axes.plot(np.quantile(ratio, share), share, lw=1.5, **look)
