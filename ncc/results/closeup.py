# SPDX-License-Identifier: BSD-3-Clause
"""A closer look at several controllers in the part of a run with the most arrivals at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ncc.core.errors import NccError, ResultError, UnknownNameError
from ncc.core.flows import IntArray
from ncc.core.units import MS
from ncc.harness.results import Evaluation, StoredRun
from ncc.harness.run import Run
from ncc.harness.trace import WindowTrace, trace_windows
from ncc.metrics.requests import qct_s
from ncc.results.palette import label
from ncc.results.plot import epoch_timeline, flow_timeline, port_timeline, request_timeline, window_timeline
from ncc.results.report.sources import require_folder
from ncc.run.compose import load_datapath
from ncc.run.limiters import LimiterFactory

LEAST_EPOCHS = 30
"""Smallest length of the shown time, in periods."""
BEFORE_FRAC = 0.02
"""Time that is shown before the first arrival, as a share of the rest of the shown time."""


@dataclass(frozen=True)
class TimeWindow:
    """A part of several runs of the same flows: some flows, and the time to show."""

    flows: IntArray
    """[n] indices of the flows that arrive in quick succession, in their order."""
    arrivals_s: tuple[float, float]
    """Time of the first arrival, and a time just after the last one."""
    window_s: tuple[float, float]
    """Time to show (start_s, end_s). It begins shortly before the first arrival, and ends when every run has delivered
    all of the flows, but within the limits of `busiest`."""


def busiest(runs: Sequence[Run], flows: int = 32, *, longest_s: float = 0.03) -> TimeWindow:
    """Find the shortest time in which `flows` flows arrive; if there are several such times, the first.

    Args:
        runs: runs of the same flows.
        flows: number of flows; if the runs have fewer, all of them are taken.
        longest_s: longest time to show, in seconds; it is exceeded if 30 periods or the arrivals take longer.
    """
    order = np.argsort(runs[0].flows.start_s, kind="stable")
    start_s = runs[0].flows.start_s[order]
    start_s = start_s[~np.isnan(start_s)]  # flows that never started are last
    n = min(flows, len(start_s))
    first = int(np.argmin(start_s[n - 1 :] - start_s[: len(start_s) - n + 1]))
    chosen, begin_s, last_s = order[first : first + n], float(start_s[first]), float(start_s[first + n - 1])
    ends = [float(np.nan_to_num(run.records.flows.finish_s[chosen], nan=run.epochs.time_s[-1]).max()) for run in runs]
    least_s = LEAST_EPOCHS * max(run.scenario.period_s for run in runs)
    long_s = max(least_s, last_s - begin_s, min(longest_s, max(ends) - begin_s))
    return TimeWindow(
        flows=chosen,
        arrivals_s=(begin_s, float(np.nextafter(last_s, np.inf))),
        window_s=(begin_s - BEFORE_FRAC * long_s, begin_s + long_s),
    )


def run_of(evaluation: Evaluation, controller: str, seed: int | None = None) -> Run:
    """Load one run of an evaluation.

    Args:
        seed: seed of the run; None: the smallest.

    Raises:
        UnknownNameError: the evaluation has no such run.
        ResultError: a table was written by another version of ncc.
    """
    if controller not in evaluation.controllers:
        raise UnknownNameError(f"controller in {evaluation.folder}", controller, evaluation.controllers)
    seeds = {stored.seed: stored for stored in evaluation.of(controller)}
    if seed is not None and seed not in seeds:
        raise UnknownNameError(f"seed in {evaluation.folder}", str(seed), map(str, seeds))
    return seeds[min(seeds) if seed is None else seed].load()


def windows_of(
    evaluation: Evaluation,
    run: Run,
    flows: Sequence[int] | IntArray | None = None,
    *,
    training: str | Path | None = None,
) -> WindowTrace:
    """Do a stored run again and record the congestion windows of its flows.

    Args:
        evaluation: evaluation that holds the run.
        run: the run, as `run_of` returns it.
        flows: indices of the flows to record; None: all.
        training: run folder with the policy of a learned controller; None: it is looked for in the folders above the
            evaluation, then in the package.

    Raises:
        NccError: see `ncc.harness.trace.trace_windows`.
        ConfigError: `training` is no folder.
        ResultError: the evaluation has no such run, or the policy that made the run is not found.
    """
    stored = next((s for s in evaluation.of(run.controller.name) if s.seed == run.seed), None)
    if stored is None:
        raise ResultError(f"{evaluation.folder} has no run of {run.label}; take one that run_of gives")
    factory = LimiterFactory(_policies_of(evaluation, stored, run, None if training is None else Path(training)))
    return trace_windows(run, load_datapath(run.datapath).load()(), factory(run.controller, run.scenario), flows=flows)


def _policies_of(evaluation: Evaluation, stored: StoredRun, run: Run, training: Path | None) -> Path | None:
    """Find the run folder of a run's policy; None: the policy is in the package, or the controller has none."""
    made_with = stored.manifest.facts["inputs"].get("policy")
    places: list[Path | None] = [training]
    if training is None:  # the evaluation is <training>/evaluation/<datapath>, or one level deeper
        places = [*evaluation.folder.resolve().parents[:3], None]
    else:
        require_folder(training)
    for place in places:
        try:
            if LimiterFactory(place).inputs(run.controller).get("policy") == made_with:
                return place
        except (NccError, OSError):
            continue  # no policy there, or none of that name
    tried = training or "a training above its evaluation, nor of the package"
    raise ResultError(
        f"the policy that the run of {run.label} was made with is not that of {tried}; name the folder of the training "
        "that made it: training=<folder>"
    )


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn to any number of files."""

    name: str
    """Name of its files, without suffix."""
    caption: str
    draw: Callable[[Path], None]
    """Function that writes the figure to a path, in the form that the suffix says."""
    alt: str = ""
    """Description for readers who cannot see the figure; empty: the caption."""


def closeup(runs: Sequence[Run], part: TimeWindow, traces: Sequence[WindowTrace] = ()) -> dict[str, Drawing]:
    """Make the figures of several controllers side by side: their port, flows, windows and limits, and one request.

    Args:
        runs: one run per controller, of the same flows.
        part: the part to show, as `busiest` returns it.
        traces: windows of the flows of the part, as `windows_of` returns them; empty: they are not drawn.

    Returns:
        Figures by name: `port`, `flows`, `request` if there are requests, `windows` if there are traces, and
        `limits_<controller>` for each controller that limits a rate in this part.
    """
    drawn = [
        Drawing("port", _port_caption(runs, part), partial(port_timeline, runs, window_s=part.window_s)),
        Drawing("flows", _flows_caption(runs, part), partial(flow_timeline, runs, window_s=part.arrivals_s)),
    ]
    if (request := slowest_request(runs)) is not None:
        drawn.append(Drawing("request", _request_caption(runs, request), partial(request_timeline, runs, request)))
    if traces:
        text = "Congestion window of each of these flows: thin lines; the median of those that are live: thick."
        drawn.append(Drawing("windows", text, partial(window_timeline, traces, window_s=part.window_s)))
    for run in runs:
        shown = (run.epochs.time_s > part.window_s[0]) & (run.epochs.time_s <= part.window_s[1])
        if np.isfinite(run.epochs.columns["rate_limit_bps"][shown]).any():
            text = f"{label(run.controller.name)}: what each host sent, the limit that it had (grey: none), the queue."
            name = f"limits_{run.controller.name}"
            drawn.append(Drawing(name, text, partial(epoch_timeline, run, window_s=part.window_s)))
    return {drawing.name: drawing for drawing in drawn}


def slowest_request(runs: Sequence[Run]) -> int | None:
    """Number of the request that took longest with the first controller; None if none began."""
    took_s = qct_s(runs[0].flows, runs[0].records.flows, float(runs[0].epochs.time_s[-1]))
    return None if not len(took_s) or np.isnan(took_s).all() else int(np.nanargmax(took_s))


def _request_caption(runs: Sequence[Run], request: int) -> str:
    """Text with the QCT of a request with each controller."""
    texts = []
    for run in runs:
        took_ms = qct_s(run.flows, run.records.flows)[request] / MS
        texts.append(f"{label(run.controller.name)}: {'unfinished' if np.isnan(took_ms) else f'{took_ms:.3g} ms'}")
    return (
        f"The request that took longest with {label(runs[0].controller.name)}: who sent to whom, and when. Answers are "
        f"hatched. {'; '.join(texts)}."
    )


def _port_caption(runs: Sequence[Run], part: TimeWindow) -> str:
    """Text with the largest mean queue of a period, and the lost packets, of each controller."""
    texts = []
    for run in runs:
        shown = (run.epochs.time_s > part.window_s[0]) & (run.epochs.time_s <= part.window_s[1])
        most_kb = run.epochs.columns["uplink_queue_mean_bytes"][shown, 0].max(initial=0.0) / 1e3
        lost = int(run.epochs.columns["uplink_dropped_pkts"][shown, 0].sum())
        texts.append(f"{label(run.controller.name)}: at most {most_kb:.3g} kB waiting, {lost:,} packets dropped")
    network = runs[0].scenario.network()
    return f"The port {network.port_name(network.neighbourhoods[0].uplink_port)}. {'; '.join(texts)}."


def _flows_caption(runs: Sequence[Run], part: TimeWindow) -> str:
    """Text with the mean and the largest FCT, and the number of undelivered flows, of each controller."""
    texts = []
    for run in runs:
        fct_ms = (run.records.flows.finish_s - run.flows.start_s)[part.flows] / MS
        missing = int(np.isnan(fct_ms).sum())
        took = fct_ms[np.isfinite(fct_ms)]
        text = f"mean {took.mean():.3g} ms, last {took.max():.3g} ms" if len(took) else "none delivered"
        text += f", {missing} never delivered" if missing and len(took) else ""
        texts.append(f"{label(run.controller.name)}: {text}")
    return f"{len(part.flows)} flows that arrive in the shortest time. {'; '.join(texts)}."
