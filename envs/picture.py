# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of a rack in a period: hosts' rates, limits and waiting payload, and the queue of the shared uplink.

matplotlib is imported for the first frame; its Agg canvas needs no display.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.units import MS
from ncc.envs.scales import scales_of

Frame = npt.NDArray[np.uint8]
METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}
"""Gymnasium's declaration; at 30 frames per second a period of 1 ms lasts 33 times as long as it did."""
INCHES, DPI = (7.2, 6.4), 100
INK, SENT, WAITS = "#333333", "#4c78a8", "#e45756"
LOOK: Any = {"font.size": 9.0, "axes.spines.top": False, "axes.spines.right": False, "text.usetex": False}
"""Settings of matplotlib, which replace the user's own for these pictures."""
LABELS = 8
"""Most names of hosts that fit below the bars."""
MOST_BYTES = 1e8
"""End of the scale of waiting payload."""


class RackPicture:
    """Pictures of an environment's episodes: `see` takes every measurement, and `frame` can be called at any time."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario, self._scales = scenario, scales_of(scenario)
        self._times_ms: list[float] = []
        self._queues: list[FloatArray] = []
        self._last: Measurement | None = None

    def see(self, measurement: Measurement) -> None:
        """Take a measurement; that of time 0 begins a new episode."""
        if measurement.epoch == 0:
            self._times_ms, self._queues = [], []
        self._last = measurement
        self._times_ms.append(measurement.time_s / MS)
        self._queues.append(measurement.uplink_queue_bytes.copy())

    def frame(self) -> Frame:
        """Draw the last measurement, and the queue since the episode began, as [height, width, 3].

        Raises:
            DatapathError: there is no measurement.
        """
        if (m := self._last) is None:
            raise DatapathError("no episode is running; reset the environment first")
        from matplotlib import rc_context

        with rc_context(LOOK):
            figure, background = self._canvas
            rate, wait, queue = figure.axes
            rate.set_title(_heading(m))
            for axes, heights in ((rate, m.throughput_bps), (wait, m.queued_bytes)):
                for bar, height in zip(axes.patches, heights, strict=True):
                    bar.set_height(height)
            limits = enumerate(m.rate_limit_bps.tolist())
            rate.collections[0].set_segments([((x - 0.45, y), (x + 0.45, y)) for x, y in limits if np.isfinite(y)])
            for line, bytes_ in zip(queue.lines, np.array(self._queues).T, strict=True):
                line.set_data(self._times_ms, bytes_)
            figure.canvas.restore_region(background)
            for panel in figure.axes:
                for artist in _moving(panel):
                    panel.draw_artist(artist)
        drawn: Frame = np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()
        return drawn

    @cached_property
    def _canvas(self) -> tuple[Any, Any]:
        """The figure, and the pixels that stay the same from frame to frame.

        From top to bottom: rates, waiting payload, queue.
        """
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter

        scales, x = self._scales, np.arange(self._scales.n_agents)
        figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
        rate, wait, queue = figure.subplots(3, 1)
        canvas: Any = FigureCanvasAgg(figure)
        rate.bar(x, np.zeros(len(x)), color=SENT)
        rate.hlines(np.zeros(len(x)), x - 0.45, x + 0.45, color=INK, lw=2.0)
        rate.set(ylim=(0, 1.05 * scales.link_rate_bps.max()), ylabel="rate, limit", xticks=[])
        wait.bar(x, np.zeros(len(x)), color=WAITS)
        wait.set_yscale("symlog", linthresh=1e3)
        wait.set(ylim=(0, MOST_BYTES), yticks=[0, 1e4, 1e6, MOST_BYTES], ylabel="waiting payload")
        wait.set_xticks(x[:: -(-len(x) // LABELS)], scales.names[:: -(-len(x) // LABELS)])
        for _ in scales.uplink_rate_bps:
            queue.plot([], [], color=WAITS, lw=1.2)
        queue.set(xlim=(0, self._scenario.duration_s / MS), ylim=(0, 1.02 * scales.uplink_buffer_bytes.max()))
        queue.set(xlabel="time (ms)", ylabel="shared queue")
        for axes, unit in ((rate, "bit/s"), (wait, "B"), (queue, "B")):
            axes.yaxis.set_major_formatter(EngFormatter(unit))
            for artist in _moving(axes):
                artist.set_animated(True)
        rate.set_title(" ")  # leaves room for the heading
        canvas.draw()
        return figure, canvas.copy_from_bbox(figure.bbox)


def _moving(axes: Any) -> list[Any]:
    """Parts of a panel that change from frame to frame."""
    return [*axes.patches, *axes.collections, *axes.lines, axes.title]


def _heading(m: Measurement) -> str:
    return f"{m.time_s / MS:.1f} ms, {m.flows_finished} of {m.flows_started} flows delivered"


def pictures(render_mode: str | None, scenario: Scenario, n: int) -> Sequence[RackPicture]:
    """Make a picture for each of `n` racks; nothing if `render_mode` is None.

    Raises:
        ConfigError: there is no such mode.
    """
    if render_mode not in (None, *METADATA["render_modes"]):
        raise ConfigError(f"render_mode must be {', '.join(METADATA['render_modes'])} or None, got {render_mode!r}")
    return [RackPicture(scenario) for _ in range(n)] if render_mode else []
