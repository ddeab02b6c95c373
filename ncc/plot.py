# SPDX-License-Identifier: BSD-3-Clause
"""Figures of a run, an evaluation and a training, each one file, PNG or SVG by its suffix, whole or not there.

A `narrow` one is for a phone: panels and legends below each other.

matplotlib is imported when the first figure is drawn; its Agg canvas needs no display and no global state.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.units import GBPS, MS
from ncc.harness.atomic import replacing
from ncc.harness.run import Run
from ncc.metrics.summary import LARGE_BYTES, SMALL_BYTES
from ncc.palette import styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 110
NARROW = 4.4
"""Inches wide."""
POINTS = 250
"""Points of a curve that are drawn, evenly spread over the shares of flows, and"""
TAIL = 30
"""so many of the slowest flows besides."""
THIN = 1.0
"""Width of the lines of bounds."""
_BELOW: Any = {"loc": "outside lower center", "frameon": False}
"""A legend's place."""
FlowPoints = tuple[IntArray, FloatArray]
"""(size_bytes, fct_slowdown) of one controller's flows, all seeds together; both [n_flows], NaN if undelivered."""
Bucket = tuple[str, float, float]
"""(label, low_bytes, high_bytes): flows with low < size <= high."""
BUCKETS: tuple[Bucket, ...] = (
    ("all flows", 0, np.inf),
    ("up to 100 KB", 0, SMALL_BYTES),
    ("100 KB to 10 MB", SMALL_BYTES, LARGE_BYTES),
    ("over 10 MB", LARGE_BYTES, np.inf),
)
"""As `ncc.metrics.summary` cuts them."""


def learning_curve(
    rows: Iterable[Mapping[str, Any]],
    path: Path,
    *,
    references: Mapping[str, float] | None = None,
    title: str = "",
    narrow: bool = False,
) -> None:
    """Returns against epochs: every episode faint, their running mean strong, its interquartile range shaded.

    Args:
        rows: reports with `epochs` (environment epochs so far) and `returns` (of the episodes that ended since).
        references: levels to compare with, by controller name, in the same unit (say, the untrained policy's).

    Raises:
        ConfigError: no episode ended.
    """
    points = [(row["epochs"], value) for row in rows for value in row["returns"]]
    if not points:
        raise ConfigError("no episode ended during training, so there is no learning curve: raise the number of epochs")
    epochs, returns = np.array(points, dtype=np.float64).T
    window = min(len(returns), max(5, len(returns) // 20))
    at, middle, low, high = (column[_thinned(len(column))] for column in _running(epochs, returns, window))
    figure, (axes,) = new_figure(1, width=NARROW if narrow else 9.0, height=4.6)
    dark = "#333333"  # colours belong to controllers, which may be drawn as references
    axes.plot(at, middle, color=dark, lw=2, label=f"mean of {window} episodes", zorder=3)
    axes.fill_between(at, low, high, color=dark, alpha=0.15, lw=0, label="middle half of them")
    axes.plot(epochs, returns, ".", ms=4, color=dark, alpha=0.25, label="one episode", rasterized=True)
    for name, style in styles(list(references or {})).items():
        axes.axhline((references or {})[name], color=style.colour, ls=style.line or "--", lw=1.5, label=style.label)
    axes.set_xlabel("training epochs" if narrow else "training epochs (decisions, all racks together)")
    axes.set_ylabel("return (mean reward per host and epoch)")
    axes.set_title(title or "Learning curve", loc="left")
    axes.xaxis.set_major_formatter(_thousands)
    axes.set_xlim(0, 1.01 * epochs.max())
    figure.legend(*axes.get_legend_handles_labels(), ncols=_legend_columns(figure), **_BELOW)
    save_figure(figure, path)


def slowdown_cdf(
    data: Mapping[str, FlowPoints],
    path: Path,
    *,
    buckets: Sequence[Bucket] = BUCKETS,
    title: str = "",
    bounds: Mapping[str, FlowPoints] | None = None,
    narrow: bool = False,
) -> None:
    """Distribution of FCT slowdown per controller, one panel per size bucket; marks at the 50th, 95th, 99th percentile.

    Undelivered flows count as infinitely slow: such a curve ends below 1. `bounds` are drawn thin and without marks.
    """
    thin = dict(bounds or {})
    looks = styles([*data, *thin])
    if not data:
        raise ConfigError("no flows to draw: name at least one controller")
    buckets = [b for b in buckets if any(((size > b[1]) & (size <= b[2])).any() for size, _ in data.values())]
    n = len(buckets)
    width, height = (NARROW, 1.2 + 2.6 * n) if narrow else (max(4.5, 2.9 * n), 4.4)
    figure, panels = new_figure(n, width=width, height=height, sharey=True, lines=n if narrow else 1)
    for axes, (bucket, low, high) in zip(panels, buckets, strict=True):
        largest, count = 1.0, 0
        for name, (size, slowdown) in {**data, **thin}.items():
            chosen = slowdown[(size > low) & (size <= high)]
            count = max(count, len(chosen))
            drawn = np.sort(chosen[np.isfinite(chosen)])
            if len(drawn) == 0:
                continue
            largest = max(largest, drawn[-1])
            share = np.arange(1, len(drawn) + 1) / len(chosen)
            marks = [i for q in (0.5, 0.95, 0.99) if (i := int(np.searchsorted(share, q))) < len(drawn)]
            shown = _thinned(len(drawn))
            style = looks[name]
            axes.step(
                np.append(drawn[0], drawn[shown]),
                np.append(0.0, share[shown]),
                where="post",
                color=style.colour,
                ls=style.line,
                lw=THIN if name in thin else 1.8,
            )
            if name not in thin:
                axes.plot(drawn[marks], share[marks], style.marker, ms=6, color=style.colour, mec="white", mew=0.6)
        axes.set_xscale("log")
        axes.set_xlim(0.97, max(largest * 1.15, 2.0))
        axes.set_ylim(0, 1.02)
        axes.xaxis.set_major_formatter(_plain)
        axes.xaxis.set_minor_formatter(_sparse_minor(largest))
        axes.set_title(f"{bucket}  (n = {count:,})", loc="left", fontsize=10)
        axes.set_xlabel("FCT slowdown")
    for axes in panels if narrow else panels[:1]:
        axes.set_ylabel("share of flows")
    _finish(
        figure,
        looks,
        title or "FCT slowdown (1: alone in the network); marks at the 50th, 95th and 99th percentile",
        path,
    )


def fct_by_size(
    data: Mapping[str, FlowPoints],
    path: Path,
    *,
    bins: int = 8,
    title: str = "",
    bounds: Mapping[str, FlowPoints] | None = None,
) -> None:
    """Median and 99th percentile of FCT slowdown against flow size, in bins of equal numbers of flows.

    There are at most `bins`, and as few as it takes for each to have 100 flows, the least that have a 99th percentile.
    """
    if not data:
        raise ConfigError("no flows to draw: name at least one controller")
    thin = dict(bounds or {})
    looks = styles([*data, *thin])
    figure, panels = new_figure(2, width=9.5, height=4.4)
    curves: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, (size, slowdown) in {**data, **thin}.items():
        rank = np.argsort(size, kind="stable")
        parts = np.array_split(rank, max(1, min(bins, len(rank) // 100)))
        centre = np.array([np.exp(np.mean(np.log(size[part]))) for part in parts])
        curves[name] = centre, np.array([[_percentile(slowdown[part], q) for part in parts] for q in (0.5, 0.99)])
    centres = np.concatenate([centre for centre, _ in curves.values()])
    for i, (axes, what) in enumerate(zip(panels, ("median", "99th percentile"), strict=True)):
        levels = np.concatenate([level[i] for _, level in curves.values()])
        low, high = (0.9 * np.nanmin(levels), 1.15 * np.nanmax(levels)) if np.isfinite(levels).any() else (1.0, 10.0)
        axes.set(xscale="log", yscale="log", xlabel="flow size", ylabel=f"FCT slowdown, {what}")
        axes.set(xlim=(centres.min() / 1.6, centres.max() * 1.6), ylim=(low, high))
        axes.xaxis.set_major_formatter(_bytes)
        axes.xaxis.set_minor_formatter(_bytes if centres.max() < 4 * centres.min() else _nothing)
        axes.yaxis.set_major_formatter(_plain)
        axes.yaxis.set_minor_formatter(_sparse_minor(high / low))
        for name, (centre, level) in curves.items():
            s = looks[name]
            lw = THIN if name in thin else 1.8
            axes.plot(centre, level[i], color=s.colour, ls=s.line, marker=s.marker, ms=7, mec="white", mew=0.6, lw=lw)
    _finish(figure, looks, title or "FCT slowdown by flow size", path)


def epoch_timeline(
    run: Run, path: Path, *, area: int = 0, window_s: tuple[float, float] | None = None, narrow: bool = False
) -> None:
    """One neighbourhood over time: what its hosts sent, the limits they had, and the upper port's queue.

    Args:
        window_s: part of the run to draw, simulated time; all of it if None.
    """
    network = run.scenario.network()
    if not 0 <= area < len(network.neighbourhoods):
        raise ConfigError(f"area must be in [0, {len(network.neighbourhoods)}), got {area}")
    start, end = window_s or (0.0, np.inf)
    shown = (run.epochs.time_s > start) & (run.epochs.time_s <= end)
    if not shown.any():
        raise ConfigError(f"window_s ({start}, {end}) holds no epoch; the run ends at {run.epochs.time_s[-1]:.6g} s")
    hosts = np.flatnonzero(np.array(network.agent_area) == area)
    column = {name: grid[shown] for name, grid in run.epochs.columns.items()}
    time_ms = run.epochs.time_s[shown] / MS
    edges_ms = np.concatenate([[time_ms[0] - run.scenario.period_s / MS], time_ms])
    figure, (sent, limits, queue) = new_figure(
        3, width=NARROW if narrow else 9.5, height=8.6 if narrow else 7.6, rows=True, ratios=(3, 2, 2)
    )

    upper = network.neighbourhoods[area].upper_port
    shades = _shades(len(hosts))
    rates = column["throughput_bps"][:, hosts].T / GBPS
    sent.stackplot(time_ms, rates, colors=shades, lw=0, rasterized=True)
    top, rate_gbps = float(rates.sum(axis=0).max(initial=0.0)), network.port_rate_bps(upper) / GBPS
    sent.axhline(rate_gbps, color="black", ls="--", lw=1.2, label=f"line rate of {network.port_name(upper)}")
    through = column["upper_throughput_bps"][:, area] / GBPS
    sent.plot(time_ms, through, color="black", lw=1.2, label=f"{network.port_name(upper)} carried")
    sent.set_ylim(0, 1.08 * max(top, rate_gbps))
    sent.set_ylabel("hosts sent to beyond\nthe rack, stacked [Gbit/s]")
    _legend_beside(sent, narrow)

    line = np.array([network.host_link(network.agent_hosts[host]).rate_bps for host in hosts])
    share = column["rate_limit_bps"][:, hosts] / line
    free = np.where(share >= 1, np.nan, share).T
    mesh = limits.pcolormesh(edges_ms, np.arange(len(hosts) + 1), free, cmap="viridis", vmin=0, vmax=1, rasterized=True)
    limits.set_facecolor("#e8e8e8")
    limits.set_yticks(*_host_ticks([network.nodes[network.agent_hosts[host]].name for host in hosts]))
    limits.set_ylabel("rate limit of host")
    _bar_beside(figure, mesh, limits, "share of line rate", narrow)

    queue.plot(
        time_ms, column["upper_queue_bytes"][:, area] / 1e3, color="#333333", lw=1.0, label="at the end of the epoch"
    )
    queue.plot(
        time_ms, column["upper_queue_mean_bytes"][:, area] / 1e3, color="#999999", lw=1.6, label="mean of the epoch"
    )
    buffer = network.port_buffer(upper)
    if buffer is not None and buffer.mark_threshold_bytes:
        queue.axhline(buffer.mark_threshold_bytes / 1e3, color="black", ls=":", lw=1.2, label="marking threshold")
    queue.set_ylim(bottom=0)
    queue.set_ylabel(f"queue of {network.port_name(upper)}\n[kB]")
    queue.set_xlabel("simulated time [ms]")
    _legend_beside(queue, narrow)
    for axes in (sent, limits, queue):
        axes.set_xlim(edges_ms[0], edges_ms[-1])
    figure.suptitle(
        f"{styles([run.controller.name])[run.controller.name].label} on {run.scenario.name}, seed {run.seed}",
        x=0.01,
        ha="left",
    )
    save_figure(figure, path)


def _running(epochs: FloatArray, values: FloatArray, window: int) -> tuple[FloatArray, ...]:
    """Mean and quartiles over centred windows of episodes, which shrink towards both ends.

    Returns:
        Epochs, ascending and each once; mean, lower and upper quartile there. Racks in step end their episodes together
        and have no order among them: the windows around each of them are averaged.
    """
    at, which, count = np.unique(epochs, return_inverse=True, return_counts=True)
    half = window // 2
    padded = np.pad(values[np.argsort(epochs, kind="stable")], half, constant_values=np.nan)
    view = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    curves = np.nanmean(view, axis=1), np.nanpercentile(view, 25, axis=1), np.nanpercentile(view, 75, axis=1)
    return at, *(np.bincount(np.sort(which), weights=curve) / count for curve in curves)


def _percentile(slowdown: FloatArray, q: float) -> float:
    """An order statistic, with undelivered flows as the slowest; NaN where it falls on one of those."""
    ordered = np.sort(slowdown)  # NaN sorts last
    return float(ordered[min(int(np.ceil(q * len(ordered))), len(ordered)) - 1])


def new_figure(
    n: int,
    *,
    width: float,
    height: float,
    rows: bool = False,
    sharey: bool = False,
    ratios: Sequence[float] = (),
    lines: int = 1,
) -> tuple["Figure", list["Axes"]]:
    """A figure (inches) in the house's look, and its `n` panels.

    Args:
        rows: one above the other, with these height `ratios` and one x axis; otherwise side by side, in `lines` lines.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    look: Any = {"font.size": 10.0, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
    look |= {"grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True}
    with rc_context(look):
        figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        if rows:
            axes = figure.subplots(n, 1, squeeze=False, sharex=True, height_ratios=list(ratios))
        else:
            axes = figure.subplots(lines, n // lines, squeeze=False, sharey=sharey)
    return figure, list(axes.ravel())


def _finish(figure: "Figure", looks: Mapping[str, Any], title: str, path: Path) -> None:
    """Title, one legend below for all panels, and the file."""
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], color=s.colour, ls=s.line, marker=s.marker, mec="white", ms=7, lw=lw, label=s.label)
        for s in looks.values()
        for lw in (1.8 if s.marker else THIN,)
    ]
    figure.suptitle(title, x=0.01, ha="left")
    figure.legend(handles=keys, ncols=min(len(keys), _legend_columns(figure)), **_BELOW)
    save_figure(figure, path)


def _legend_columns(figure: "Figure") -> int:
    """As many as fit, names being about so long."""
    return min(5, int(figure.get_figwidth() / 1.9))


def _legend_beside(axes: "Axes", narrow: bool) -> None:
    """To the right; above, where there is no room."""
    at: Any = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0)} if narrow else {"bbox_to_anchor": (1.01, 1.02)}
    axes.legend(**{"loc": "upper left", "frameon": False, "fontsize": 9, "borderaxespad": 0, **at})


def _bar_beside(figure: "Figure", mesh: Any, axes: "Axes", what: str, narrow: bool) -> None:
    """The key of `mesh`'s colours, likewise."""
    if not narrow:
        bar = figure.colorbar(mesh, cax=axes.inset_axes((1.015, 0.0, 0.02, 1.0)))
        bar.set_label(f"{what}\n(grey: no limit)")
        return
    bar = figure.colorbar(mesh, cax=axes.inset_axes((0.0, 1.04, 1.0, 0.06)), orientation="horizontal")
    bar.ax.xaxis.set(ticks_position="top", label_position="top")
    bar.set_label(f"{what} (grey: no limit)", fontsize=9)


def _thinned(n: int) -> IntArray:
    """Which of n ordered flows are drawn: at most `POINTS` and the `TAIL` slowest, each exactly where it is."""
    spread = np.linspace(0, n - 1, min(n, POINTS)).astype(np.int64)
    return np.union1d(spread, np.arange(max(0, n - TAIL), n))


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a PNG file or, by its suffix, an SVG file that keeps text as text; whole or not at all."""
    from matplotlib import rc_context

    svg = path.suffix == ".svg"
    fixed: Any = {"Date": None, "Creator": None} if svg else None  # equal figures are equal files
    with replacing(path) as temporary, rc_context({"svg.fonttype": "none", "svg.hashsalt": "ncc"}):
        figure.savefig(temporary, format="svg" if svg else "png", dpi=DPI, metadata=fixed)


def _shades(n: int) -> list[Any]:
    """Greys: colours belong to controllers."""
    from matplotlib import colormaps

    return list(colormaps["Greys"](np.linspace(0.2, 0.7, n)))


def _host_ticks(names: Sequence[str]) -> tuple[list[float], list[str]]:
    """At most 8 labelled rows."""
    step = -(-len(names) // 8)
    return [i + 0.5 for i in range(0, len(names), step)], list(names[::step])


def _thousands(value: float, _: float) -> str:
    return f"{value / 1e6:g} M" if abs(value) >= 1e6 else f"{value / 1e3:g} k" if abs(value) >= 1e3 else f"{value:g}"


def _bytes(value: float, _: float) -> str:
    return f"{value / 1e6:g} MB" if value >= 1e6 else f"{value / 1e3:g} kB" if value >= 1e3 else f"{value:g} B"


def _nothing(_value: float, _: float) -> str:
    return ""


def _plain(value: float, _: float) -> str:
    return f"{value:g}"


def _sparse_minor(span: float) -> Any:
    """Labels at 2 and 5 where an axis spans little more than a decade or two, none where it spans more."""

    def text(value: float, _: float) -> str:
        lead = f"{value:e}"[0]
        return f"{value:g}" if (span < 30 and lead in "2357") or (span < 300 and lead in "25" and span >= 30) else ""

    return text
