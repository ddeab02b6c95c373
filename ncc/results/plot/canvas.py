# SPDX-License-Identifier: BSD-3-Clause
"""Parts that all figures have in common: style, file, legends, the text of axes, and curves.

matplotlib is imported when the first figure is drawn; its Agg canvas needs no display and no global state.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.topology import Topology
from ncc.harness.atomic import replacing
from ncc.results.figure_layout import SCREEN, FigureLayout
from ncc.results.palette import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Window = tuple[float, float] | None
"""Part of a run to draw as (start_s, end_s) in simulated time; None: all of it."""
DPI = 110
POINTS = 250
"""Most points of a distribution's curve that are drawn, at evenly spaced shares of flows."""
TAIL = 30
"""Number of slowest flows that are drawn in addition."""
DIGITS = (1, 1.5, 2, 3, 5, 7), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)
"""First digits of the ticks of a logarithmic axis, the most first."""
KEY_LETTERS = 7
"""Width of the line or mark before a name in a legend, in letters."""
THIN = 1.0
"""Line width of the curves of bounds, in points."""
LETTERS_PER_IN = 120
"""Letters of a text of 1 point that fit an inch."""
TITLE_PT = 12.0
"""Size of a title in points, on a screen."""
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
TEXT_PT, PAPER_TEXT_PT = 10.0, 8.0
"""Size of text in points, on a screen and on paper."""
PAPER_LOOK: Any = {
    "font.size": PAPER_TEXT_PT,
    "axes.titlesize": PAPER_TEXT_PT,
    "legend.fontsize": 7.0,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
}
"""Settings of figures that are printed in their own size, where 7 to 9 points are usual."""
PANEL_IN, SHARED_PANEL_IN = 2.2, 1.6
"""Smallest width of a panel on paper in inches, with an y axis of its own and with a common one."""
PAPER_TICKS = 5
"""Most intervals between the ticks of an x axis on paper."""
ROW_IN = 1.25
"""Smallest height of a panel on paper in inches."""


_layout: ContextVar[FigureLayout] = ContextVar("layout", default=SCREEN)


@contextmanager
def laid_out(layout: FigureLayout) -> Iterator[None]:
    """Draw all figures in this context with a layout."""
    from matplotlib import rc_context

    token = _layout.set(layout)
    try:
        with rc_context(PAPER_LOOK if printed() else {}):
            yield
    finally:
        _layout.reset(token)


def printed() -> bool:
    """True where figures are drawn for a paper's width."""
    return _layout.get().width_in is not None


def text_pt(size_pt: float) -> float:
    """Size of a text in points: as it is given on a screen, at most `PAPER_TEXT_PT` on paper."""
    return min(size_pt, PAPER_TEXT_PT) if printed() else size_pt


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
        n: number of panels.
        rows: put the panels one above the other, with a common x axis; else side by side.
        sharey: give panels side by side a common y axis.
        ratios: relative heights of panels one above the other.
        lines: number of lines for panels side by side; on paper there are as many as its width needs.

    Returns:
        The figure and its panels.
    """
    width_in, per_line = _layout.get().width_in, -(-n // lines)
    if width_in and rows:
        width, height = width_in, max(height * width_in / width, 0.5 + ROW_IN * n)
    elif width_in:
        panel_in, line_in = width / per_line, height / lines
        per_line = min(n, max(1, int(width_in / (SHARED_PANEL_IN if sharey else PANEL_IN))))
        lines = -(-n // per_line)
        line_in = min(max(line_in * width_in / per_line / panel_in, 1.3 * ROW_IN), 1.7 * ROW_IN)
        width, height = width_in, 0.4 + line_in * lines
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    look: Any = {"font.size": text_pt(TEXT_PT), "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
    look |= {"grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True, **PLAIN}
    with rc_context(look):
        figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        if rows:
            axes = figure.subplots(n, 1, squeeze=False, sharex=True, height_ratios=list(ratios))
        else:
            axes = figure.subplots(lines, per_line, squeeze=False, sharey=sharey)
    panels = list(axes.ravel())
    for spare in panels[n:]:
        spare.remove()
    for panel in panels[:n] if printed() else ():
        panel.locator_params(axis="x", nbins=PAPER_TICKS)
    return figure, panels[:n]


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
    figure: "Figure",
    path: Path,
    title: str = "",
    entries: Mapping[str, Any] | None = None,
    columns: int = 0,
    *,
    size_pt: float = TITLE_PT,
    grow: bool = False,
) -> None:
    """Add a title, unless the layout has none, and a legend of `entries` below the panels; write the file.

    Args:
        title: text; each of its lines is broken where it does not fit.
        entries: handles of the legend, by their texts; None: no legend.
        columns: most columns of the legend; 0: as many as fit.
        size_pt: size of the title in points, on a screen.
        grow: add the height of the title and the legend to the figure, as is always done on paper.
    """
    lines = 0
    if entries:
        ncols = min(len(entries), columns or legend_columns(figure))
        key = KEY_LETTERS + max(map(len, entries))
        ncols = max(1, min(ncols, letters(figure.get_figwidth(), text_pt(TEXT_PT)) // key))
        lines += max(2, -(-len(entries) // ncols))
        figure.legend(entries.values(), entries.keys(), ncols=ncols, **BELOW)
    if title and _layout.get().titles:
        text = "\n".join(fill(line, letters(figure.get_figwidth(), text_pt(size_pt))) for line in title.split("\n"))
        lines += text.count("\n") + 1
        figure.suptitle(text, x=0.01, ha="left", fontsize=text_pt(size_pt))
    if grow or printed():
        figure.set_figheight(figure.get_figheight() + 0.02 * text_pt(TEXT_PT) * lines)
    save_figure(figure, path)


def finish_curves(figure: "Figure", path: Path, title: str, looks: Mapping[str, Style]) -> None:
    """Call `finish` with a legend that shows each controller's line and marker."""
    from matplotlib.lines import Line2D

    entries = {
        s.label: Line2D([], [], color=s.colour, ls=s.line, marker=s.marker, mec="white", ms=7, lw=lw)
        for s in looks.values()
        for lw in (1.8 if s.marker else THIN,)
    }
    finish(figure, path, title, entries)


def letters(width_in: float, size_pt: float) -> int:
    """Letters of a line of `size_pt` points that fit a width in inches."""
    return int(width_in * LETTERS_PER_IN / size_pt)


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
    return max(1, min(5, int(figure.get_figwidth() / (1.9 * text_pt(TEXT_PT) / TEXT_PT))))


def legend_beside(axes: "Axes") -> None:
    """Put the legend to the right of a panel."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), frameon=False, fontsize=9, borderaxespad=0)


def panel_title(axes: "Axes", text: str) -> None:
    """Put a title above a panel, in as many lines as its width needs."""
    place, width_in = axes.get_subplotspec(), axes.figure.bbox.width / axes.figure.dpi
    columns = 1 if place is None else place.get_gridspec().ncols
    axes.set_title(
        fill(text, letters(width_in, text_pt(TEXT_PT)) // columns - 2), loc="left", fontsize=text_pt(TEXT_PT)
    )


def is_first_in_line(axes: "Axes") -> bool:
    """True for a panel that no other stands left of."""
    place = axes.get_subplotspec()
    return place is None or place.is_first_col()


def bar_beside(figure: "Figure", mesh: Any, axes: "Axes", what: str) -> None:
    """Add the colour bar of `mesh`, which has a logarithmic scale, to the right of a panel."""
    bar = figure.colorbar(mesh, cax=axes.inset_axes((1.015, 0.0, 0.02, 1.0)))
    bar.set_label(f"{what}\n(grey: no limit)")
    log_axis(bar.ax.yaxis, most=4)


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


def plain(value: float, _: float) -> str:
    """Format a tick as briefly as possible, without powers of ten."""
    return f"{value:.10g}"


def log_axis(axis: "Axis", text: Callable[[float, float], str] = plain, most: int = 6) -> None:
    """Give a logarithmic axis, whose limits are set, up to `most` ticks, all with labels."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(FixedLocator(log_ticks(low, high, most)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(text))


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Choose up to `most` round numbers in a range: as many of each decade as fit, or evenly spaced ones."""
    from matplotlib.ticker import MaxNLocator

    inside: list[float] = []
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for digits, step in (*((digits, 1) for digits in DIGITS), *(((1,), step) for step in range(2, len(decades) + 1))):
        ticks = [digit * 10.0**decade for decade in decades[::step] for digit in digits]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) <= most:
            break
    if len(inside) < 3:
        inside = [
            float(tick)
            for tick in MaxNLocator(most - 1, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
            if low <= tick <= high
        ]
    return inside
