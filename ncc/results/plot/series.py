# SPDX-License-Identifier: BSD-3-Clause
"""Several controllers over time, on the same flows: the uplink, the congestion windows, and the flows themselves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.topology import Buffer
from ncc.core.units import GBPS, MS
from ncc.harness.run import Run
from ncc.harness.trace import WindowTrace
from ncc.results.palette import styles
from ncc.results.plot.canvas import (
    INK,
    TIP,
    Window,
    carried_bps,
    entries_of,
    epochs_within,
    finish,
    is_first_in_line,
    legend_columns,
    new_figure,
    panel_title,
    row_ticks,
    stroke,
    thinned_mean,
    uplink_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE = 2000
"""Most points of a curve; if there are more periods, groups of them are averaged."""
MOST_BARS = 200
"""Most flows of a request that are drawn."""


def port_timeline(runs: Sequence[Run], path: Path, *, area: int = 0, window_s: Window = None) -> None:
    """Draw throughput, queue and drops of one neighbourhood's uplink, with a line for each controller.

    Args:
        runs: one run per controller, on networks with the same links; the lengths of their periods may differ.
        area: number of the neighbourhood.

    Raises:
        ConfigError: runs are not of the same flows, two are of one controller, there is no such neighbourhood, or the
            window holds no period.
    """
    named = _by_controller(runs)
    network = runs[0].scenario.network()
    port = uplink_of(network, area)
    line_bps = network.port_rate_bps(port)
    figure, panels = new_figure(3, width=9.5, height=6.4, rows=True, ratios=(2, 3, 1.4))
    carried, queue, drops = panels
    looks = styles(list(named))
    for place, (name, run) in enumerate(named.items()):
        shown = epochs_within(run.epochs.time_s, window_s)
        columns, time_ms = run.epochs.columns, run.epochs.time_s[shown] / MS
        style: dict[str, Any] = {"color": looks[name].colour, "ls": looks[name].line}
        style["gid"] = TIP + looks[name].label
        style["lw"] = stroke(place, len(named))
        carries = carried_bps(columns["uplink_throughput_bps"][:, area], line_bps)[shown] / GBPS
        waits = columns["uplink_queue_mean_bytes"][shown, area] / 1e3
        dropped = np.cumsum(columns["uplink_dropped_pkts"][shown, area]).astype(np.float64)
        carried.plot(*thinned_mean(time_ms, carries, CURVE), label=looks[name].label, **style)
        queue.plot(*thinned_mean(time_ms, waits, CURVE), **style)
        drops.plot(*thinned_mean(time_ms, dropped, CURVE), drawstyle="steps-post", **style)
    carried.axhline(line_bps / GBPS, color=INK, ls="-.", lw=1.2, label="line rate")
    carried.set_ylabel(f"{network.port_name(port)}\ncarried [Gbit/s]")
    _levels(queue, {looks[name].label: run.scenario.network().port_buffer(port) for name, run in named.items()})
    queue.set_ylabel("waiting there [kB],\nmean of the epoch")
    drops.set_ylabel("dropped so far\n[packets]")
    drops.set_xlabel("simulated time [ms]")
    for axes in panels:
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
    if drops.get_ylim()[1] < 1:
        drops.set_ylim(0, 1)
    title = f"{network.port_name(port)} of {_where(runs)}"
    finish(figure, path, title, entries_of(panels), columns=legend_columns(figure))


def window_timeline(traces: Sequence[WindowTrace], path: Path, *, window_s: Window = None) -> None:
    """Draw congestion windows, with a panel for each controller: a thin line per flow, a thick one for the median.

    The median is over the flows that have a connection.

    Raises:
        ConfigError: the part of the run given by `window_s` holds no period or no flow with a connection.
    """
    looks = styles([trace.controller for trace in traces])
    if not any(np.isfinite(trace.cwnd_bytes[epochs_within(trace.time_s, window_s)]).any() for trace in traces):
        raise ConfigError(
            "no flow has a connection at the end of any epoch that is to be drawn: trace more flows or longer ones, "
            "widen window_s, or run with a shorter scenario.period_s"
        )
    n = len(traces)
    figure, panels = new_figure(n, width=9.5, height=1.1 + 1.9 * n, rows=True, ratios=[1.0] * n)
    largest = 0.0
    for axes, trace in zip(panels, traces, strict=True):
        shown, look = epochs_within(trace.time_s, window_s), looks[trace.controller]
        time_ms, pkts = trace.time_s[shown] / MS, trace.cwnd_bytes[shown] / trace.mss_bytes
        faint = max(0.12, min(0.8, 6 / pkts.shape[1]))
        axes.plot(time_ms, pkts, color=look.colour, lw=0.8, alpha=faint, drawstyle="steps-post")
        lives = np.isfinite(pkts).any(axis=1)
        middle = np.full(len(pkts), np.nan)
        middle[lives] = np.nanmedian(pkts[lives], axis=1)
        axes.plot(time_ms, middle, color=look.colour, lw=2.0)
        axes.plot([], [], color=look.colour, lw=0.8, alpha=0.5, label="one flow")
        axes.plot([], [], color=look.colour, lw=2.0, label="median of the flows that are live")
        nobody = "" if lives.any() else ": no connection at the end of any epoch"
        panel_title(axes, look.label + nobody)
        axes.set_ylabel("cwnd [packets]")
        axes.margins(x=0)
        largest = max(largest, float(np.nanmax(pkts, initial=0.0)))
    for axes in panels:
        axes.set_ylim(0, 1.06 * max(largest, 1.0))
    panels[-1].set_xlabel("simulated time [ms]")
    entries = entries_of(panels[:1])
    for line in entries.values():
        line.set_color(INK)
    on = " and ".join(dict.fromkeys(trace.datapath for trace in traces))
    finish(figure, path, f"Congestion windows on {on} at the end of each epoch", entries, columns=2)


def flow_timeline(runs: Sequence[Run], path: Path, *, window_s: Window = None) -> None:
    """Draw each flow as a bar from its arrival to its delivery, with a panel for each controller.

    Flows are ordered by arrival in every panel. Flows with a timeout and undelivered ones are marked.

    Args:
        runs: one run per controller, of the same flows.
        window_s: time (start_s, end_s) in which the drawn flows arrive; each is drawn to its end. None: all flows.

    Raises:
        ConfigError: runs are not of the same flows, two are of one controller, or no flow arrives then.
    """
    named = _by_controller(runs)
    flows = runs[0].flows
    start, end = window_s or (0.0, np.inf)
    chosen = np.flatnonzero((flows.start_s >= start) & (flows.start_s < end))
    if len(chosen) == 0:
        raise ConfigError(
            f"no flow arrives in window_s ({start}, {end}); the last arrives at {np.nanmax(flows.start_s):.6g} s"
        )
    chosen = chosen[np.lexsort([flows.size_bytes[chosen], flows.start_s[chosen]])]
    nodes = runs[0].scenario.network().nodes
    figure, panels = _bars(named, chosen, dict.fromkeys(named, 0.0), [nodes[node].name for node in flows.src[chosen]])
    for axes, (name, run) in zip(panels, named.items(), strict=True):
        took_s = (run.records.flows.finish_s - run.flows.start_s)[chosen]
        taken = took_s[~np.isnan(took_s)]
        mean = f"mean {taken.mean() / MS:.3g} ms" if len(taken) else "none delivered"
        panel_title(axes, f"{styles(list(named))[name].label}: {mean}")
        axes.set_xlabel("simulated time [ms]")
        if is_first_in_line(axes):
            axes.set_ylabel("flows as they arrive, by sender")
    title = f"Flows of {_where(runs)} from arrival to delivery"
    finish(figure, path, title, entries_of(panels), columns=2)


def request_timeline(runs: Sequence[Run], request: int, path: Path) -> None:
    """Draw one request as a Gantt chart: who sent to whom, and when, with a panel for each controller.

    Each flow is a bar. Flows are in the order in which the first controller started them; of a request with more than
    `MOST_BARS`, those are drawn that it ended last. Answers are hatched. Time runs from the first of these starts in
    each panel.

    Args:
        runs: one run per controller, of the same flows.
        request: number of the request.

    Raises:
        ConfigError: runs are not of the same flows, two are of one controller, there is no such request, or it did not
            begin with the first controller.
    """
    named, flows = _by_controller(runs), runs[0].flows
    chosen = np.flatnonzero(flows.graph.request == request) if flows.graph is not None else np.zeros(0, np.int64)
    if len(chosen) == 0 or np.isnan(flows.start_s[chosen]).all():
        raise ConfigError(f"no flow of request {request} started with {runs[0].controller.name}; name another request")
    last = np.argsort(runs[0].records.flows.finish_s[chosen], kind="stable")[-MOST_BARS:]  # NaN is last
    chosen = chosen[np.sort(last)]
    chosen = chosen[np.argsort(flows.start_s[chosen], kind="stable")]
    nodes = runs[0].scenario.network().nodes
    ways = [f"{nodes[flows.src[i]].name} to {nodes[flows.dst[i]].name}" for i in chosen]
    began_s = {name: _first_s(run.flows.start_s[chosen]) for name, run in named.items()}
    figure, panels = _bars(named, chosen, began_s, ways)
    for axes, (name, run) in zip(panels, named.items(), strict=True):
        took_ms = (run.records.flows.finish_s[chosen].max() - began_s[name]) / MS
        text = "unfinished" if np.isnan(took_ms) else f"{took_ms:.3g} ms"
        panel_title(axes, f"{styles(list(named))[name].label}: {text}")
        axes.set_xlabel("time since its start [ms]")
        if is_first_in_line(axes):
            axes.set_ylabel("who sends to whom")
    title = f"Request {request} of {_where(runs)}"
    finish(figure, path, title, entries_of(panels), columns=3)


def _first_s(start_s: FloatArray) -> float:
    """Earliest of some starts; 0 if no flow started."""
    return float(np.nanmin(start_s)) if not np.isnan(start_s).all() else 0.0


def _bars(
    named: Mapping[str, Run], chosen: IntArray, origin_s: Mapping[str, float], names: Sequence[str]
) -> tuple["Figure", list["Axes"]]:
    """Draw chosen flows [n] as bars, in this order from the top, with a panel for each controller.

    Args:
        origin_s: time 0 of each controller's panel.
        names: labels of the flows.

    Returns:
        The figure and its panels.
    """
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=5, foreground="white")]  # a controller may be black too
    first_run = next(iter(named.values()))
    flows, nodes = first_run.flows, first_run.scenario.network().nodes
    tips = [f"{nodes[flows.src[i]].name} to {nodes[flows.dst[i]].name}, {flows.size_bytes[i]:,} bytes" for i in chosen]
    answers = np.zeros(len(chosen), np.bool_) if flows.graph is None else flows.graph.answer[chosen]
    rows = np.arange(len(chosen))
    tall = min(1.0 + 0.09 * len(chosen), 6.0)
    width = max(5.0, 1.2 + 2.9 * len(named))
    figure, panels = new_figure(len(named), width=width, height=1.3 + max(tall, 2.2), sharey=True)
    looks, ends_s, starts_s = styles(list(named)), [], []
    for axes, (name, run) in zip(panels, named.items(), strict=True):
        finish_s, late = run.records.flows.finish_s[chosen], run.records.flows.timeouts[chosen] > 0
        ended = ~np.isnan(finish_s)
        stop_s = np.where(ended, finish_s, run.epochs.time_s[-1]) - origin_s[name]
        begin_s = run.flows.start_s[chosen] - origin_s[name]
        began = ~np.isnan(begin_s)
        begin_ms, long_ms = np.where(began, begin_s, stop_s) / MS, np.where(began, stop_s - begin_s, 0.0) / MS
        many = len(rows) > 500
        bars = axes.barh(rows, long_ms, left=begin_ms, height=0.8, color=looks[name].colour, lw=0, rasterized=many)
        for bar, what, took_ms, whole, answer in zip(bars, tips, long_ms, ended, answers, strict=True):
            bar.set_gid(f"{TIP}{what}: {took_ms:.3g} ms" + ("" if whole else ", not delivered"))
            if answer:
                bar.set(hatch="////", edgecolor="white")
        for which, mark, text in ((ended & late, "|", "had a timeout"), (~ended, ">", "never delivered")):
            if which.any():
                at = (stop_s[which] / MS, rows[which])
                axes.plot(*at, mark, ms=6, mew=2, ls="none", color="black", label=text, path_effects=halo)
        starts_s.append(_first_s(begin_s))
        ends_s.append(float(stop_s.max()))
    first, last = min(starts_s), max(ends_s)
    for axes in panels:
        axes.set_xlim((first - 0.01 * (last - first)) / MS, (last + 0.03 * (last - first)) / MS)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
    places, labels = row_ticks(names)
    panels[0].set_yticks([place - 0.5 for place in places], labels)
    return figure, panels


def _where(runs: Sequence[Run]) -> str:
    """Name the scenario and the datapath of runs; runs may be of several datapaths."""
    return f"{runs[0].scenario.name} on {' and '.join(dict.fromkeys(run.datapath for run in runs))}"


def _by_controller(runs: Sequence[Run]) -> dict[str, Run]:
    """Return runs by the names of their controllers; `ConfigError` if one figure cannot compare them."""
    named, first = {run.controller.name: run for run in runs}, runs[0]
    # Starts may differ: with requests, a flow starts when others have ended.
    alike = (
        r.flow_seed == first.flow_seed and np.array_equal(r.flows.size_bytes, first.flows.size_bytes) for r in runs
    )
    if len(named) < len(runs) or not all(alike):
        raise ConfigError(
            f"these runs are not of different controllers on the same flows, but of {', '.join(named)}: draw "
            "controllers of one evaluation and seed"
        )
    return named


def _levels(axes: "Axes", buffers: Mapping[str, Buffer | None]) -> None:
    """Draw marking thresholds of a port, and sizes of its buffer that are not far above the curves.

    Args:
        buffers: buffer of the port by contender; a line that is not of all contenders names its own.
    """
    thresholds, sizes = dict[int, list[str]](), dict[int, list[str]]()
    for name, buffer in buffers.items():
        if buffer is not None:
            thresholds.setdefault(buffer.mark_threshold_bytes, []).append(name)
            sizes.setdefault(buffer.size_bytes, []).append(name)
    highest_bytes = 1.6e3 * axes.get_ylim()[1]
    near = {size: names for size, names in sizes.items() if size < highest_bytes}
    for what, dashes, levels in (("marking threshold", ":", thresholds), ("buffer full", "--", near)):
        for level_bytes, names in levels.items():
            if level_bytes:
                whose = "" if len(names) == len(buffers) else f" of {', '.join(names)}"
                axes.axhline(level_bytes / 1e3, color=INK, ls=dashes, lw=1.2, label=what + whose)
