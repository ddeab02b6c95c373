# SPDX-License-Identifier: BSD-3-Clause
"""A comparison of learners as Markdown, JSON and a picture."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ncc.harness.atomic import write_text
from ncc.learners.run import STEPS, TRAINED, UNTRAINED, WALL, Summary
from ncc.metrics.stats import Interval, interval
from ncc.palette import styles
from ncc.plot import new_figure, save_figure

README, JSON, PICTURE = "README.md", "results.json", "learning.png"
SPDX = "<!-- SPDX-License-Identifier: BSD-3-Clause -->"
TITLES = {STEPS: "As many epochs", WALL: "As long by the clock"}


def write(summary: Summary, folder: Path) -> None:
    """Write all three into `folder`."""
    write_text(folder / JSON, json.dumps(summary, allow_nan=False, separators=(",", ":")) + "\n")
    write_text(folder / README, page(summary))
    draw(summary, folder / PICTURE)


def page(summary: Summary) -> str:
    """The Markdown page."""
    seeds = [t["seed"] for t in next(iter(summary["trainings"][STEPS].values()))]
    parts = [
        SPDX,
        "# Learners beside each other",
        f"Written by `{summary['command']}` from trainings of commit {', '.join(summary['commits'])} on "
        f"{summary['cpus']} cores of {summary['processor']}; everything in [{JSON}]({JSON}). Each learner trains on "
        f"{summary['scenario']} ({summary['hosts']} hosts) with {len(seeds)} seeds; the trained and the untrained "
        "policy of each seed are then judged on the same held-out flows. A return is the mean reward per host and "
        "epoch, higher is better; values are means over training seeds [95 % bootstrap interval over them]. *Gain* is "
        "trained less untrained, seed by seed.",
        f"Settings: {'; '.join(f'`{name}`: {chr(32).join(over)}' for name, over in summary['overrides'].items())}.",
    ]
    for kind, by in summary["trainings"].items():
        said = f"{summary['epochs']:,} epochs each." if kind == STEPS else f"About {summary['wall_s']:g} s each."
        parts += [f"## {TITLES[kind]}", said, _table(by)]
    parts.append(f"![Return while learning, by epochs and by the clock]({PICTURE})")
    return "\n\n".join(parts) + "\n"


def _table(by: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    lines = [
        "| learner | epochs | training (s) | untrained | trained | gain | better than untrained | DCTCP |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for name, trainings in by.items():
        gain = interval(gains(trainings))
        cells = [
            name,
            _range([t["epochs"] for t in trainings], ",.0f"),
            _range([t["trained_s"] for t in trainings], ".0f"),
            _span(interval(_means(trainings, UNTRAINED))),
            _span(interval(_means(trainings, TRAINED))),
            _span(gain),
            "yes" if gain.low > 0 else "no" if gain.high < 0 else "not told",
            _span(interval(_means(trainings, "dctcp"))) if "dctcp" in trainings[0]["returns"] else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def gains(trainings: Sequence[Mapping[str, Any]]) -> list[float]:
    """Of each training: mean return on the held-out flows, trained less untrained."""
    return [a - b for a, b in zip(_means(trainings, TRAINED), _means(trainings, UNTRAINED), strict=True)]


def _means(trainings: Sequence[Mapping[str, Any]], controller: str) -> list[float]:
    return [float(np.mean(t["returns"][controller])) for t in trainings]


def _range(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def _span(level: Interval) -> str:
    bounds = "" if np.isnan(level.low) or level.low == level.high else f" [{level.low:.4f}, {level.high:.4f}]"
    return f"{level.estimate:.4f}{bounds}"


def draw(summary: Summary, path: Path) -> None:
    """Return while learning: a thin line a training, against epochs and against the clock."""
    figure, axes = new_figure(2, width=10.0, height=4.4, sharey=True)
    for panel, kind, column, name in zip(
        axes, (STEPS, WALL), (0, 1), ("training epochs", "wall time since learning began (s)"), strict=True
    ):
        by = summary["trainings"][kind]
        for learner, style in styles(list(by)).items():
            for i, training in enumerate(by[learner]):
                if not training["curve"]:
                    continue
                curve = np.array(training["curve"])
                panel.plot(curve[:, column], curve[:, 2], color=style.colour, lw=1.3, label=learner if i == 0 else None)
        panel.set_xlabel(name)
        panel.set_title(TITLES[kind], loc="left")
        panel.set_xlim(left=0)
    axes[0].set_ylabel("return (mean reward per host and epoch)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save_figure(figure, path)
