# SPDX-License-Identifier: BSD-3-Clause
"""One run over time, period by period."""

from pathlib import Path

import numpy as np

from ncc.core.units import GBPS, MS
from ncc.harness.run import Run
from ncc.results.palette import styles
from ncc.results.plot.canvas import (
    INK,
    Window,
    bar_beside,
    carried_bps,
    entries_of,
    epochs_within,
    finish,
    legend_beside,
    new_figure,
    printed,
    row_ticks,
    shades,
    uplink_of,
)

LEAST = 1e-4
"""Smallest limit, as a share of the line rate, that still has a colour of its own."""


def epoch_timeline(run: Run, path: Path, *, area: int = 0, window_s: Window = None) -> None:
    """Draw one neighbourhood over time: the rates and limits of its hosts, and the queue of its uplink.

    Args:
        area: number of the neighbourhood.

    Raises:
        ConfigError: there is no such neighbourhood, or the window holds no period.
    """
    from matplotlib.colors import LogNorm

    network = run.scenario.network()
    uplink, shown = uplink_of(network, area), epochs_within(run.epochs.time_s, window_s)
    hosts = np.flatnonzero(np.array(network.agent_area) == area)
    column = {name: grid[shown] for name, grid in run.epochs.columns.items()}
    time_ms = run.epochs.time_s[shown] / MS
    edges_ms = np.concatenate([[time_ms[0] - run.scenario.period_s / MS], time_ms])
    figure, (sent, limits, queue) = new_figure(3, width=9.5, height=7.6, rows=True, ratios=(3, 2, 2))

    greys = shades(len(hosts))
    rates = column["throughput_bps"][:, hosts].T / GBPS
    sent.stackplot(time_ms, rates, colors=greys, lw=0, rasterized=True)
    top, line_bps = float(rates.sum(axis=0).max(initial=0.0)), network.port_rate_bps(uplink)
    sent.axhline(line_bps / GBPS, color="black", ls="--", lw=1.2, label=f"line rate of {network.port_name(uplink)}")
    through = carried_bps(run.epochs.columns["uplink_throughput_bps"][:, area], line_bps)[shown] / GBPS
    sent.plot(time_ms, through, color="black", lw=1.2, label=f"{network.port_name(uplink)} carried")
    sent.set_ylim(0, 1.08 * max(top, line_bps / GBPS))
    sent.set_ylabel("hosts sent to beyond\nthe rack, stacked [Gbit/s]")

    line = np.array([network.host_link(network.agent_hosts[host]).rate_bps for host in hosts])
    share = column["rate_limit_bps"][:, hosts] / line
    free = np.where(share >= 1, np.nan, share).T
    least = float(np.nanmin(free)) if np.isfinite(free).any() else 0.1
    # Limits of many hosts are small and close together, so a linear scale would not show their differences.
    scale = LogNorm(min(0.1, max(0.5 * least, LEAST)), 1.0, clip=True)
    mesh = limits.pcolormesh(edges_ms, np.arange(len(hosts) + 1), free, cmap="viridis", norm=scale, rasterized=True)
    limits.set_facecolor("#e8e8e8")
    limits.set_yticks(*row_ticks([network.nodes[network.agent_hosts[host]].name for host in hosts]))
    limits.set_ylabel("rate limit of host")
    bar_beside(figure, mesh, limits, "share of line rate")

    queue.plot(time_ms, column["uplink_queue_bytes"][:, area] / 1e3, color=INK, lw=1.0, label="at the end of the epoch")
    queue.plot(
        time_ms, column["uplink_queue_mean_bytes"][:, area] / 1e3, color="#999999", lw=1.6, label="mean of the epoch"
    )
    buffer = network.port_buffer(uplink)
    if buffer is not None and buffer.mark_threshold_bytes:
        queue.axhline(buffer.mark_threshold_bytes / 1e3, color="black", ls=":", lw=1.2, label="marking threshold")
    queue.set_ylim(bottom=0)
    queue.set_ylabel(f"queue of {network.port_name(uplink)}\n[kB]")
    queue.set_xlabel("simulated time [ms]")
    panels = (sent, queue)
    if not printed():
        for axes in panels:
            legend_beside(axes)
    for axes in (sent, limits, queue):
        axes.set_xlim(edges_ms[0], edges_ms[-1])
    name = styles([run.controller.name])[run.controller.name].label
    finish(
        figure,
        path,
        f"{name} in {run.scenario.name} on {run.datapath}, seed {run.seed}",
        entries_of(panels) if printed() else None,
    )
