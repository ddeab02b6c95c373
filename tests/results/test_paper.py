# SPDX-License-Identifier: BSD-3-Clause
"""Figures for a column of a paper: their width, the size of their text, and that nothing is cut or covers another."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from ncc.core.errors import ConfigError
from ncc.harness.run import Run
from ncc.metrics.stats import Interval
from ncc.results.figure_layout import FigureLayout, layout_of
from ncc.results.plot import (
    FlowPoints,
    canvas,
    epoch_timeline,
    fct_by_size,
    flow_timeline,
    held_out_curve,
    laid_out,
    learning_curve,
    port_timeline,
    slowdown_cdf,
    window_timeline,
)
from ncc.study.draw import draw
from tests.results.test_plot import points, rows
from tests.results.test_plot_series import runs, trace
from tests.study.test_page import result
from tests.support.experiments import fluid_run

Draw = Callable[[Path], None]
COLUMN_IN = 3.4


def sized(*sizes: int) -> dict[str, FlowPoints]:
    """Flows of these sizes, a thousand of each."""
    slowdown = 1 + np.random.default_rng(1).lognormal(0, 1, 1000 * len(sizes))
    return dict.fromkeys(("ncc", "dctcp"), (np.repeat(sizes, 1000), slowdown))


def marked_apart() -> list[Run]:
    """Two runs, on ports with different marking thresholds and long names."""
    one, other = runs()
    topology = other.scenario.topology.replace(mark_threshold_bytes=12_000)
    named = other.controller.replace(name="a_controller_with_a_long_name")
    return [one, replace(other, controller=named, scenario=other.scenario.replace(topology=topology))]


FAR: dict[str, Any] = {"measure": "queue", "title": "the queue", "log_y": True, "levels": {"a far level": 1e7}}
FIGURES: dict[str, Draw] = {
    "levels": lambda path: port_timeline(marked_apart(), path),
    "port": lambda path: port_timeline(runs(), path),
    "flows": lambda path: flow_timeline(runs(), path),
    "windows": lambda path: window_timeline([trace("ncc"), trace("dctcp")], path),
    "epochs": lambda path: epoch_timeline(fluid_run(share=True), path),
    "cdf": lambda path: slowdown_cdf(points(), path, title="Something long about slowdowns " * 3),
    "sizes": lambda path: fct_by_size(points(), path, title="Something long about sizes " * 3),
    "close": lambda path: fct_by_size(sized(16_000, 32_000, 64_000), path),
    "learning": lambda path: learning_curve(rows(), path, references={"ncc_untrained": 3.0}),
    "held out": lambda path: held_out_curve(
        {0: Interval(1.1, 1.0, 1.2, 5, 0), 90_000: Interval(0.8, 0.7, 0.9, 5, 0)}, {"dctcp": 1.0}, path, over="DCTCP"
    ),
    "study": lambda path: draw(result(panels=[FAR]), {}, path),
}


Box = tuple[float, ...]
"""Left, bottom, right and top in pixels."""


def drawn(draw: Draw, layout: FigureLayout, monkeypatch: pytest.MonkeyPatch) -> tuple[Figure, dict[Text, Box]]:
    """Draw a figure; return it with every text that can be seen, and the text's place."""
    saved: list[Figure] = []
    monkeypatch.setattr(canvas, "save_figure", lambda figure, _: saved.append(figure))
    with laid_out(layout):
        draw(Path("never written"))
    found: dict[Text, Box] = {}
    usual = Text.draw

    def noted(text: Text, renderer: RendererBase) -> None:
        if text.get_visible() and text.get_text().strip():
            found[text] = tuple(text.get_window_extent(renderer).extents)
        usual(text, renderer)

    (figure,) = saved
    monkeypatch.setattr(Text, "draw", noted)
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    monkeypatch.setattr(Text, "draw", usual)
    return figure, found


def tick_labels(axis: Axis, found: Mapping[Text, Box]) -> list[Box]:
    """Places of an axis's labels, from left to right."""
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    return sorted(found[tick.label1] for tick in ticks if tick.label1 in found)


@pytest.mark.parametrize("layout", [FigureLayout(), FigureLayout(COLUMN_IN, titles=False), FigureLayout(7.0)])
@pytest.mark.parametrize("name", FIGURES)
def test_text_can_be_read(name: str, layout: FigureLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is within the figure, no tick's label covers the next, and on paper it has the size of a paper's text."""
    figure, found = drawn(FIGURES[name], layout, monkeypatch)
    right, top = figure.bbox.size
    for text, box in found.items():
        assert box[0] >= -1, text.get_text()
        assert box[1] >= -1, text.get_text()
        assert box[2] <= right + 1, text.get_text()
        assert box[3] <= top + 1, text.get_text()
        if layout.width_in:
            assert 6.9 <= float(text.get_fontsize()) <= 9.0, text.get_text()
    for (one, a), (other, b) in combinations(found.items(), 2):
        beside = a[2] <= b[0] + 2 or b[2] <= a[0] + 2 or a[3] <= b[1] + 2 or b[3] <= a[1] + 2
        assert beside, f"{one.get_text()} covers {other.get_text()}"
    for axes in figure.axes:
        across = [tick_labels(one.xaxis, found) for one in axes.get_shared_x_axes().get_siblings(axes)]
        up = [tick_labels(one.yaxis, found) for one in axes.get_shared_y_axes().get_siblings(axes)]
        for labels in (across, up):
            assert max(map(len, labels)) > 1, "an axis without numbers says nothing"
        assert all(left[2] + 2 < right[0] for places in across for left, right in pairwise(places)), name
    assert figure.get_figwidth() == (layout.width_in or figure.get_figwidth())
    assert bool(figure.get_suptitle()) == layout.titles


def test_a_level_far_from_the_data_has_ticks_near_it(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, _ = drawn(FIGURES["study"], FigureLayout(), monkeypatch)
    (axes,) = figure.axes
    level = axes.get_ylim()[1]  # the highest that is drawn, about
    assert max(axes.get_yticks()) > level / 10, "the data are a thousand times lower"


def test_a_screen_s_figures_come_back(tmp_path: Path) -> None:
    draw = partial(slowdown_cdf, points())
    draw(tmp_path / "before.svg")
    with laid_out(FigureLayout(COLUMN_IN, titles=False)):
        draw(tmp_path / "paper.svg")
    draw(tmp_path / "after.svg")
    assert (tmp_path / "after.svg").read_bytes() == (tmp_path / "before.svg").read_bytes()
    width = re.search(r'<svg [^>]*?width="([\d.]+)pt"', (tmp_path / "paper.svg").read_text())
    assert width is not None
    assert float(width[1]) == pytest.approx(72 * COLUMN_IN)


def test_a_width_without_figures_is_refused() -> None:
    for given in ({"width_in": 3.4, "titles": True}, {"width_in": None, "titles": False}):
        with pytest.raises(ConfigError, match="add figures=pdf"):
            layout_of(**given, figures=())
    assert layout_of(None, titles=True, figures=()) == FigureLayout()
