# SPDX-License-Identifier: BSD-3-Clause
"""Limits that several controllers set on the same measurements, by the bytes that go before a host's next flow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FloatArray
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.envs.observation import ObservationSpec, SharedObserver, columns_of
from ncc.envs.scales import scales_of
from ncc.harness.run import eval_flow_seed, limiter_seed
from ncc.results.notebook import replayed, watched_run
from ncc.results.palette import Style, styles
from ncc.results.plot.canvas import INK, entries_of, finish, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VIEW = ObservationSpec(neighbours="ordered", ages=True)
"""Observation from which the states of hosts are taken."""
SEEN = ("queued_flows", "queued flows before", "bytes ahead", "hosts before")
"""Entries of that observation that are used."""
IN_ORDER = (4.0, 4.0)
"""Values that the entries "bytes ahead" (in periods of the uplink's rate) and "hosts before" show as 1 (kinds.h)."""
BEFORE = (1, 2, 4)
"""Numbers of hosts that go before, each with a panel of the figure."""
EDGES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Edges, in periods of the uplink's rate, of groups of states; a point in the figure is the mean over a group."""
LEAST = 15
"""Smallest number of states over which a point is drawn."""


@dataclass(frozen=True)
class Waiting:
    """States of hosts in runs of the first controller, and the limits that each controller sets there.

    A state is that of one host in one period.
    """

    limits: Mapping[str, FloatArray]
    """[n] limit as a fraction of the link's rate, at most 1, by controller."""
    busy: BoolArray
    """[n] True if the host has something to send."""
    known: BoolArray
    """[n] True if the host had something to send already when its neighbours sent their last messages;
    False at the beginning of a burst."""
    periods_before: FloatArray
    """[n] bytes of other hosts that go before its next flow, in periods of the uplink's rate."""
    hosts_before: FloatArray
    """[n] number of hosts that go before, at most 8."""


def waiting(controllers: Sequence[str], networks: Sequence[Scenario], run: Path | None = None) -> Waiting:
    """Run the first controller on flows of each network, and let the others decide on its measurements.

    Args:
        controllers: names of the controllers.
        run: run folder of the first controller's policy; None: the policy in the package.

    Raises:
        ConfigError: no network has a flow.
    """
    rows: list[FloatArray] = []
    decided: dict[str, list[FloatArray]] = {name: [] for name in controllers}
    at = columns_of(VIEW, SEEN)
    assert at is not None, "the view has all of them"
    for number, scenario in enumerate(networks):
        if not len(scenario.flows(eval_flow_seed(number))):
            continue
        _, measurements, limits = watched_run(scenario, controllers[0], training=run, seed=number)
        observer = SharedObserver(VIEW)
        observer.reset(scenario, seed=derive_seed(limiter_seed(0), "sharing"))
        rows.append(np.array([observer.observe(m)[:, at] for m in measurements[:-1]]).reshape(-1, len(at)))
        asked = {controllers[0]: limits, **{name: replayed(scenario, name, measurements) for name in controllers[1:]}}
        for name, limits_bps in asked.items():
            decided[name].append(np.minimum(limits_bps / scales_of(scenario).link_rate_bps, 1).ravel())
    if not rows:
        raise ConfigError("none of these networks has a flow to carry; draw more, or raise duration_s or the load")
    queued, before, ahead, first = np.concatenate(rows).astype(np.float64).T
    return Waiting(
        limits={name: np.concatenate(parts) for name, parts in decided.items()},
        busy=queued > 0,
        known=before > 0,
        periods_before=ahead * IN_ORDER[0],
        hosts_before=np.round(first * IN_ORDER[1]),
    )


def waiting_limits(data: Waiting, path: Path) -> None:
    """Draw the limits that each controller sets for hosts that wait for others and for hosts that do not.

    For hosts that wait, limits are drawn over the bytes that go before. Points are geometric means over states; the
    vertical lines and the band span the middle half of the states.
    """
    looks = styles(list(data.limits))
    figure, (first, *panels) = new_figure(1 + len(BEFORE), width=8.2, height=6.4, sharey=True, lines=2)
    waits = data.busy & data.known
    cases = {
        "nothing\nto send": ~data.busy,
        "has just\nbegun": data.busy & ~data.known,
        "first\nin order": waits & (data.hosts_before == 0),
    }
    for place, (name, look) in enumerate(looks.items()):
        for at, met in enumerate(cases.values()):
            if met.sum() >= LEAST:
                middle, low, high = _spread(np.log(data.limits[name][met]))
                x = at + 0.16 * (place - (len(looks) - 1) / 2)
                first.vlines(x, low, high, color=look.colour, lw=1.8)
                first.plot(x, middle, color=look.colour, marker=look.marker, ms=6, mec="white", mew=0.6)
    first.set_xticks(range(len(cases)), list(cases), fontsize=9)
    first.set_xlim(-0.5, len(cases) - 0.5)
    first.grid(visible=False, axis="x")
    first.set_title("hosts for which nobody goes before", loc="left", fontsize=10)
    for axes, hosts in zip(panels, BEFORE, strict=True):
        _over_periods(axes, data, waits & (data.hosts_before == hosts), looks)
        axes.set_title(f"{hosts} host{'s' * (hosts > 1)} before", loc="left", fontsize=10)
        axes.set_xlim(-0.15, EDGES[-1])
        axes.set_xlabel("bytes before [periods of the uplink]", fontsize=9)
    for axes in (first, *panels):
        axes.set_yscale("log")
        axes.set_ylim(8e-4, 1.3)
        axes.yaxis.set_major_formatter(plain)
    for axes in (first, panels[1]):
        axes.set_ylabel("limit [share of link rate; 1: none]", fontsize=9)
    finish(figure, path, entries=entries_of(panels), columns=4)


def _spread(logs: np.ndarray) -> tuple[float, float, float]:
    """Return the geometric mean of numbers, given as logarithms, and the ends of their middle half."""
    low, high = np.percentile(logs, [25, 75])
    return float(np.exp(logs.mean())), float(np.exp(low)), float(np.exp(high))


def _over_periods(axes: "Axes", data: Waiting, met: BoolArray, looks: dict[str, Style]) -> None:
    """Draw the limits in the states `met` over the bytes that go before, with a line for each controller."""
    group = np.digitize(data.periods_before, EDGES)
    groups = [rows for at in range(1, len(EDGES)) if (rows := met & (group == at)).sum() >= LEAST]
    if not groups:
        axes.text(0.5, 0.5, "hardly ever met", ha="center", color=INK, transform=axes.transAxes)
        return
    x = [data.periods_before[rows].mean() for rows in groups]
    for place, (name, look) in enumerate(looks.items()):
        middle, low, high = np.array([_spread(np.log(data.limits[name][rows])) for rows in groups]).T
        if place == 0:
            axes.fill_between(x, low, high, color=look.colour, alpha=0.18, lw=0, label=f"{look.label}, middle half")
        style: dict[str, Any] = {"color": look.colour, "ls": look.line, "marker": look.marker, "ms": 4.5}
        axes.plot(x, middle, lw=1.6 + (place == 0), label=look.label, **style)
