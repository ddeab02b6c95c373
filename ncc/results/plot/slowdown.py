# SPDX-License-Identifier: BSD-3-Clause
"""Figures of FCT slowdown: its distribution, and its dependence on flow size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ncc.core.flows import FloatArray, IntArray
from ncc.metrics.summary import LARGE_BYTES, SMALL_BYTES
from ncc.results.palette import styles
from ncc.results.plot.canvas import (
    THIN,
    finish_curves,
    in_bytes,
    is_first_in_line,
    log_axis,
    new_figure,
    panel_title,
    stroke,
    thinned,
)

FlowPoints = tuple[IntArray, FloatArray]
"""(size_bytes, fct_slowdown) of one controller's flows of all seeds, both [n_flows]; undelivered flows have NaN."""
BUCKETS = (
    ("all flows", 0, np.inf),
    ("up to 100 KB", 0, SMALL_BYTES),
    ("100 KB to 10 MB", SMALL_BYTES, LARGE_BYTES),
    ("over 10 MB", LARGE_BYTES, np.inf),
)
"""The ranges of flow sizes of `ncc.metrics.summary`: (label, low_bytes, high_bytes), with low < size <= high."""
BINS = 8
"""Largest number of bins of flow sizes."""


def slowdown_cdf(
    data: Mapping[str, FlowPoints],
    path: Path,
    *,
    title: str = "",
    bounds: Mapping[str, FlowPoints] | None = None,
) -> None:
    """Draw the distribution of each controller's FCT slowdown, with a panel for each range of flow sizes that occurs.

    Marks show the 50th, 95th and 99th percentile. An undelivered flow counts as infinitely slow, so that a curve with
    such flows ends below 1.

    Args:
        data: flows by controller, at least one of each.
        bounds: flows by bound, drawn as thin lines without marks.
    """
    thin = dict(bounds or {})
    looks = styles([*data, *thin])
    buckets = [b for b in BUCKETS if any(((size > b[1]) & (size <= b[2])).any() for size, _ in data.values())]
    if len(buckets) == 2:  # a second panel would be the same
        buckets = buckets[:1]
    n = len(buckets)
    figure, panels = new_figure(n, width=max(4.5, 2.9 * n), height=4.4, sharey=True)
    for axes, (bucket, low, high) in zip(panels, buckets, strict=True):
        largest, count = 1.0, 0
        for place, (name, (size, slowdown)) in enumerate({**data, **thin}.items()):
            chosen = slowdown[(size > low) & (size <= high)]
            count = max(count, len(chosen))
            drawn = np.sort(chosen[np.isfinite(chosen)])
            if len(drawn) == 0:
                continue
            largest = max(largest, drawn[-1])
            share = np.arange(1, len(drawn) + 1) / len(chosen)
            marks = [i for q in (0.5, 0.95, 0.99) if (i := int(np.searchsorted(share, q))) < len(drawn)]
            shown = thinned(len(drawn))
            style = looks[name]
            axes.step(
                np.append(drawn[0], drawn[shown]),
                np.append(0.0, share[shown]),
                where="post",
                color=style.colour,
                ls=style.line,
                lw=THIN if name in thin else stroke(place, len(data)),
            )
            if name not in thin:
                dot: Any = {"ms": 3 + 2 * stroke(place, len(data)), "color": style.colour, "mec": "white", "mew": 0.6}
                axes.plot(drawn[marks], share[marks], style.marker, **dot)
        axes.set_xscale("log")
        axes.set_xlim(0.97, max(largest * 1.15, 2.0))
        axes.set_ylim(0, 1.02)
        log_axis(axes.xaxis)
        panel_title(axes, f"{bucket} (n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{count:,})")
        axes.set_xlabel("FCT slowdown")
    for axes in panels:
        if is_first_in_line(axes):
            axes.set_ylabel("share of flows")
    usual = "FCT slowdown (1: alone in the network); marks at the 50th, 95th and 99th percentile"
    finish_curves(figure, path, title or usual, looks)


def fct_by_size(
    data: Mapping[str, FlowPoints],
    path: Path,
    *,
    title: str = "",
    bounds: Mapping[str, FlowPoints] | None = None,
) -> None:
    """Draw median and 99th percentile of FCT slowdown against flow size, in bins of about equal numbers of flows.

    There are `BINS` bins or, if they would have less than 100 flows each, fewer: a 99th percentile needs that many.
    Flows of one size are in one bin.

    Args:
        data: flows by controller, at least one of each.
        bounds: flows by bound, drawn as thin lines.
    """
    thin = dict(bounds or {})
    looks = styles([*data, *thin])
    figure, panels = new_figure(2, width=9.5, height=4.4)
    curves: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, (size, slowdown) in {**data, **thin}.items():
        parts = _bins(size)
        centre = np.array([np.exp(np.mean(np.log(size[part]))) for part in parts])
        curves[name] = centre, np.array([[_percentile(slowdown[part], q) for part in parts] for q in (0.5, 0.99)])
    centres = np.concatenate([centre for centre, _ in curves.values()])
    for i, (axes, what) in enumerate(zip(panels, ("median", "99th percentile"), strict=True)):
        levels = np.concatenate([level[i] for _, level in curves.values()])
        low, high = (0.9 * np.nanmin(levels), 1.15 * np.nanmax(levels)) if np.isfinite(levels).any() else (1.0, 10.0)
        axes.set(xscale="log", yscale="log", xlabel="flow size", ylabel=f"FCT slowdown, {what}")
        axes.set(xlim=(centres.min() / 1.6, centres.max() * 1.6), ylim=(low, high))
        log_axis(axes.xaxis, in_bytes, most=5)
        log_axis(axes.yaxis)
        if one_size := len(np.unique(centres)) == 1:
            axes.set_xticks(centres[:1])
        for name, (centre, level) in curves.items():
            s = looks[name]
            if one_size and name in thin:
                axes.axhline(level[i][0], color=s.colour, ls=s.line, lw=THIN)
                continue
            lw = THIN if name in thin else 1.8
            axes.plot(centre, level[i], color=s.colour, ls=s.line, marker=s.marker, ms=7, mec="white", mew=0.6, lw=lw)
    finish_curves(figure, path, title or "FCT slowdown by flow size", looks)


def _bins(size_bytes: IntArray) -> list[IntArray]:
    """Split flows by size into the bins of `fct_by_size`: the indices of each bin's flows, the smallest flows first."""
    n = len(size_bytes)
    _, which, count = np.unique(size_bytes, return_inverse=True, return_counts=True)
    smaller = (np.cumsum(count) - count)[which]
    bins = smaller * max(1, min(BINS, n // 100)) // n
    return [np.flatnonzero(bins == i) for i in np.unique(bins)]


def _percentile(slowdown: FloatArray, q: float) -> float:
    """Percentile q (0 to 1) as an order statistic. Undelivered flows are the slowest; NaN if it is one of them."""
    ordered = np.sort(slowdown)  # NaN sorts last
    return float(ordered[min(int(np.ceil(q * len(ordered))), len(ordered)) - 1])
