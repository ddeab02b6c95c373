# SPDX-License-Identifier: BSD-3-Clause
"""A comparison of learners as Markdown and as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ncc.metrics.stats import interval
from ncc.palette import styles
from ncc.plot import new_figure, save_figure
from ncc.study.learners.run import STEPS, TRAINED, UNTRAINED, WALL, Summary
from ncc.study.page import render, spread

PICTURE = "learning.png"
TITLES = {STEPS: "As many epochs", WALL: "As long by the clock"}


def page(summary: Summary) -> str:
    """The Markdown page."""
    tables = {kind: [*map(_row, by, by.values())] for kind, by in summary["trainings"].items()}
    seeds = len(next(iter(summary["trainings"][STEPS].values())))
    return render("learners.md.jinja", **summary, n_seeds=seeds, titles=TITLES, tables=tables)


def gains(trainings: Sequence[Mapping[str, Any]]) -> list[float]:
    """Mean return of each training on the held-out flows, trained less untrained."""
    return [a - b for a, b in zip(_means(trainings, TRAINED), _means(trainings, UNTRAINED), strict=True)]


def _row(name: str, trainings: Sequence[Mapping[str, Any]]) -> list[str]:
    gain = interval(gains(trainings))
    spreads = {key: _spread(_means(trainings, key)) for key in trainings[0]["returns"]}
    return [
        name,
        _range([t["epochs"] for t in trainings], ",.0f"),
        _range([t["trained_s"] for t in trainings], ".0f"),
        spreads[UNTRAINED],
        spreads[TRAINED],
        _spread(gains(trainings)),
        "yes" if gain.low > 0 else "no" if gain.high < 0 else "not told",
        spreads.get("dctcp", ""),
    ]


def _means(trainings: Sequence[Mapping[str, Any]], controller: str) -> list[float]:
    return [float(np.mean(t["returns"][controller])) for t in trainings]


def _range(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def _spread(values: Sequence[float]) -> str:
    found = interval(values)
    return spread(found.estimate, None if np.isnan(found.low) else found.low, found.high, digits=4)


def draw(summary: Summary, path: Path) -> None:
    """Return while learning: a thin line a training, against epochs and against the clock."""
    figure, axes = new_figure(2, width=10.0, height=4.4, sharey=True)
    names = ("training epochs", "wall time since learning began (s)")
    for column, (panel, name, (kind, title)) in enumerate(zip(axes, names, TITLES.items(), strict=True)):
        by = summary["trainings"][kind]
        for learner, style in styles(list(by)).items():
            for i, training in enumerate(by[learner]):
                if training["curve"]:
                    curve = np.array(training["curve"])
                    shown = learner if i == 0 else None
                    panel.plot(curve[:, column], curve[:, 2], color=style.colour, lw=1.3, label=shown)
        panel.set_xlabel(name)
        panel.set_title(title, loc="left")
        panel.set_xlim(left=0)
    axes[0].set_ylabel("return (mean reward per host and epoch)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save_figure(figure, path)
