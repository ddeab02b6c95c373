# SPDX-License-Identifier: BSD-3-Clause
"""Parts that all figures have in common: style, file, legends, the text of axes, and curves.

matplotlib is imported when the first figure is drawn; its Agg canvas needs no display and no global state.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.topology import Topology
from ncc.harness.atomic import replacing
from ncc.results.palette import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Window = tuple[float, float] | None
"""Part of a run to draw as (start_s, end_s) in simulated time; None: all of it."""
DPI = 110
POINTS = 250
"""Most points of a distribution's curve that are drawn, at evenly spaced shares of flows."""
TAIL = 30
"""Number of slowest flows that are drawn in addition."""
THIN = 1.0
"""Line width of the curves of bounds, in points."""
LETTERS = 11
"""Letters of a title that fit an inch."""
INK = "#333333"
"""Colour of lines and marks that belong to no controller."""
BELOW: Any = {"loc": "outside lower center", "frameon": False}
"""Position of a legend below the panels."""

UNDATED: dict[str, Any] = {
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Metadata to leave out of a vector file, by suffix."""
FONTS: Any = {"svg.fonttype": "none", "svg.hashsalt": "ncc", "pdf.fonttype": 42}
"""Settings that keep text in vector files as text, in PDF with fonts of type 42, because journals refuse type 3."""
TIP = "tip: "
"""Beginning of a mark's `gid`, whose rest a browser shows under the pointer (SVG only)."""
_TOLD = re.compile(rb'<g id="tip: ([^"]*)">')
PLAIN: Any = {"text.usetex": False}
"""Settings that override a user's matplotlibrc, because LaTeX text could not be drawn where LaTeX is missing."""


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
    """Make a figure of `width` x `height` inches in the common style.

    Args:
        n: number of panels, a multiple of `lines`.
        rows: put the panels one above the other, with a common x axis; else side by side.
        sharey: give panels side by side a common y axis.
        ratios: relative heights of panels one above the other.
        lines: number of lines for panels side by side.

    Returns:
        The figure and its panels.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    look: Any = {"font.size": 10.0, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
    look |= {"grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True, **PLAIN}
    with rc_context(look):
        figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        if rows:
            axes = figure.subplots(n, 1, squeeze=False, sharex=True, height_ratios=list(ratios))
        else:
            axes = figure.subplots(lines, n // lines, squeeze=False, sharey=sharey)
    return figure, list(axes.ravel())


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a PNG file or, by the suffix, an SVG or PDF file, which keeps text as text; atomically."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    form = path.suffix[1:] if path.suffix in UNDATED else "png"
    fixed = UNDATED.get(path.suffix)  # so that equal figures are equal files
    for text in figure.findobj(Text):
        text.set_usetex(False)
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells of every glyph in a PDF file
    with replacing(path) as temporary, rc_context({**FONTS, **PLAIN}):
        figure.savefig(temporary, format=form, dpi=DPI, metadata=fixed)
        if form == "svg":
            temporary.write_bytes(_TOLD.sub(rb"<g><title>\1</title>", temporary.read_bytes()))


def finish(
    figure: "Figure", path: Path, title: str = "", entries: Mapping[str, Any] | None = None, columns: int = 0
) -> None:
    """Add a title and, below the panels, a legend of `entries`; write the file.

    Args:
        entries: handles of the legend, by their texts; None: no legend.
        columns: number of columns of the legend; 0: as many as fit.
    """
    if entries:
        ncols = columns or min(len(entries), legend_columns(figure))
        figure.legend(entries.values(), entries.keys(), ncols=ncols, **BELOW)
    if title:
        figure.suptitle(title, x=0.01, ha="left")
    save_figure(figure, path)


def finish_curves(figure: "Figure", path: Path, title: str, looks: Mapping[str, Style]) -> None:
    """Call `finish` with a legend that shows each controller's line and marker."""
    from matplotlib.lines import Line2D

    entries = {
        s.label: Line2D([], [], color=s.colour, ls=s.line, marker=s.marker, mec="white", ms=7, lw=lw)
        for s in looks.values()
        for lw in (1.8 if s.marker else THIN,)
    }
    finish(figure, path, fill(title, int(LETTERS * figure.get_figwidth())), entries)


def entries_of(panels: "Sequence[Axes]") -> dict[str, Any]:
    """Handles of the legend by their texts, from all panels; equal texts get one entry."""
    return {text: line for axes in panels for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}


def epochs_within(time_s: FloatArray, window_s: Window) -> np.ndarray:
    """Mask of the periods that end in the window (start, end]; `ConfigError` if there are none."""
    start, end = window_s or (0.0, np.inf)
    shown: np.ndarray = (time_s > start) & (time_s <= end)
    if not shown.any():
        raise ConfigError(f"window_s ({start}, {end}) holds no epoch; the run ends at {time_s[-1]:.6g} s")
    return shown


def uplink_of(network: Topology, area: int) -> int:
    """Port of the uplink of neighbourhood number `area`; `ConfigError` if there is no such neighbourhood."""
    if not 0 <= area < len(network.neighbourhoods):
        raise ConfigError(f"area must be in [0, {len(network.neighbourhoods)}), got {area}")
    return network.neighbourhoods[area].uplink_port


def carried_bps(sent_bps: FloatArray | IntArray, line_bps: float) -> FloatArray:
    """Spread what a port sent over the periods in which its link carried it.

    A packet is counted when its transmission begins, so a short period may count a packet more than the link carries in
    it. What exceeds the line rate belongs to the next periods.

    Args:
        sent_bps: [epochs] rate of the packets counted in each period, in bits per second.
        line_bps: rate of the link, in bits per second.

    Returns:
        [epochs] rates of at most `line_bps`.
    """
    line = line_bps * np.arange(1, len(sent_bps) + 1)
    total = line + np.minimum.accumulate(np.minimum(np.cumsum(sent_bps) - line, 0.0))
    return np.minimum(np.diff(total, prepend=0.0), line_bps)


def stroke(place: int, n: int) -> float:
    """Width of line number `place` of n. The first are the widest, so that several equal lines can all be seen."""
    return 1.4 + 1.8 * (n - 1 - place) / max(1, n - 1)


def legend_columns(figure: "Figure") -> int:
    """Number of columns of a legend that fit the figure, for names of usual length."""
    return min(5, int(figure.get_figwidth() / 1.9))


def legend_beside(axes: "Axes") -> None:
    """Put the legend to the right of a panel."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), frameon=False, fontsize=9, borderaxespad=0)


def bar_beside(figure: "Figure", mesh: Any, axes: "Axes", what: str) -> None:
    """Add the colour bar of `mesh`, which has a logarithmic scale, to the right of a panel."""
    bar = figure.colorbar(mesh, cax=axes.inset_axes((1.015, 0.0, 0.02, 1.0)))
    bar.set_label(f"{what}\n(grey: no limit)")
    bar.ax.yaxis.set_major_formatter(plain)
    bar.ax.yaxis.set_minor_formatter(sparse_minor(mesh.norm.vmax / mesh.norm.vmin))


def thinned(n: int) -> IntArray:
    """Indices of the flows to draw, of n flows in ascending order: at most `POINTS`, and the `TAIL` slowest."""
    spread = np.linspace(0, n - 1, min(n, POINTS)).astype(np.int64)
    return np.union1d(spread, np.arange(max(0, n - TAIL), n))


def thinned_mean(x: FloatArray, y: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """Reduce a curve [n] to at most `most` points: means of y over equal numbers of points, at their last x.

    The last mean may be over fewer points.
    """
    per_point = -(-len(y) // most)
    starts = np.arange(0, len(y), per_point)
    ends = np.minimum(starts + per_point, len(y))
    return x[ends - 1], np.add.reduceat(y, starts) / (ends - starts)


def shades(n: int) -> list[Any]:
    """Make n grey shades, because colours belong to controllers."""
    from matplotlib import colormaps

    return list(colormaps["Greys"](np.linspace(0.2, 0.7, n)))


def row_ticks(names: Sequence[str]) -> tuple[list[float], list[str]]:
    """Positions and labels of the ticks of rows, for every row or, if there are more than 8, at even steps."""
    step = -(-len(names) // 8)
    return [i + 0.5 for i in range(0, len(names), step)], list(names[::step])


def thousands(value: float, _: float) -> str:
    """Format a tick as 500, 20 k or 3 M."""
    return f"{value / 1e6:g} M" if abs(value) >= 1e6 else f"{value / 1e3:g} k" if abs(value) >= 1e3 else f"{value:g}"


def in_bytes(value: float, _: float) -> str:
    """Format a tick as 500 B, 20 kB or 3 MB."""
    return f"{value / 1e6:.4g} MB" if value >= 1e6 else f"{value / 1e3:.4g} kB" if value >= 1e3 else f"{value:g} B"


def nothing(_value: float, _: float) -> str:
    """Format a tick as empty text."""
    return ""


def plain(value: float, _: float) -> str:
    """Format a tick as briefly as possible, without powers of ten."""
    return f"{value:g}"


def sparse_minor(span: float) -> Any:
    """Make a formatter of minor ticks on a logarithmic axis, whose ends have the ratio `span`.

    Up to a ratio of 4 all of them get labels; up to 30, the ticks 2, 3, 5 and 7 of each decade; up to 300, the ticks 2
    and 5; above that, none.
    """

    def text(value: float, _: float) -> str:
        labelled = "2357" if span < 30 else "25" if span < 300 else ""
        return f"{value:g}" if span < 4 or f"{value:e}"[0] in labelled else ""

    return text
