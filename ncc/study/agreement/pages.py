# SPDX-License-Identifier: BSD-3-Clause
"""The comparison as Markdown: one page with a row per controller, and tables of every figure on demand."""

from collections.abc import Iterable

from ncc.core.errors import UnknownNameError
from ncc.metrics.catalogue import CATALOGUE
from ncc.results.palette import label
from ncc.study.agreement import compare
from ncc.study.agreement.cases import JITTER_NS
from ncc.study.agreement.run import Summary
from ncc.study.agreement.small import FCT_FRAC, PACKETS, Row, fct_error_frac
from ncc.study.page import number, render, spread

_OWN = {
    "throughput_bps": ("Throughput of the uplink (Gbps)", 1e-9, 3),
    "queue_bytes": ("Queue at the uplink, mean (KB)", 1e-3, 2),
}


def page(summary: Summary) -> str:
    """The Markdown of the page; its picture lies beside it already."""
    bounds = {name: value for name, value in vars(compare).items() if name.isupper()}
    return render(
        "agreement.md.jinja",
        **summary,
        bounds={**bounds, "FCT_FRAC": FCT_FRAC, "PACKETS": PACKETS, "JITTER_US": JITTER_NS / 1000},
        cases={case["case"]: case["what"] for case in summary["load"]},
        rows=[_row(summary, name) for name in summary["controllers"]],
        outside=[*map(_small, (row for row in summary["small"] if not row["inside"])), *_loaded(summary)],
    )


def tables(summary: Summary, controllers: Iterable[str]) -> str:
    """Every figure under load of some controllers, as Markdown.

    Raises:
        UnknownNameError: a controller that was not compared.
    """
    texts = []
    for name in controllers:
        if name not in summary["controllers"]:
            raise UnknownNameError("controller of the report", name, summary["controllers"])
        cases = [case for case in summary["load"] if case["controller"] == name]
        rows = {case["case"]: [_figure(key, figure) for key, figure in case["figures"].items()] for case in cases}
        texts.append(render("agreement_controller.md.jinja", **summary, controller=name, cases=cases, rows=rows))
    return "\n".join(texts)


def _row(summary: Summary, controller: str) -> list[str]:
    small, load = ([row for row in summary[key] if row["controller"] == controller] for key in ("small", "load"))
    flows, same, noise = (sum(case[key] for case in load) for key in ("n_flows", "flows_same", "flows_same_noise"))
    figures = [f for case in load for f in case["figures"].values() if f["verdict"] in ("inside", "outside")]
    noisy = [f for f in figures if f["noise"][0] is not None and not f["bound"][0] <= f["noise"][0] <= f["bound"][1]]
    return [
        label(controller),
        f"{sum(row['inside'] for row in small)} of {len(small)}",
        f"{flows:,}",
        f"{same:,}",
        f"{noise / flows:.1%}",
        f"{sum(f['verdict'] == 'inside' for f in figures)} of {len(figures)}",
        f"{len(figures) - len(noisy)} of {len(figures)}",
    ]


def _small(row: Row) -> str:
    """A flow of a small case that is outside."""
    parts = [f"FCT {100 * fct_error_frac(row):+.4f} %"]
    for name, what in (("retransmitted_pkts", "retransmissions"), ("timeouts", "timeouts"), ("ce_pkts", "marks")):
        a, b = row[name]
        parts += [f"{what} {a} / {b}"] * (a != b)
    return f"`{row['case']}`, {label(row['controller'])}, flow {row['flow']}: {', '.join(parts)}"


def _loaded(summary: Summary) -> list[str]:
    """Figures under load that are outside, and runs that must not be used."""
    found = []
    for case in summary["load"]:
        where = f"`{case['case']}`, {label(case['controller'])}"
        found += [f"{where}: invalid run: {problem}" for problem in case["problems"]]
        outside = ((key, figure) for key, figure in case["figures"].items() if figure["verdict"] == "outside")
        found += [f"{where}: {_title(key)}: ratio {spread(*figure['ratio'])}" for key, figure in outside]
    return found


def _title(key: str) -> str:
    title = _OWN[key][0] if key in _OWN else CATALOGUE[key].title
    return title.replace("<", "&lt;").replace(">", "&gt;")


def _figure(key: str, figure: Row) -> list[str]:
    _, scale, digits = _OWN.get(key) or (key, CATALOGUE[key].scale, CATALOGUE[key].digits)
    ratios = [spread(*figure[name]) if figure[name][0] is not None else "" for name in ("ratio", "noise")]
    return [
        _title(key),
        f"{figure['n']:,}",
        number(figure["reference"], scale, digits),
        number(figure["ours"], scale, digits),
        *ratios,
        "{:.2f} to {:.2f}".format(*figure["bound"]) if figure["bound"] else "",
        "**outside**" if figure["verdict"] == "outside" else figure["verdict"] or "",
    ]
