# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of the report: small cases, ratios with intervals, and flows one by one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncc.core.flows import FloatArray
from ncc.results.palette import label, styles
from ncc.results.plot import new_figure, save_figure
from ncc.study.agreement.compare import Compared, Figure, FlowByFlow
from ncc.study.agreement.run import Summary
from ncc.study.agreement.small import FCT_FRAC, fct_error_frac

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY, BAND = "#777777", "#e4efe6"
POINTS = 4000
"""Flows drawn of a case, evenly spaced in the order of their size: more would hide each other."""
_GROUPS = (
    ("mean slowdown", ("slowdown_small_mean", "slowdown_medium_mean", "slowdown_large_mean")),
    ("p99 slowdown", ("slowdown_small_p99", "slowdown_medium_p99", "slowdown_large_p99")),
    ("uplink", ("throughput_bps", "queue_bytes")),
)
_SHORT = {
    "slowdown_small": "up to 100 KB",
    "slowdown_medium": "to 10 MB",
    "slowdown_large": "over 10 MB",
    "throughput_bps": "throughput",
    "queue_bytes": "mean queue",
}


def draw(summary: Summary, compared: Sequence[Compared], folder: Path) -> None:
    """Write every picture that the pages show."""
    _small_cases(summary, folder / "small.png")
    for controller in summary["controllers"]:
        shown = [each for each in compared if each.controller == controller]
        _ratios(summary, shown, folder / f"ratios_{controller}.png")
        _flow_by_flow(summary, shown, folder / f"flows_{controller}.png")


def _small_cases(summary: Summary, path: Path) -> None:
    """Relative difference of every flow's FCT, by case and controller; the band is the bound."""
    ours, theirs = summary["ours"], summary["reference"]
    cases = list(summary["small_cases"])
    looks = styles(summary["controllers"])
    figure, (axes,) = new_figure(1, width=9.0, height=0.9 + 0.42 * len(cases))
    axes.axvspan(-100 * FCT_FRAC, 100 * FCT_FRAC, color=BAND, lw=0)
    for i, (controller, look) in enumerate(looks.items()):
        rows = [row for row in summary["small"] if row["controller"] == controller]
        height = [cases.index(row["case"]) + 0.6 * ((i + 0.5) / len(looks) - 0.5) for row in rows]
        errors = [100 * fct_error_frac(row) for row in rows]
        axes.plot(errors, height, look.marker, color=look.colour, mec="white", mew=0.6, ms=7, label=look.label)
    axes.set_yticks(range(len(cases)), cases)
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=1e-4)
    widest = max(2 * FCT_FRAC, *(abs(fct_error_frac(row)) for row in summary["small"]))
    axes.set_xlim(-150 * widest, 150 * widest)
    axes.set_xlabel(f"FCT on {ours} over that on {theirs}, less 1 [%]; band: the bound")
    axes.set_title("Small cases, every flow", loc="left")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    save_figure(figure, path)


def _ratios(summary: Summary, compared: Sequence[Compared], path: Path) -> None:
    """Ratios with intervals by case, ours strong and the yardstick grey; bands are the bounds, hollow: not judged."""
    ours, theirs = summary["ours"], summary["reference"]
    lines = max(len(keys) for _, keys in _GROUPS) * len(compared)
    figure, panels = new_figure(len(_GROUPS), width=13.0, height=1.6 + 0.27 * lines)
    (look,) = styles([compared[0].controller]).values()
    for axes, (title, keys) in zip(panels, _GROUPS, strict=True):
        names, at = [], 0.0
        for each in compared:
            by_key = {figure.key: figure for figure in each.figures}
            for key in keys:
                if key not in by_key or np.isnan(by_key[key].ratio.estimate):
                    continue
                _mark(axes, by_key[key], at, look.colour)
                names.append((at, f"{each.case.name}, {_SHORT[key.removesuffix('_mean').removesuffix('_p99')]}"))
                at += 1
            at += 0.5
        axes.axvline(1, color="black", lw=0.8)
        axes.set_yticks([y for y, _ in names], [name for _, name in names], fontsize=8)
        axes.set_ylim(at, -1)
        axes.set_title(title, loc="left")
        axes.set_xlabel(f"{ours} over {theirs}")
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, 0.5), min(high, 2.0))
    figure.suptitle(
        f"{look.label}: ratio with 95 % interval; grey: {theirs} perturbed over {theirs}; green: "
        "the bound; hollow: too few to judge",
        x=0.01,
        ha="left",
    )
    save_figure(figure, path)


def _mark(axes: "Axes", figure: Figure, at: float, colour: str) -> None:
    if figure.low is not None and figure.high is not None:
        axes.fill_betweenx([at - 0.45, at + 0.45], figure.low, figure.high, color=BAND, lw=0)
    for interval, y, shade in ((figure.noise, at + 0.2, GREY), (figure.ratio, at - 0.1, colour)):
        axes.plot([interval.low, interval.high], [y, y], color=shade, lw=1.4)
        face = shade if figure.enough else "white"
        axes.plot(interval.estimate, y, "o", color=shade, mfc=face, ms=5 if shade == colour else 3.5)


def _flow_by_flow(summary: Summary, compared: Sequence[Compared], path: Path) -> None:
    """Above, FCT against FCT; below, how the ratios are distributed, ours strong and the yardstick dashed."""
    ours, theirs = summary["ours"], summary["reference"]
    shown = _heaviest(compared)
    figure, panels = new_figure(2 * len(shown), width=4.3 * len(shown), height=8.4, lines=2)
    (look,) = styles([compared[0].controller]).values()
    for i, (name, group) in enumerate(shown.items()):
        scatter, cdf = panels[i], panels[i + len(shown)]
        _scatter(scatter, group[-1].flows, look.colour)
        scatter.set_title(f"{group[-1].case.name}  (n = {len(group[-1].flows.ratio):,})", loc="left", fontsize=10)
        scatter.set_xlabel(f"FCT on {theirs} [ms]")
        scatter.set_ylabel(f"FCT on {ours} [ms]")
        for step, each in enumerate(group):
            strength = 0.25 + 0.75 * (step + 1) / len(group)  # the heaviest load is the darkest
            _cdf(cdf, each.flows.ratio, color=look.colour, alpha=strength, label=each.case.name)
            _cdf(cdf, each.flows.noise, color=GREY, ls="--", alpha=strength)
        cdf.set_xlim(0.5, 2.0)
        cdf.set_xscale("log")
        cdf.set_xticks([0.5, 0.7, 0.9, 1.0, 1.1, 1.4, 2.0], ["0.5", "0.7", "0.9", "1", "1.1", "1.4", "2"])
        cdf.set_xticks([], minor=True)
        cdf.set_ylim(0, 1)
        cdf.set_title(name, loc="left", fontsize=10)
        cdf.set_xlabel(f"FCT over that on {theirs}")
        cdf.set_ylabel("share of flows")
        cdf.legend(loc="upper left", frameon=False, fontsize=8)
    figure.suptitle(
        f"{label(compared[0].controller)}, flow by flow; dashed: {theirs} perturbed over {theirs}",
        x=0.01,
        ha="left",
    )
    save_figure(figure, path)


def _heaviest(compared: Sequence[Compared]) -> dict[str, list[Compared]]:
    """Cases that differ in their load alone, lightest first."""
    groups: dict[str, list[Compared]] = {}
    for each in compared:
        name, _, load = each.case.name.rpartition("_")
        groups.setdefault(name if name and load.isdigit() else each.case.name, []).append(each)
    return groups


def _scatter(axes: "Axes", flows: FlowByFlow, colour: str) -> None:
    order = np.argsort(flows.size_bytes, kind="stable")
    drawn = order[np.unique(np.linspace(0, len(order) - 1, min(POINTS, len(order))).astype(int))]
    x, y = 1e3 * flows.reference_fct_s[drawn], 1e3 * flows.fct_s[drawn]
    ends = np.array([0.8 * min(x.min(), y.min()), 1.25 * max(x.max(), y.max())])
    axes.plot(ends, ends, color="black", lw=0.8)
    axes.plot(x, y, ".", ms=4, color=colour, alpha=0.35, mew=0, rasterized=True)
    axes.set(xscale="log", yscale="log", xlim=tuple(ends), ylim=tuple(ends))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")


def _cdf(axes: "Axes", ratio: FloatArray, **look: Any) -> None:
    share = np.linspace(0, 1, 801)
    axes.plot(np.quantile(ratio, share), share, lw=1.5, **look)
