# SPDX-License-Identifier: BSD-3-Clause
"""The figures of a report, which are embedded in its page."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from ncc.harness.results import Evaluation
from ncc.metrics.catalogue import CATALOGUE
from ncc.results.captions import seeds_text
from ncc.results.closeup import Drawing, busiest, closeup, run_of, windows_of
from ncc.results.comparison import Comparison
from ncc.results.evaluation import CURVE, bound_points, held_out_figure
from ncc.results.palette import label
from ncc.results.plot import fct_by_size, learning_curve, slowdown_cdf
from ncc.results.report.sources import Source, training_of

TITLED = "slowdown_all_p50", "slowdown_all_p99"
"""Metrics in the description of a figure of slowdowns."""
_TAG, _FINER = re.compile(r"<[^>]*>"), re.compile(r"(\d\.\d\d)\d+")
"""Patterns that cut coordinates to a hundredth of a point; this halves the size of a figure and cannot be seen. The
numbers of texts stay whole."""
_IDS = re.compile(r'(\bid="|url\(#|href="#)')
"""Pattern of the places where an SVG names an id."""


def slowdown_figures(source: Source, datapath: str) -> list[Drawing]:
    """Make the figures of FCT slowdown on a datapath: its distribution, and its dependence on the size of a flow."""
    evaluation, comparison = source.evaluations[datapath], source.judgement.comparisons[datapath]
    data = evaluation.slowdowns()
    bounds = bound_points(source.scenario, comparison.seeds) if comparison.bounds else {}
    points = "; ".join(_points(comparison, name) for name in comparison.controllers)
    where = f"{source.scenario.name} on {datapath}"
    runs = seeds_text(len(comparison.seeds), source.scenario.duration_s)
    title = f"{where}: {runs}"
    return [
        Drawing(
            f"slowdown_cdf_{datapath}",
            f"FCT slowdown of {where} by size of flow (1: alone in the network), {runs} together, invalid runs too. "
            "Marks: 50th, 95th and 99th percentile. A curve that ends below 1 has flows that were not delivered.",
            partial(slowdown_cdf, data, bounds=bounds, title=title),
            f"Distribution of FCT slowdown on {datapath} by size of flow. Over all flows, {points}.",
        ),
        Drawing(
            f"fct_by_size_{datapath}",
            f"Median and 99th percentile of the FCT slowdown of {where} against the size of a flow, {runs} together.",
            partial(fct_by_size, data, bounds=bounds, title=title),
        ),
    ]


def curve_figure(source: Source) -> Drawing | None:
    """Make the learning curve; None if the folder holds no training, or if its agent plays no episodes."""
    training = source.training
    if training is None or not any(row["returns"] for row in training.rows):
        return None
    learned_on = next(iter(training.config["datapath"]))
    shown, references = held_out_returns(source)
    if fact := training.manifest.facts.get(CURVE):
        return held_out_figure(fact, f"{source.scenario.name} on {shown}")
    returns = ", ".join(f"{label(name)} {value:+.3f}" for name, value in references.items())
    title = f"Return while learning on {learned_on}"
    return Drawing(
        "learning_curve",
        f"Return (mean reward per host and epoch) while learning on {learned_on}. Horizontal lines: mean return on the "
        f"held-out flows on {shown}: {returns}.",
        partial(learning_curve, training.rows, references=references, title=title),
        f"Learning curve on {learned_on}. Mean return on the held-out flows on {shown}: {returns}.",
    )


def held_out_returns(source: Source) -> tuple[str, dict[str, float]]:
    """Datapath of an evaluation on held-out flows, and the mean return of each controller there.

    The datapath is that of the training or, if the policy was not evaluated on it, the last one.

    Raises:
        ResultError: the folder holds no training.
    """
    training = training_of(source)
    returns: dict[str, dict[str, list[float]]] = training.manifest.facts["held_out_returns"]
    means = {on: {name: sum(values) / len(values) for name, values in by.items()} for on, by in returns.items()}
    learned_on = next(iter(training.config["datapath"]))
    shown = learned_on if learned_on in means else list(means)[-1]
    return shown, means[shown]


def closeup_figures(evaluation: Evaluation, names: Sequence[str], seed: int, *, windows: bool) -> list[Drawing]:
    """Make the figures of several controllers side by side, in the busiest part of their runs with one seed.

    Args:
        windows: draw congestion windows too, for which every run is done again.

    Raises:
        UnknownNameError: the evaluation has no such run.
        NccError: windows are wanted, and there are none: `ncc.results.closeup.windows_of`.
    """
    runs = [run_of(evaluation, name, seed) for name in names]
    if not runs:
        return []
    part = busiest(runs)
    traces = [windows_of(evaluation, run, part.flows) for run in runs] if windows else []
    drawn = list(closeup(runs, part, traces).values())
    invalid = "".join(f" INVALID: {run.label}: {'; '.join(run.problems)}." for run in runs if run.problems)
    where = f"{runs[0].scenario.name} on {runs[0].datapath}, seed {seed}. "
    return [replace(drawing, caption=where + drawing.caption + invalid) for drawing in drawn]


def _points(comparison: Comparison, name: str) -> str:
    """Text with a controller's median and 99th percentile of slowdown, formatted as in the table."""
    median, p99 = (CATALOGUE[key].text(comparison.cell(name, key).estimate) for key in TITLED)
    return f"{label(name)} has a median of {median} and a 99th percentile of {p99}"


def embedded(drawing: Drawing, anchor: str) -> str:
    """Draw a figure as an SVG element. Its ids begin with `anchor` and its name, so that each is one in the page."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        drawing.draw(path)
        svg = _TAG.sub(lambda tag: _FINER.sub(r"\1", tag[0]), path.read_text(encoding="utf-8"))
    svg = _IDS.sub(rf"\g<1>{anchor}-{drawing.name}-", svg[svg.index("<svg ") :])
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(drawing.alt or drawing.caption)}" ', 1)
