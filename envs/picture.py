# SPDX-License-Identifier: BSD-3-Clause
"""A picture of a rack in an epoch: hosts, their throughput and limits, waiting payload, and the uplink that they share.

matplotlib is imported for the first frame; its Agg canvas needs no display.
"""

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
"""Gymnasium's declaration; at 30 frames per second an epoch of 1 ms lasts 33 times as long as it did."""
INCHES, DPI = (7.2, 6.4), 100
INK, SENT, WAITS, FREE = "#333333", "#4c78a8", "#e45756", "#e8e8e8"
LABELS = 8
"""Most names of hosts that fit below the picture, and of ports above it."""
WORDS = 2
"""Most ports that there is room to describe."""
MOST_BYTES = 1e8
"""End of the scale of waiting payload."""


class RackPicture:
    """Pictures of an environment's episodes: `see` takes every measurement, and `frame` can be called at any time."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
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
        if self._last is None:
            raise DatapathError("no episode is running; reset the environment first")
        return self._drawing.show(self._last, np.array(self._times_ms), np.array(self._queues))

    @cached_property
    def _drawing(self) -> "_Drawing":
        return _Drawing(self._scenario)


def pictures(render_mode: str | None, scenario: Scenario, n: int) -> list[RackPicture]:
    """Make a picture for each of `n` racks, or none if `render_mode` is None.

    Raises:
        ConfigError: there is no such mode.
    """
    if render_mode not in (None, *METADATA["render_modes"]):
        raise ConfigError(f"render_mode must be rgb_array or None, got {render_mode!r}")
    return [RackPicture(scenario) for _ in range(n)] if render_mode else []


class _Drawing:
    """The parts of a picture that stay the same from frame to frame, made once.

    From top to bottom: the uplink of each neighbourhood, with its queue over its buffer and the marking threshold; each
    host's link, thicker with more throughput; its rate, with a line at its limit; its waiting payload; and the uplink's
    queue since the episode began.
    """

    def __init__(self, scenario: Scenario) -> None:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.text import Text

        self._scales, self._scenario = scales_of(scenario), scenario
        self._hosts = np.arange(self._scales.n_agents)
        look: Any = {"font.size": 9.0, "axes.spines.top": False, "axes.spines.right": False, "text.usetex": False}
        with rc_context(look):
            figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
            self._network, self._rate, self._wait, self._past = figure.subplots(4, 1, height_ratios=[3, 2, 1.4, 1.6])
        self._canvas = FigureCanvasAgg(figure)
        self._draw_network()
        self._draw_hosts()
        self._draw_past()
        for text in figure.findobj(Text):
            text.set_usetex(False)

    def _draw_network(self) -> None:
        from matplotlib.collections import LineCollection

        scales, x, top = self._scales, self._hosts, self._network
        topology = self._scenario.network()
        ports = [area.uplink_port for area in topology.neighbourhoods]
        middle = np.array([x[scales.area == area].mean() for area in range(len(ports))])
        self._width = width = 0.8 * len(x) / len(ports)
        left = middle - width / 2
        self._title = top.set_title("", loc="left")
        top.set(xlim=(-0.6, len(x) - 0.4), ylim=(0, 3))
        top.set_axis_off()
        ends = [np.array([(host, 0.15), (middle[area], 1.45)]) for host, area in zip(x, scales.area, strict=True)]
        self._links = LineCollection(ends, colors=SENT, capstyle="round")
        top.add_collection(self._links)
        top.scatter(x, np.full(len(x), 0.15), s=40, color="white", edgecolor=INK, zorder=3)
        top.scatter(middle, np.full(len(ports), 1.45), s=220, marker="s", color="white", edgecolor=INK, zorder=3)
        top.barh(np.full(len(ports), 2.1), width, left=left, height=0.5, color=FREE, edgecolor=INK)
        self._full = top.barh(np.full(len(ports), 2.1), 0.0, left=left, height=0.5, color=WAITS)
        self._marks = []
        for area, port in enumerate(ports):
            buffer = topology.port_buffer(port)
            if buffer is not None and buffer.mark_threshold_bytes:
                self._marks.append(buffer.mark_threshold_bytes)
                at = left[area] + width * buffer.mark_threshold_bytes / scales.uplink_buffer_bytes[area]
                top.plot([at, at], [1.85, 2.35], color=INK, lw=1.0, ls="--")
        self._ports = [topology.port_name(port) for port in ports]
        self._words = [top.text(at, 2.45, "", ha="center", va="bottom") for at in middle]

    def _draw_hosts(self) -> None:
        from matplotlib.ticker import EngFormatter

        x, nothing, names = self._hosts, np.zeros(len(self._hosts)), self._scales.names
        self._sent = self._rate.bar(x, nothing, color=SENT)
        self._limit = self._rate.hlines(nothing, x - 0.45, x + 0.45, color=INK, lw=2.0)
        most_bps = 1.05 * float(self._scales.link_rate_bps.max())
        self._rate.set(xlim=self._network.get_xlim(), ylim=(0, most_bps), ylabel="rate, limit", xticks=[])
        self._rate.yaxis.set_major_formatter(EngFormatter("bit/s"))
        self._waiting = self._wait.bar(x, nothing, color=WAITS)
        self._wait.set(xlim=self._network.get_xlim(), ylabel="payload\nthat waits")
        self._wait.set_yscale("symlog", linthresh=1e3)
        self._wait.set(ylim=(0, MOST_BYTES), yticks=[0, 1e4, 1e6, MOST_BYTES])
        self._wait.yaxis.set_major_formatter(EngFormatter("B"))
        self._wait.set_xticks(x[:: -(-len(x) // LABELS)], names[:: -(-len(x) // LABELS)])

    def _draw_past(self) -> None:
        from matplotlib.ticker import EngFormatter

        self._lines = [self._past.plot([], [], color=WAITS, lw=1.2)[0] for _ in self._ports]
        for mark in set(self._marks):
            self._past.axhline(mark, color=INK, lw=1.0, ls="--")
        most_bytes = 1.02 * float(self._scales.uplink_buffer_bytes.max())
        self._past.set(xlim=(0, self._scenario.duration_s / MS), ylim=(0, most_bytes))
        self._past.set(xlabel="time (ms)", ylabel="shared\nqueue")
        self._past.yaxis.set_major_formatter(EngFormatter("B"))

    def show(self, m: Measurement, times_ms: FloatArray, queues_bytes: FloatArray) -> Frame:
        """Draw a frame of a measurement, with queues [epochs, neighbourhoods] at these times."""
        from matplotlib import rc_context
        from matplotlib.ticker import EngFormatter

        scales, rate, size = self._scales, EngFormatter("bit/s", places=1), EngFormatter("B", places=0)
        self._title.set_text(f"{m.time_s / MS:.1f} ms, {m.flows_finished} of {m.flows_started} flows delivered")
        self._links.set_linewidth(list(0.5 + 7 * np.minimum(m.throughput_bps / scales.link_rate_bps, 1)))
        for area, (bar, words, port) in enumerate(zip(self._full, self._words, self._ports, strict=True)):
            queue, buffer = float(m.uplink_queue_bytes[area]), float(scales.uplink_buffer_bytes[area])
            bar.set_width(self._width * min(queue / buffer, 1))
            carried = f"{rate(m.uplink_throughput_bps[area])} of {rate(scales.uplink_rate_bps[area])}"
            full = f"{port}: {carried}, queue {size(queue)} of {size(buffer)}"
            few, named = len(self._ports) <= WORDS, area % -(-len(self._ports) // LABELS) == 0
            words.set_text(full if few else port.split("->")[0] * named)
        for bars, heights in ((self._sent, m.throughput_bps), (self._waiting, m.queued_bytes)):
            for bar, height in zip(bars, heights, strict=True):
                bar.set_height(height)
        limits = zip(self._hosts, m.rate_limit_bps, strict=True)
        self._limit.set_segments([((x - 0.45, y), (x + 0.45, y)) for x, y in limits if np.isfinite(y)])
        for line, queue in zip(self._lines, queues_bytes.T, strict=True):
            line.set_data(times_ms, queue)
        with rc_context({"text.usetex": False}):  # a user's matplotlibrc may ask for LaTeX
            self._canvas.draw()  # type: ignore[no-untyped-call]
        self._network.figure.set_layout_engine(
            "none"
        )  # keeps the layout of the first frame, which makes the others faster
        drawn: Frame = np.asarray(self._canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]
        return drawn
