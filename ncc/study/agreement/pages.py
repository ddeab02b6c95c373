# SPDX-License-Identifier: BSD-3-Clause
"""The page of a comparison: a table with a row for each controller, and a list of all that is outside its bounds."""

from ncc.metrics.catalogue import CATALOGUE
from ncc.results.palette import label
from ncc.study.agreement import compare
from ncc.study.agreement.cases import JITTER_NS
from ncc.study.agreement.compare import Row
from ncc.study.agreement.run import Summary
from ncc.study.agreement.small import FCT_FRAC, PACKETS, fct_error_frac
from ncc.study.page import render, spread

_OWN = {"throughput_bps": "Throughput of the uplink", "queue_bytes": "Queue at the uplink, mean"}


def page(summary: Summary) -> str:
    """Render the page of a comparison, as Markdown."""
    bounds = {name: value for name, value in vars(compare).items() if name.isupper()}
    return render(
        "agreement.md.jinja",
        **summary,
        bounds={**bounds, "FCT_FRAC": FCT_FRAC, "PACKETS": PACKETS, "JITTER_US": JITTER_NS / 1000},
        cases={case["case"]: case["what"] for case in summary["load"]},
        rows=[_row(summary, name) for name in summary["controllers"]],
        outside=[*map(_small, (row for row in summary["small"] if not row["inside"])), *_loaded(summary)],
    )


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
    """Describe the differences of a flow of a small case that is outside its bounds."""
    parts = [f"FCT {100 * fct_error_frac(row):+.4f} %"]
    for name, what in (("retransmitted_pkts", "retransmissions"), ("timeouts", "timeouts"), ("ce_pkts", "marks")):
        a, b = row[name]
        parts += [f"{what} {a} / {b}"] * (a != b)
    return f"`{row['case']}`, {label(row['controller'])}, flow {row['flow']}: {', '.join(parts)}"


def _loaded(summary: Summary) -> list[str]:
    """Describe the figures under load that are outside their bounds, and the invalid runs."""
    lines = []
    for case in summary["load"]:
        where = f"`{case['case']}`, {label(case['controller'])}"
        lines += [f"{where}: invalid run: {problem}" for problem in case["problems"]]
        outside = ((key, figure) for key, figure in case["figures"].items() if figure["verdict"] == "outside")
        lines += [f"{where}: {_title(key)}: ratio {spread(*figure['ratio'])}" for key, figure in outside]
    return lines


def _title(key: str) -> str:
    title = _OWN[key] if key in _OWN else CATALOGUE[key].title
    return title.replace("<", "&lt;").replace(">", "&gt;")
