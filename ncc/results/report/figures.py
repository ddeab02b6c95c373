# SPDX-License-Identifier: BSD-3-Clause
"""The figures of a report, which are embedded in its page."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ncc.core.errors import UnknownNameError
from ncc.core.units import MS
from ncc.harness.results import Evaluation
from ncc.harness.run import Run
from ncc.metrics.catalogue import CATALOGUE
from ncc.results.captions import seeds_text
from ncc.results.comparison import Comparison
from ncc.results.evaluation import bound_points
from ncc.results.palette import label
from ncc.results.plot import epoch_timeline, learning_curve, slowdown_cdf
from ncc.results.report.sources import Source, training_of
from ncc.results.report.words import amount

EPOCHS = 1000
"""Number of periods drawn of a run, from the first on."""
TITLED = "slowdown_all_p50", "slowdown_all_p99"
"""Metrics in the description of a figure of slowdowns."""
PX_PER_PT = 96 / 72
_FINER = re.compile(rb"(\d\.\d\d)\d+")
"""Pattern that cuts coordinates to a hundredth of a point; this halves the size of a figure and cannot be seen."""
Draw = Callable[[Path], None]
"""Function that writes a figure to a path."""


@dataclass(frozen=True)
class Embedded:
    """A figure that is part of a page."""

    alt: str
    caption: str
    uri: str
    """Data URI of the figure."""
    width_px: int


def cdf_figure(source: Source, datapath: str) -> Embedded:
    """Draw the distribution of FCT slowdowns on a datapath, by flow size."""
    evaluation, comparison = source.evaluations[datapath], source.judgement.comparisons[datapath]
    data = evaluation.slowdowns()
    bounds = bound_points(source.scenario, comparison.seeds) if comparison.bounds else {}
    points = "; ".join(_points(comparison, name) for name in comparison.controllers)
    where = f"{source.scenario.name} on {datapath}"
    runs = seeds_text(len(comparison.seeds), source.scenario.duration_s)
    return _embedded(
        lambda path: slowdown_cdf(data, path, bounds=bounds, title=f"{where}: {runs}"),
        f"Distribution of FCT slowdown on {datapath} by size of flow. Over all flows, {points}.",
        f"FCT slowdown of {where} by size of flow (1: alone in the network), {runs} together, invalid runs too. "
        "Marks: 50th, 95th and 99th percentile. A curve that ends below 1 has flows that were not delivered.",
    )


def curve_figure(source: Source) -> Embedded | None:
    """Draw the learning curve; None if the folder holds no training, or if its agent plays no episodes."""
    training = source.training
    if training is None or not any(row["returns"] for row in training.rows):
        return None
    learned_on = next(iter(training.config["datapath"]))
    shown, references = held_out_returns(source)
    returns = ", ".join(f"{label(name)} {value:+.3f}" for name, value in references.items())
    return _embedded(
        lambda path: learning_curve(
            training.rows, path, references=references, title=f"Return while learning on {learned_on}"
        ),
        f"Learning curve on {learned_on}. Mean return on the held-out flows on {shown}: {returns}.",
        f"Return (mean reward per host and epoch) while learning on {learned_on}. Horizontal lines: mean return on the "
        f"held-out flows on {shown}: {returns}.",
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


def timeline_figure(evaluation: Evaluation, datapath: str, controller: str, seed: int) -> Embedded:
    """Draw the first `EPOCHS` periods of one controller's run with one seed.

    Raises:
        UnknownNameError: the evaluation has no such run.
    """
    if controller not in evaluation.controllers:
        raise UnknownNameError("controller in timeline", controller, evaluation.controllers)
    runs = {run.seed: run for run in evaluation.of(controller)}
    if seed not in runs:
        raise UnknownNameError("seed", str(seed), map(str, runs))
    run = runs[seed].load()
    n = min(EPOCHS, len(run.epochs.time_s))
    end_s = float(run.epochs.time_s[n - 1])
    part = f"its first {n} of {len(run.epochs.time_s)} epochs" if n < len(run.epochs.time_s) else f"its {n} epochs"
    invalid = f" INVALID: {'; '.join(run.problems)}." if run.problems else ""
    caption = f"{label(controller)} on {datapath}, seed {seed}, {part}: {_peak(run, n)}.{invalid}"
    return _embedded(
        lambda path: epoch_timeline(run, path, window_s=(0.0, end_s)),
        f"Time series of rates, rate limits and queue. {caption}",
        caption,
    )


def _peak(run: Run, n: int) -> str:
    """Sentence on the throughput and queue of the first neighbourhood's uplink in the first `n` periods."""
    network = run.scenario.network()
    port = network.neighbourhoods[0].uplink_port
    columns = run.epochs.columns
    queue, carried = columns["uplink_queue_bytes"][:n, 0], columns["uplink_throughput_bps"][:n, 0]
    at = int(queue.argmax())
    return (
        f"{network.port_name(port)} carried {amount(float(carried.mean()), 'bit/s')} on average; its queue was "
        f"{amount(float(columns['uplink_queue_mean_bytes'][:n, 0].mean()), 'B')} on average and at most "
        f"{amount(float(queue[at]), 'B')} at the end of an epoch, {run.epochs.time_s[at] / MS:.4g} ms after the start"
    )


def _points(comparison: Comparison, name: str) -> str:
    """Text with a controller's median and 99th percentile of slowdown, formatted as in the table."""
    median, p99 = (CATALOGUE[key].text(comparison.cell(name, key).estimate) for key in TITLED)
    return f"{label(name)} has a median of {median} and a 99th percentile of {p99}"


def _embedded(draw: Draw, alt: str, caption: str) -> Embedded:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        draw(path)
        svg = _FINER.sub(rb"\1", path.read_bytes())
    width_px = round(float(svg.partition(b' width="')[2].partition(b"pt")[0]) * PX_PER_PT)
    return Embedded(alt, caption, "data:image/svg+xml;base64," + base64.b64encode(svg).decode(), width_px)
